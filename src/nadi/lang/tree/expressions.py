"""Expressions."""

# ruff: noqa: RUF009 - span_field() is a dataclass field, which the rule does not see

from __future__ import annotations

from dataclasses import dataclass

from nadi.errors import Span
from nadi.lang.tree.types import Type, span_field


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal; int, long, float, double, bool or string by `type`. A float is held rounded to 32 bits."""

    value: bool | int | float | str
    type: Type
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class TimeConstant:
    """`1 hour 30 min`: a long in milliseconds; `units` holds the amounts as written, with normalised unit names."""

    milliseconds: int
    units: tuple[tuple[int, str], ...]
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class Variable:
    """`attr`, `S.attr`, `#I.attr`, `!S.attr`, `e1[2].attr`, `e1[last - 1].attr`.

    `stream` is the qualifier or None; `index` is None where none is written, n for `[n]`, -1 for `[last]`, -1-k for `[last - k]`.
    """

    name: str
    stream: str | None = None
    index: int | None = None
    inner: bool = False
    fault: bool = False
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """`ns:name(args)`; `star` for `name(*)`. Also stream functions, windows and their arguments."""

    name: str
    args: tuple[Expression, ...] = ()
    namespace: str = ""
    star: bool = False
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class Not:
    """`not x`."""

    operand: Expression
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class Binary:
    """`left op right`; op is one of `* / % + - < <= > >= == != and or` (lower case).

    Chains (`a or b or c …`) lean to the left and may be thousands of links long: walk them with `links`. Equality and hash do so; the
    representation, copying and pickling recurse, and end at a few hundred links.
    """

    op: str
    left: Expression
    right: Expression
    span: Span = span_field()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Binary):
            return NotImplemented
        one, two = self, other
        while one is not two:
            if one.op != two.op or one.right != two.right:
                return False
            if not (isinstance(one.left, Binary) and isinstance(two.left, Binary)):
                return one.left == two.left
            one, two = one.left, two.left
        return True

    def __hash__(self) -> int:
        chain = links(self)
        made = hash(chain[0].left)
        for link in chain:
            made = hash((made, link.op, link.right))
        return made


def links(node: Binary) -> list[Binary]:
    """The operators of a chain that leans to the left, innermost first; `node` is the last one."""
    chain = [node]
    while isinstance(left := chain[-1].left, Binary):
        chain.append(left)
    chain.reverse()
    return chain


@dataclass(frozen=True, slots=True)
class In:
    """`condition in Table`."""

    condition: Expression
    table: str
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class IsNull:
    """`x is null` of an attribute or function."""

    operand: Expression
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class IsNullStream:
    """`e1 is null`, `e1[1] is null`, `e1[last] is null`; `index` as in Variable.

    A lone name `x is null` is read as IsNull(Variable(x)); binding decides whether x is a stream reference.
    """

    stream: str
    index: int | None = None
    inner: bool = False
    fault: bool = False
    span: Span = span_field()


Expression = Constant | TimeConstant | Variable | FunctionCall | Not | Binary | In | IsNull | IsNullStream
