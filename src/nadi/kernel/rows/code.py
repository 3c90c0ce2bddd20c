"""One expression of the plan → one Python expression (semantics/expressions.md).

`Writer` turns a plan expression into text that reads the rows by the names of its *places* and does Java's arithmetic in line:

    price * 2 > 100         (price int)
    row[1] is not None and ((row[1] * 2 + 0x80000000 & 0xFFFFFFFF) - 0x80000000) > 100

Null is None. Every text is written in parentheses where precedence could matter; intermediate values that are needed twice are bound with `:=`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from ctypes import c_float
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Protocol, runtime_checkable

from nadi.errors import error
from nadi.functions import arithmetic
from nadi.functions.arithmetic import WrongClass, told
from nadi.functions.registry import Registry
from nadi.kernel.rows.events import Row
from nadi.kernel.rows.flow import Flow
from nadi.kernel.rows.tables import TableRuntime, asks_for_key, lookup_of
from nadi.lang.tree import Type
from nadi.plan.catalog import Argument
from nadi.plan.nodes import (
    TABLE,
    Aggregate,
    Arithmetic,
    Attr,
    AttrList,
    Call,
    Comparison,
    Const,
    Expr,
    InTable,
    Logic,
    Negation,
    NullCheck,
    Operator,
    SlotNullCheck,
    links,
)

ROW, ROWS, EVENTS = "row", "rows", "events"
"""Shapes of an input: one row; a row or None per slot; a list of events or None per slot."""

BETWEEN = "\x1f"
"""Stands between the values of a group key."""


@runtime_checkable
class Stored(Protocol):
    """A table in a store: conditions are put to it once, and answered for the values of an event."""

    def question(self, on: Expr | None) -> Question: ...

    @property
    def sought(self) -> Any: ...


class Question(Protocol):
    """A condition that was put to a store."""

    @property
    def values(self) -> tuple[Expr, ...]: ...


class Searchable(Protocol):
    """What `in` looks through: an in-memory table or a named window."""

    def rows(self) -> Iterable[Row]:
        """The rows held now."""
        ...


@dataclass(frozen=True, slots=True)
class Code:
    """`text` is a Python expression. `atom`: it is short and pure, so it may stand twice."""

    text: str
    nullable: bool = True
    atom: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """How a slot is read: the Python name it has, and its shape (`ROW`: never None)."""

    name: str
    shape: str


_TRUE_WIDTH = {Type.INT: ("0x80000000", "0xFFFFFFFF"), Type.LONG: ("0x8000000000000000", "0xFFFFFFFFFFFFFFFF")}
_MOST_BRACKETS = 60
_LINKS_AT_ONCE = 8
_WHOLE = (Type.INT, Type.LONG)
_ALWAYS_BOOL = (Comparison, Logic, Negation, NullCheck, SlotNullCheck, InTable)


_NOT_PLAIN = re.compile(r"[^A-Za-z0-9_]")


class Writer:
    """Writes the expressions of one generated function.

    `names` is what the text refers to, `place_of` gives the place of a slot; `parts` are functions to be defined inside the generated one, before
    the text is run.
    """

    def __init__(
        self, flow: Flow, tables: Mapping[str, Searchable], place_of: Callable[[int], Place], timestamp: str = "ts"
    ) -> None:
        self.names: dict[str, object] = {"flow": flow, "c_float": c_float}
        self._registry: Registry = flow.registry
        self._tables = tables
        self._place_of = place_of
        self._timestamp = timestamp
        self._bound: dict[tuple[str, int], str] = {}  # by id: `names` keeps the objects alive
        self._taken: dict[str, int] = {}
        self._temporaries = 0
        self.parts: list[str] = []
        self._table_row: Place | None = None

    # ---- names

    def bind(self, name: str, value: object) -> str:
        """A name for an object that the text uses; the same object keeps its name."""
        name = _NOT_PLAIN.sub("_", name)  # what an app calls its tables and functions must never be read as code
        known = self._bound.get((name, id(value)))
        if known is not None:
            return known
        found = name
        while found in self.names:
            self._taken[name] = self._taken.get(name, 0) + 1
            found = f"{name}_{self._taken[name]}"
        self.names[found] = value
        self._bound[name, id(value)] = found
        return found

    def _temporary(self) -> str:
        self._temporaries += 1
        return f"v{self._temporaries}"

    def _twice(self, code: Code) -> tuple[str, str]:
        """The text at the first place, and at later ones."""
        if code.atom:
            return code.text, code.text
        name = self._temporary()
        return f"({name} := {code.text})", name

    # ---- expressions

    def code(self, expr: Expr) -> Code:
        """The text of an expression."""
        match expr:
            case Const():
                return self._constant(expr)
            case Attr():
                return self._attribute(expr)
            case AttrList(slot, position):
                name = self._place(slot).name
                return Code(f"[e[2][{position}] for e in {name} or ()]", nullable=False)
            case Call():
                return self._call(expr)
            case Aggregate():
                return Code(f"aggregates[{expr.number}]", atom=True)
            case Arithmetic() | Comparison() | Logic():
                return self._chain(expr)
            case Negation(operand):
                return Code(f"(not {self.truth(operand)})", nullable=False)
            case NullCheck(operand):
                code = self._part(operand)
                # what is never null may be a literal, of which Python warns here; it is computed all the same, as it may fail
                text = f"{code.text} is None" if code.nullable else f"({code.text}, False)[1]"
                return Code(f"({text})", nullable=False)
            case SlotNullCheck(slot, index):
                return self._slot_null(slot, index)
            case InTable():
                return self._in_table(expr)

    def _part(self, expr: Expr) -> Code:
        """The code of a part of an expression; what has many brackets becomes a function of its own: Python nests 200 at most."""
        code = self.code(expr)
        if code.text.count("(") + code.text.count("[") <= _MOST_BRACKETS:
            return code
        name = self._temporary()
        given = self._table_row.name if self._table_row is not None else ""
        self.parts.append(f"def {name}({given}): return {code.text}")
        return Code(f"{name}({given})", code.nullable)

    def truth(self, expr: Expr) -> str:
        """The text of a condition as True or False: null counts as false."""
        return _truth(self._part(expr).text, expr)

    def key(self, exprs: tuple[Expr, ...]) -> str:
        """The text of a group key: the string forms of the values, one after the other."""
        parts = [self._key_part(e) for e in exprs]
        return parts[0] if len(parts) == 1 else f" + {BETWEEN!r} + ".join(parts)

    def _key_part(self, expr: Expr) -> str:
        code = self.code(expr)
        first, later = self._twice(code)
        if expr.type is Type.STRING:
            return f"({first} if type({later}) is str else java_text({later}))" if code.atom else self._text_of(code)
        if expr.type in _WHOLE:
            return f"('null' if {first} is None else str({later}))"
        return self._text_of(code)

    def _text_of(self, code: Code) -> str:
        return f"{self.bind('java_text', arithmetic.java_text)}({code.text})"

    # ---- leaves

    def _constant(self, expr: Const) -> Code:
        value = expr.value
        if value is None:
            return Code("None", atom=True)
        if expr.type is Type.FLOAT and isinstance(value, (int, float)):
            value = arithmetic.to_float32(value)
        elif expr.type is Type.DOUBLE and isinstance(value, (int, float)):
            value = float(value)
        if isinstance(value, float) and not math.isfinite(value):
            return Code(self.bind("number", value), nullable=False, atom=True)
        text = repr(value)
        return Code(f"({text})" if text.startswith("-") else text, nullable=False, atom=True)

    def _place(self, slot: int) -> Place:
        if slot == TABLE and self._table_row is not None:
            return self._table_row
        return self._place_of(slot)

    def _attribute(self, expr: Attr) -> Code:
        place = self._place(expr.slot)
        if place.shape == ROW:
            return Code(f"{place.name}[{expr.position}]", atom=True)
        if place.shape == ROWS:
            return Code(f"(None if {place.name} is None else {place.name}[{expr.position}])")
        index = -1 if expr.index is None else expr.index
        return Code(f"({place.name}[{index}][2][{expr.position}] if {_reaches(place.name, index)} else None)")

    def _slot_null(self, slot: int, index: int | None) -> Code:
        place = self._place(slot)
        if place.shape == EVENTS:
            return Code(f"(not ({_reaches(place.name, 0 if index is None else index)}))", nullable=False)
        return Code(f"({place.name} is None)", nullable=False)

    # ---- operators

    def _chain(self, expr: Operator) -> Code:
        """Operators that lean to the left, the innermost first.

        Logic is written flat. Of the others, every few are bound to a name before the next ones are written: `(v1 := …, v2 := … v1 …, … v2 …)[-1]`.
        """
        chain = links(expr)
        first = chain[0]
        left = self._number(first.left) if isinstance(first, Arithmetic) else self._part(first.left)
        bound: list[str] = []
        for op, run in groupby(chain, key=lambda link: link.op if isinstance(link, Logic) else ""):
            same = list(run)
            if op:
                terms = [_truth(left.text, same[0].left), *(self.truth(link.right) for link in same)]
                left = Code(f"({f' {op} '.join(terms)})", nullable=False)
                continue
            for number, link in enumerate(same, start=1):
                match link:
                    case Arithmetic():
                        left = self._arithmetic(link, left)
                    case Comparison():
                        left = self._comparison(link, left)
                if number % _LINKS_AT_ONCE == 0 and link is not expr:
                    name = self._temporary()
                    bound.append(f"{name} := {left.text}")
                    left = Code(name, left.nullable, atom=True)
        return Code(f"({', '.join([*bound, left.text])})[-1]", left.nullable) if bound else left

    def _arithmetic(self, expr: Arithmetic, left: Code) -> Code:
        right = self._number(expr.right)
        guards: list[str] = []
        one, other = (
            self._operand(left, expr.left, expr.type, guards),
            self._operand(right, expr.right, expr.type, guards),
        )
        if expr.op in "/%" and not (isinstance(expr.right, Const) and expr.right.value):
            name = other
            if not (right.atom or right.nullable):
                name = self._temporary()
                guards.append(f"({name} := {other}) == 0")
            else:
                guards.append(f"{other} == 0")
            other = name
        text = self._operation(expr.op, one, other, expr.type)
        if not guards:
            return Code(text, nullable=False)
        return Code(f"(None if {' or '.join(guards)} else {text})")

    def _number(self, expr: Expr) -> Code:
        """A cast may carry a number of another class into arithmetic, where Java takes its value in the declared type."""
        code = self._part(expr)
        if isinstance(expr, Call) and expr.function == "cast":
            convert = self.bind("number_as", _number_as)
            return Code(f"{convert}({code.text}, {self.bind(f'{expr.type}_type', expr.type)})")
        return code

    def _operand(self, code: Code, expr: Expr, kind: Type, guards: list[str]) -> str:
        """The text of an operand, promoted; a guard for null is added where it may be null."""
        text = code.text
        if code.nullable:
            first, text = self._twice(code)
            guards.append(f"{first} is None")
        if kind is Type.FLOAT and expr.type in _WHOLE:
            return self._rounded(text, expr.type)
        return text

    def _rounded(self, text: str, kind: Type) -> str:
        if kind is Type.LONG:
            return f"{self.bind('to_float32', arithmetic.to_float32)}({text})"
        return f"c_float({text}).value"

    def _operation(self, op: str, left: str, right: str, kind: Type) -> str:
        if op == "%":
            function = arithmetic.remainder_ints if kind in _WHOLE else arithmetic.remainder_floats
            text = f"{self.bind(function.__name__, function)}({left}, {right})"
        elif op == "/" and kind in _WHOLE:
            text = f"{self.bind('divide_ints', arithmetic.divide_ints)}({left}, {right})"
        else:
            text = f"{left} {op} {right}"
        if kind in _WHOLE:
            half, mask = _TRUE_WIDTH[kind]
            return f"(({text} + {half} & {mask}) - {half})"
        return f"c_float({text}).value" if kind is Type.FLOAT else f"({text})"

    def _comparison(self, expr: Comparison, left: Code) -> Code:
        """`!=` is true where a side is null, the others are false (semantics/expressions.md#null)."""
        right = self._part(expr.right)
        differs = expr.op == "!="
        guards: list[str] = []
        texts = []
        for code, kind, is_right in ((left, expr.left.type, False), (right, expr.right.type, True)):
            widened = self._widening(kind, expr.common)
            text = code.text
            # against null, == is False and != is True by themselves if the other side is known not to be null
            settled = expr.op in ("==", "!=") and widened is None and (is_right or not right.nullable)
            if code.nullable and not settled:
                first, text = self._twice(code)
                guards.append(f"{first} is {'' if differs else 'not '}None")
            texts.append(text if widened is None else widened(text))
        whole = [*guards, f"{texts[0]} {expr.op} {texts[1]}"]
        return Code(f"({(' or ' if differs else ' and ').join(whole)})", nullable=False)

    def _widening(self, kind: Type, common: Type | None) -> Callable[[str], str] | None:
        """How a side gets into the common type; None where Python compares it rightly as it is."""
        if common is Type.FLOAT and kind in _WHOLE:
            return lambda text: self._rounded(text, kind)
        if common is Type.DOUBLE and kind is Type.LONG:
            return lambda text: f"float({text})"
        return None

    # ---- functions

    def _call(self, expr: Call) -> Code:
        """A function that gives a bool gives false for null (semantics/expressions.md#null)."""
        code = self._called(expr)
        cast = expr.function == "cast" and expr.args[0].type is not Type.BOOL
        if expr.type is not Type.BOOL or not (code.nullable or cast):
            return code
        if expr.function == "cast":
            return Code(f"{self.bind('bool_of', _bool_of)}({code.text})", nullable=False)
        return Code(f"({code.text} is True)", nullable=False)

    def _called(self, expr: Call) -> Code:
        function = self._registry.function(expr.function)
        if function is None:
            raise error("FUNCTION_NOT_FOUND", name=expr.function, hint="the app was planned with another registry")
        match function.inline:
            case "cast":
                return self.code(expr.args[0])
            case "coalesce":
                return self._coalesce(expr.args)
            case "ifThenElse":
                condition, then, otherwise = expr.args
                one, other = self._part(then), self._part(otherwise)
                text = f"({one.text} if {self.truth(condition)} else {other.text})"
                return Code(text, one.nullable or other.nullable)
            case "now":
                return Code("flow.now", nullable=False, atom=True)
            case "timestamp":
                return self._timestamp_of(expr)
        arguments = tuple(argument_of(a) for a in expr.args)
        name = self.bind(f"call_{expr.function}", function.make(arguments, expr.type))
        supplied = {
            "now": "flow.now",
            "timestamp": self._timestamp,
            "unique": "flow.unique()",
            "properties": "flow.properties",
        }
        texts = [*(supplied[n] for n in function.needs), *(self._part(a).text for a in expr.args)]
        return Code(f"{name}({', '.join(texts)})")

    def _coalesce(self, args: tuple[Expr, ...]) -> Code:
        last = self._part(args[-1])
        text, nullable = last.text, last.nullable
        for argument in reversed(args[:-1]):
            code = self._part(argument)
            if not code.nullable:
                text, nullable = code.text, False
                continue
            first, later = self._twice(code)
            text = f"({later} if {first} is not None else {text})"
        return Code(text, nullable)

    def _timestamp_of(self, expr: Call) -> Code:
        if expr.slot is None:
            return Code(self._timestamp, nullable=False, atom=True)
        place = self._place(expr.slot)
        if place.shape != EVENTS:
            return Code(self._timestamp, nullable=False, atom=True)
        index = -1 if expr.index is None else expr.index
        return Code(f"({place.name}[{index}][1] if {_reaches(place.name, index)} else None)")

    # ---- in

    def _in_table(self, expr: InTable) -> Code:
        """Looks up by primary key or index where the condition fixes one, and goes through all rows otherwise."""
        table = self._tables[expr.table]
        if isinstance(table, Stored):
            table.sought.used = True
            question = table.question(expr.condition)
            made = "".join(f"{self.code(v).text}, " for v in question.values)
            sought, asked = self.bind(f"sought_in_{expr.table}", table.sought), self.bind("question", question)
            return Code(f"{sought}.contains({asked}, ({made}))", nullable=False)
        columns, values = lookup_of(expr.condition, table.table) if isinstance(table, TableRuntime) else ((), ())
        row = self._temporary()
        before, self._table_row = self._table_row, Place(row, ROW)
        condition = self.truth(expr.condition)
        self._table_row = before
        if isinstance(table, TableRuntime):
            table.sought.used = True
        sought = self.bind(f"sought_in_{expr.table}", table.sought if isinstance(table, TableRuntime) else table)
        if not columns:
            return Code(f"any({condition} for {row} in {sought}.rows())", nullable=False)
        key = self._temporary()
        made = "".join(f"{self.code(v).text}, " for v in values)
        if isinstance(table, TableRuntime) and asks_for_key(expr.condition, table.table):  # null finds null
            condition = " and ".join(f"{row}[{column}] == {key}[{n}]" for n, column in enumerate(columns))
        found = f"any({condition} for {row} in {sought}.lookup({columns!r}, {key}))"
        return Code(f"(({key} := ({made})) is not None and {found})", nullable=False)


def _truth(text: str, expr: Expr) -> str:
    return text if isinstance(expr, _ALWAYS_BOOL) else f"({text} is True)"


def _reaches(name: str, index: int) -> str:
    """Whether the list of a slot has an event at the index."""
    if index in (0, -1):
        return name
    return f"{name} and len({name}) >= {index + 1 if index >= 0 else -index}"


def _bool_of(value: object) -> bool:
    """What was cast to a bool must be one."""
    if value is None or type(value) is bool:
        return value is True
    raise WrongClass(f"{told(value)} is not a bool")


def _number_as(value: float | None, kind: Type) -> float | None:
    return None if value is None else arithmetic.number_as(value, kind)


def argument_of(expr: Expr) -> Argument:
    """An argument as a function's `make` sees it."""
    if isinstance(expr, Const):
        return Argument(expr.type, True, expr.value)
    if isinstance(expr, (Attr, AttrList)):
        return Argument(expr.type, attribute=expr.name)
    return Argument(expr.type)
