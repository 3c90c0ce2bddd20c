"""Typed expressions.

`slot` names one of the rows that an expression sees; what the slots of a place are depends on where it stands:

    single-stream query   0 the event (after the stream functions so far, whose attributes are appended)
    join                  0 left, 1 right (None where an outer join found no match)
    pattern, sequence     k the k-th element, in textual order
    table condition, set  0 the output event of the query (or the enclosing event for `in`), and `TABLE` the table's row
    having, order by      `OUTPUT` the output row; joins and patterns fall back to their input slots
"""

from __future__ import annotations

from dataclasses import dataclass, field

from nadi.lang.tree import Type
from nadi.plan.aggregatortraits import AggregatorTraits, OnColumns

OUTPUT = -1
TABLE = -2


@dataclass(frozen=True, slots=True)
class Const:
    """A constant; None is null (which only planning makes)."""

    value: bool | int | float | str | None
    type: Type


@dataclass(frozen=True, slots=True)
class Attr:
    """Attribute `position` of the row in `slot`.

    `index` is None except for elements of patterns: n ≥ 0 the n-th bound event, -1 the last, -1-k the k-th before the last.
    """

    slot: int
    position: int
    type: Type
    index: int | None = None
    name: str = ""


@dataclass(frozen=True, slots=True)
class AttrList:
    """All bound values of an attribute of a counted element, as a list (un-indexed reference in a selection; type object)."""

    slot: int
    position: int
    type: Type = Type.OBJECT
    name: str = ""


@dataclass(frozen=True, slots=True)
class Call:
    """A scalar function: `function` is its registered name ("ns:name", or "name" without a namespace).

    Functions that need more than their arguments (currentTimeMillis, eventTimestamp, UUID …) say so in the registry.
    `slot` is set for eventTimestamp(e1): the element meant.
    """

    function: str
    args: tuple[Expr, ...]
    type: Type
    slot: int | None = None
    index: int | None = None


@dataclass(frozen=True, slots=True)
class Aggregate:
    """An aggregator inside a selection; `number` counts them within the query from 0. `traits` follow from the name."""

    function: str
    args: tuple[Expr, ...]
    type: Type
    number: int
    traits: AggregatorTraits = field(compare=False, repr=False)

    def has(self, any_of: OnColumns) -> bool:
        """Whether there is one of these on columns for the aggregator."""
        return bool(self.traits.columns & any_of)


# Operators in a row (`a or b or c …`) lean to the left and may be thousands: see `links`. Equality and hash do not recurse along them;
# the representation, copying and pickling do, and end at a few hundred.


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """`+ - * / %` computed in `type` (both sides are promoted to it), null on null or zero division."""

    op: str
    left: Expr
    right: Expr
    type: Type

    def __eq__(self, other: object) -> bool:
        return _same(self, other) if isinstance(other, Arithmetic) else NotImplemented

    def __hash__(self) -> int:
        return _hash(self)


@dataclass(frozen=True, slots=True)
class Comparison:
    """`< <= > >= == !=`; numbers are compared in `common` (None for string, bool)."""

    op: str
    left: Expr
    right: Expr
    common: Type | None = None
    type: Type = Type.BOOL

    def __eq__(self, other: object) -> bool:
        return _same(self, other) if isinstance(other, Comparison) else NotImplemented

    def __hash__(self) -> int:
        return _hash(self)


@dataclass(frozen=True, slots=True)
class Logic:
    """`and`, `or`: null counts as false, the right side is evaluated only if needed."""

    op: str
    left: Expr
    right: Expr
    type: Type = Type.BOOL

    def __eq__(self, other: object) -> bool:
        return _same(self, other) if isinstance(other, Logic) else NotImplemented

    def __hash__(self) -> int:
        return _hash(self)


@dataclass(frozen=True, slots=True)
class Negation:
    """`not x`: of null it is true."""

    operand: Expr
    type: Type = Type.BOOL


@dataclass(frozen=True, slots=True)
class NullCheck:
    """`x is null`."""

    operand: Expr
    type: Type = Type.BOOL


@dataclass(frozen=True, slots=True)
class SlotNullCheck:
    """`e1 is null`, `e1[n] is null`: nothing is bound there."""

    slot: int
    index: int | None
    type: Type = Type.BOOL


@dataclass(frozen=True, slots=True)
class InTable:
    """`condition in T`: some row of the table or named window satisfies it; in the condition `TABLE` is that row."""

    table: str
    condition: Expr
    type: Type = Type.BOOL


Expr = (
    Const
    | Attr
    | AttrList
    | Call
    | Aggregate
    | Arithmetic
    | Comparison
    | Logic
    | Negation
    | NullCheck
    | SlotNullCheck
    | InTable
)

Operator = Arithmetic | Comparison | Logic
"""What has a left and a right side."""


def links(expr: Operator) -> list[Operator]:
    """The operators of a chain that leans to the left, innermost first; `expr` is the last one.

    >>> one, two, three = (Const(n, Type.INT) for n in (1, 2, 3))
    >>> total = Arithmetic("-", Arithmetic("+", one, two, Type.INT), three, Type.INT)
    >>> [link.op for link in links(total)]
    ['+', '-']
    """
    chain = [expr]
    while isinstance(left := chain[-1].left, (Arithmetic, Comparison, Logic)):
        chain.append(left)
    chain.reverse()
    return chain


def _same(one: Operator, two: Operator) -> bool:
    chain, other = links(one), links(two)
    return (
        len(chain) == len(other)
        and all(_own(a) == _own(b) for a, b in zip(chain, other, strict=True))
        and chain[0].left == other[0].left
    )


def _hash(expr: Operator) -> int:
    chain = links(expr)
    return hash((chain[0].left, *(_own(link) for link in chain)))


def _own(link: Operator) -> tuple[object, ...]:
    """All of an operator but its left side."""
    return type(link), link.op, link.right, link.type, link.common if isinstance(link, Comparison) else None
