"""One expression of the plan → lines of a generated loop (semantics/expressions.md).

`Writer` writes straight lines, a name for each value and one for whether it is null:

    price * 2 > 100         (price int)

    a2 = int(c2[i])
    z2 = m2[i]
    v1 = wrap_int(a2 * 2)
    v2 = (not z2) and v1 > 100

Nothing is left out for being not needed, as nothing in them can fail: what could is not supported here and runs on rows. What is not written
here must be refused in `nadi.plan.columns.islands`, which tells why.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from nadi.errors import error
from nadi.functions.arithmetic import to_float32
from nadi.kernel.columns.calls import CALLS
from nadi.kernel.columns.numbers import Numbers
from nadi.kernel.columns.stretch import DTYPES, Array, Column, values_of
from nadi.kernel.columns.terms import Term
from nadi.lang.tree import Type
from nadi.plan.nodes import (
    OUTPUT,
    Aggregate,
    Arithmetic,
    Attr,
    Call,
    Comparison,
    Const,
    Expr,
    Logic,
    Negation,
    NullCheck,
    links,
)

__all__ = ["Equal", "Prepared", "Term", "Writer"]

_WHOLE = (Type.INT, Type.LONG)
_DIVISIONS = {("/", True): "divide", ("%", True): "remainder", ("%", False): "remainder_floats"}
_WRAPS = {Type.INT: "wrap_int", Type.LONG: "wrap_long", Type.FLOAT: "to_float"}


@dataclass(frozen=True, slots=True)
class Equal:
    """Whether two strings are equal, made by Arrow before the loop: two columns, or a column and a constant."""

    left: int
    right: int | str

    @property
    def columns(self) -> tuple[int, ...]:
        """The columns that it reads."""
        return (self.left, self.right) if isinstance(self.right, int) else (self.left,)

    def made(self, columns: tuple[Column, ...]) -> Array:
        """True where both sides are there and equal."""
        other = columns[self.right].array() if isinstance(self.right, int) else pa.scalar(self.right, pa.string())
        return values_of(pc.equal(columns[self.left].array(), other).fill_null(False))


@dataclass(frozen=True, slots=True)
class Which:
    """Which of some constants a string is, -1 for none of them: made by Arrow before the loop."""

    left: int
    texts: tuple[str, ...]

    def made(self, columns: tuple[Column, ...]) -> Array:
        """The place of each string among the constants."""
        found = pc.index_in(columns[self.left].array(), pa.array(self.texts, pa.string()))
        return values_of(found.fill_null(-1))

    @property
    def columns(self) -> tuple[int, ...]:
        """The column that it reads."""
        return (self.left,)


Prepared = Equal | Which | Numbers
"""What is made before a loop is called."""


@dataclass(slots=True)
class Writer:
    """Writes the expressions of one loop over the events `i` of a stretch with columns of some types.

    `parameters` (name → dtype) and `prepared` grow with what the lines refer to: c<p> the values of column p, m<p> its nulls, p<n> what was prepared.
    `aggregates` and `outputs` are the terms of aggregators by number and of output columns, `bound` those of attributes by slot and position where another
    event than the one at hand is meant (slot > 0), and of strings at hand as numbers that can be compared with those. `opening` are the lines before all
    others: they load the app's constants.
    """

    types: tuple[Type, ...]
    lines: list[str] = field(default_factory=list)
    parameters: dict[str, str] = field(default_factory=dict)
    prepared: list[Prepared] = field(default_factory=list)
    aggregates: Mapping[int, Term] = field(default_factory=dict)
    outputs: Mapping[int, Term] = field(default_factory=dict)
    bound: dict[tuple[int, int], Term] = field(default_factory=dict)
    indent: str = "        "
    opening: list[str] = field(default_factory=list)
    _loaded: dict[int, Term] = field(default_factory=dict)
    _constants: dict[str, Numbers] = field(default_factory=dict)
    _count: int = 0

    # ---- lines

    def line(self, text: str) -> None:
        """A line of the loop's body."""
        self.lines.append(self.indent + text)

    @contextmanager
    def indented(self) -> Iterator[None]:
        """Lines that belong to the one before. Names that are given meanwhile are not to be used afterwards."""
        before, self.indent = self.indent, self.indent + "    "
        yield
        self.indent = before

    def open(self, text: str) -> None:
        """A line after which one indents, until `close`."""
        self.line(text)
        self.indent += "    "

    def open_all(self, conditions: Iterable[Expr]) -> int:
        """The lines after which all conditions hold; how many there are to `close`."""
        count = 0
        for condition in conditions:
            self.open(f"if {self.truth(condition)}:")
            count += 1
        return count

    def close(self, count: int = 1) -> None:
        """Go so many indents back."""
        self.indent = self.indent[4 * count :]

    def name(self, text: str) -> str:
        """A name for a value, which nothing else in the loop has."""
        self._count += 1
        made = f"v{self._count}"
        self.line(f"{made} = {text}")
        return made

    # ---- expressions

    def term(self, expr: Expr) -> Term:
        """The lines of an expression, and how its value is called."""
        match expr:
            case Const():
                return self._constant(expr)
            case Attr():
                return self._attribute(expr)
            case Aggregate():
                return self.aggregates[expr.number]
            case Arithmetic() | Comparison() | Logic():
                return self._chain(expr)
            case Negation(operand):
                return Term(self.name(f"not {self.truth(operand)}"))
            case NullCheck(operand):
                return self._null_check(operand)
            case Call():
                return self._call(expr)
            case _:
                raise error("NOT_SUPPORTED", what=f"{type(expr).__name__} on columns", alternative="the rows kernel")

    def _call(self, expr: Call) -> Term:
        """A function that gives a bool gives false for null."""
        term = CALLS[expr.function](self, expr)
        return Term(self.truth_of(term)) if expr.type is Type.BOOL else term

    def truth(self, expr: Expr) -> str:
        """The text of a condition as True or False: null counts as false."""
        return self.truth_of(self.term(expr))

    def truth_of(self, term: Term) -> str:
        """The text of a bool as True or False."""
        return self.name(f"(not {term.null}) and {term.text}") if term.null else term.text

    def _attribute(self, expr: Attr) -> Term:
        if expr.slot == OUTPUT:
            return self.outputs[expr.position]
        if expr.slot > 0:
            return self.bound[expr.slot, expr.position]
        known = self._loaded.get(expr.position)
        if known is None:
            known = self._loaded[expr.position] = self._load(expr.position)
        return known

    def known(self, position: int, term: Term) -> None:
        """Let an attribute at hand be what lines have made, instead of a column."""
        self._loaded[position] = term

    def _load(self, position: int) -> Term:
        kind = self.types[position]
        self.null_of(position)
        if kind is Type.STRING:  # read by what was prepared, or not at all
            return Term("", f"z{position}")
        self.parameters[f"c{position}"] = f"const {DTYPES[kind]}[]"
        convert = "bool" if kind is Type.BOOL else "int" if kind in _WHOLE else "float"
        self.line(f"a{position} = {convert}(c{position}[i])")
        return Term(f"a{position}", f"z{position}")

    def null_of(self, position: int) -> str:
        """The text that tells whether an attribute is null."""
        if f"m{position}" not in self.parameters:
            self.parameters[f"m{position}"] = "const bool[]"
            self.line(f"z{position} = m{position}[i]")
        return f"z{position}"

    # ---- operators

    def _chain(self, expr: Arithmetic | Comparison | Logic) -> Term:
        """Operators that lean to the left, the innermost first."""
        chain = links(expr)
        left: Term | None = None
        for link in chain:
            match link:
                case Arithmetic():
                    left = self._arithmetic(link, left or self.term(link.left))
                case Logic():
                    one = self.truth_of(left or self.term(link.left))
                    left = Term(self.name(f"{one} {link.op} {self.truth(link.right)}"))
                case Comparison():
                    left = self._comparison(link, left)
        assert left is not None  # a chain has a link
        return left

    def _arithmetic(self, expr: Arithmetic, left: Term) -> Term:
        right = self._divisor(expr) or self.term(expr.right)
        nulls = [t.null for t in (left, right) if t.null]
        one = self.promoted(left.text, expr.left.type, expr.type)
        other = self.promoted(right.text, expr.right.type, expr.type)
        if expr.op in "/%" and not (isinstance(expr.right, Const) and expr.right.value):
            zero = self.name(f"{other} == 0")
            nulls.append(zero)
            other = self.name(f"1 if {zero} else {other}")
        function = _DIVISIONS.get((expr.op, expr.type in _WHOLE))
        text = f"{function}({one}, {other})" if function else f"{one} {expr.op} {other}"
        wrap = _WRAPS.get(expr.type)
        value = self.name(f"{wrap}({text})" if wrap else text)
        return Term(value, self.either(nulls))

    def _divisor(self, expr: Arithmetic) -> Term | None:
        """A constant divisor by which the compiler multiplies instead, which takes a fraction of the time, stays in the text."""
        by = expr.right
        if expr.op not in "/%" or not isinstance(by, Const) or isinstance(by.value, str) or not by.value:
            return None
        multiplies = expr.type in _WHOLE or (expr.op == "/" and abs(math.frexp(by.value)[0]) == 0.5)
        return _literal(by) if multiplies else None

    def either(self, nulls: list[str]) -> str:
        """The text that is true where one of some texts is."""
        if len(nulls) < 2:
            return nulls[0] if nulls else ""
        return self.name(" or ".join(nulls))

    def promoted(self, text: str, kind: Type, to: Type) -> str:
        """A number in a wider type."""
        if to is Type.FLOAT and kind in _WHOLE:
            return f"to_float({text})"
        return f"float({text})" if to is Type.DOUBLE and kind in _WHOLE else text

    def _comparison(self, expr: Comparison, left: Term | None) -> Term:
        """`!=` is true where a side is null, the others are false (semantics/expressions.md#null)."""
        if expr.left.type is Type.STRING:
            return self._strings(expr)
        left, right = left or self.term(expr.left), self.term(expr.right)
        common = expr.common
        one = left.text if common is None else self.promoted(left.text, expr.left.type, common)
        other = right.text if common is None else self.promoted(right.text, expr.right.type, common)
        differs = expr.op == "!="
        guards = [t.null if differs else f"(not {t.null})" for t in (left, right) if t.null]
        return Term(self.name((" or " if differs else " and ").join([*guards, f"{one} {expr.op} {other}"])))

    def _strings(self, expr: Comparison) -> Term:
        one, other = expr.left, expr.right
        if any(isinstance(side, Attr) and side.slot > 0 for side in (one, other)):
            return self._numbers(
                expr.op, *(self.bound[s.slot, s.position] for s in (one, other) if isinstance(s, Attr))
            )
        if isinstance(one, Const) and isinstance(other, Const):
            return Term(str((one.value == other.value) == (expr.op == "==")))
        if isinstance(one, Const):
            one, other = other, one
        assert isinstance(one, Attr)  # the plan of islands lets nothing else through
        equal = Equal(one.position, other.position if isinstance(other, Attr) else str(getattr(other, "value", "")))
        name = self._prepare(equal, "const bool[]")
        return Term(self.name(f"{name}[i]" if expr.op == "==" else f"not {name}[i]"))

    def which(self, which: Which) -> str:
        """The text of which constant a string is."""
        self.prepared.append(which)
        name = f"p{len(self.prepared) - 1}"
        self.parameters[name] = "const int32[]"
        return self.name(f"{name}[i]")

    def number(self, value: float) -> str:
        """The name of a number that the app wrote: the loop gets it as a parameter, so that apps that differ in it have the same loop.

        Each call gives a new name, whether or not numbers are equal. A number that decides which lines there are is not to be one of these.
        """
        whole = isinstance(value, int)
        dtype, convert = ("int64", "int") if whole else ("float64", "float")
        numbers = self._constants.setdefault(dtype, Numbers(dtype))
        array = self._prepare(numbers, f"const {dtype}[]")
        name = f"number{len(self.opening)}"
        self.opening.append(f"{name} = {convert}({array}[{len(numbers.values)}])")
        numbers.values.append(value)
        return name

    def _constant(self, expr: Const) -> Term:
        """Null, bools and what is no finite number stay in the text: lines hang on them."""
        literal, value = _literal(expr), expr.value
        if literal.null or isinstance(value, (bool, str)) or value is None:
            return literal
        made = _number(expr, value)
        return Term(self.number(made)) if math.isfinite(made) else literal

    def _prepare(self, what: Prepared, dtype: str) -> str:
        if what not in self.prepared:
            self.prepared.append(what)
        name = f"p{self.prepared.index(what)}"
        self.parameters[name] = dtype
        return name

    def _numbers(self, op: str, one: Term, other: Term) -> Term:
        """Strings of different events, by number."""
        differs = op == "!="
        guards = [t.null if differs else f"(not {t.null})" for t in (one, other) if t.null]
        return Term(self.name((" or " if differs else " and ").join([*guards, f"{one.text} {op} {other.text}"])))

    def _null_check(self, operand: Expr) -> Term:
        null = self.term(operand).null
        return Term(null or "False")


def _number(expr: Const, value: float) -> float:
    if expr.type is Type.FLOAT:
        return to_float32(value)
    return float(value) if expr.type is Type.DOUBLE else value


def _literal(expr: Const) -> Term:
    value = expr.value
    if isinstance(value, bool) or value is None:
        return Term(repr(bool(value)), "True" if value is None else "")
    if isinstance(value, (int, float)):
        value = _number(expr, value)
    if isinstance(value, float) and not math.isfinite(value):
        return Term("nan" if value != value else f"({'-' if value < 0 else ''}1e999)")
    if value == -(2**63):
        return Term("(-9223372036854775807 - 1)")
    return Term(f"({value!r})" if isinstance(value, str) or value < 0 else repr(value))
