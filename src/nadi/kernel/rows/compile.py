"""Compiles expressions of the plan to Python functions: written as source, executed once.

The source of a compiled function is its docstring. What a value of a wrong class makes impossible raises CLASS_CAST, as Java would.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import count
from types import CodeType
from typing import Any

from nadi.functions.arithmetic import java_text
from nadi.kernel.rows.code import EVENTS, ROW, ROWS, Place, Searchable, Writer, argument_of
from nadi.kernel.rows.events import RESET, Chunk, Row, event_of
from nadi.kernel.rows.flow import Flow
from nadi.kernel.rows.misfits import MISFITS, cast_failed
from nadi.plan.nodes import OUTPUT, TABLE, Expr

__all__ = [
    "EVENTS",
    "ROW",
    "ROWS",
    "Searchable",
    "argument_of",
    "compile_condition",
    "compile_filter",
    "compile_grouped",
    "compile_key",
    "compile_map",
    "compile_match",
    "compile_row",
    "compile_slots",
    "compile_values",
]

Tables = Mapping[str, Searchable]
_VARIABLES = ("chunk", "event", "kind", "made")
_numbers = count(1)


def compile_row(expr: Expr, flow: Flow, tables: Tables) -> Callable[[Row, int], Any]:
    """`f(row, ts)` for an expression over one row (slot 0).

    Raises (when called):
        ClassCastException: a value is of a class that the expression cannot take.
    """
    function = _Function("row, ts", ROW, flow, tables)
    return function.compile(function.writer.code(expr).text)


def compile_filter(expr: Expr, flow: Flow, tables: Tables) -> Callable[[Chunk], Chunk]:
    """The C and X events of a chunk for whose row an expression is true, and all R and T."""
    function = _Function("row, ts", ROW, flow, tables)
    text = function.writer.code(expr).text
    return function.compile_loop((f"if kind >= {RESET} or {text}:", "    made.append(event)"))


def compile_map(
    exprs: Sequence[Expr], flow: Flow, tables: Tables, shape: str, kinds: Iterable[int]
) -> Callable[[Chunk], Chunk]:
    """The events of a chunk that are of some kinds, their rows replaced by the values of expressions."""
    function = _Function(f"{_input(shape)}, ts", shape, flow, tables)
    function.writer.bind("event_of", event_of)
    row = _tuple(function.writer, exprs)
    wanted = " or ".join(f"kind == {k}" for k in sorted(kinds))
    return function.compile_loop((f"if {wanted}:",), (f"made.append(event_of((kind, ts, {row})))",))


def compile_slots(expr: Expr, flow: Flow, tables: Tables, events: bool) -> Callable[[Sequence[Any], int], Any]:
    """`f(slots, ts)` for an expression over several slots.

    `slots[k]` is a row or None, or with `events` a list of (kind, ts, row) or None; an index of None means the last event bound. `slots[-1]` is
    the output row and `slots[-2]` the row of a table, where the expression has them.
    """
    function = _Function("slots, ts", EVENTS if events else ROWS, flow, tables)
    return function.compile(function.writer.code(expr).text)


def compile_match(
    expr: Expr, flow: Flow, tables: Tables, slot: int, filters: bool
) -> Callable[[Sequence[Any], Row, int], Any]:
    """`f(slots, row, ts)` for an expression of a pattern's element: `slot` is the event at hand, given as `row`; the others are lists of events or None.

    With `filters` the result is the row itself where the expression is true, else None.
    """
    function = _Function("slots, row, ts", EVENTS, flow, tables, at_hand=slot)
    text = function.writer.code(expr).text
    return function.compile(f"row if {text} else None" if filters else text)


def compile_condition(expr: Expr, flow: Flow, tables: Tables) -> Callable[[Row, Row], Any]:
    """`f(row, table_row)` for conditions on tables and values that are set: slot 0 is the output event's row; its timestamp is the clock's."""
    function = _Function("row, table", ROW, flow, tables)
    return function.compile(function.writer.code(expr).text)


def compile_values(
    exprs: Sequence[Expr], flow: Flow, tables: Tables, shape: str
) -> Callable[[Any, int, Sequence[Any], Row], Any]:
    """`f(input, ts, aggregates, output)` → the tuple of the values; `input` is of the shape, `aggregates` by number."""
    function = _Function(f"{_input(shape)}, ts, aggregates, output", shape, flow, tables)
    return function.compile(_tuple(function.writer, exprs))


def compile_key(exprs: tuple[Expr, ...], flow: Flow, tables: Tables, shape: str) -> Callable[[Any, int], str]:
    """`f(input, ts)` → the text under which events with equal values come together (semantics/expressions.md#keys)."""
    function = _Function(f"{_input(shape)}, ts", shape, flow, tables)
    function.writer.bind("java_text", java_text)
    return function.compile(function.writer.key(exprs))


def compile_grouped(
    by: tuple[Expr, ...], arguments: Sequence[Expr], flow: Flow, tables: Tables, shape: str
) -> Callable[[Any, int], tuple[str, Row]]:
    """`f(input, ts)` → the key text of the group ("" without `by`) and the values of the aggregators' arguments."""
    function = _Function(f"{_input(shape)}, ts", shape, flow, tables)
    function.writer.bind("java_text", java_text)
    key = function.writer.key(by) if by else "''"
    return function.compile(f"{key}, {_tuple(function.writer, arguments)}")


def _tuple(writer: Writer, exprs: Sequence[Expr]) -> str:
    return "".join(["(", *(f"{writer.code(e).text}, " for e in exprs), ")"])


def _input(shape: str) -> str:
    return "row" if shape == ROW else "slots"


class _Function:
    """A function being written: its parameters, and the lines that give slots their names."""

    def __init__(self, parameters: str, shape: str, flow: Flow, tables: Tables, at_hand: int | None = None) -> None:
        self._parameters = parameters
        self._shape = shape
        self._lines: dict[int, str] = {}
        names = parameters.split(", ")
        self._first = names[0]
        self._own = {OUTPUT: "output", TABLE: "table"}
        self._own = {slot: name for slot, name in self._own.items() if name in names}
        if at_hand is not None:
            self._own[at_hand] = "row"
        self.writer = Writer(flow, tables, self._place, "ts" if "ts" in names else "flow.now")
        # no function of an app may take the name of a variable
        self.writer.names.update(dict.fromkeys([*names, *_VARIABLES]))

    def _place(self, slot: int) -> Place:
        if slot in self._own:
            return Place(self._own[slot], ROW)
        if self._shape == ROW:
            return Place(self._first, ROW)
        name = f"s{slot}" if slot >= 0 else "output" if slot == OUTPUT else "table"
        self._lines[slot] = f"{name} = {self._first}[{slot}]"
        return Place(name, self._shape if slot >= 0 else ROW)

    def compile(self, result: str) -> Callable[..., Any]:
        return self._compile(self._parameters, [*self._named(), f"return {result}"])

    def compile_loop(self, test: tuple[str, ...], then: tuple[str, ...] = ()) -> Callable[[Chunk], Chunk]:
        """A function over a chunk: `test` stands in a loop over its events (`event`: `kind`, `ts` and the first parameter) and appends to `made`. What
        names slots is needed for `then` only, which comes after it: R and T have none."""
        lines = ["made = []", "for event in chunk:", f"    kind, ts, {self._first} = event"]
        if then:
            lines += [f"    {line}" for line in test]
            lines += [f"        {line}" for line in (*self._named(), *then)]
        else:
            lines += [f"    {line}" for line in (*self._named(), *test)]
        return self._compile("chunk", [*lines, "return made"])

    def _named(self) -> list[str]:
        return [*(self._lines[s] for s in sorted(self._lines)), *self.writer.parts]

    def _compile(self, parameters: str, lines: list[str]) -> Callable[..., Any]:
        body = "\n".join(f"        {line}" for line in lines)
        source = (
            f"def expression({parameters}):\n    try:\n{body}\n"
            "    except MISFITS as problem:\n        raise cast_failed('an expression', problem)\n"
        )
        names = self.writer.names | {"cast_failed": cast_failed, "MISFITS": MISFITS}
        exec(_code_of(source), names)
        made: Callable[..., Any] = names["expression"]  # type: ignore[assignment]  # exec put it there
        made.__doc__ = source
        return made


@lru_cache(2048)
def _code_of(source: str) -> CodeType:
    """Python's code of a function: the kernels of other buckets, and those that take over their state, have the same ones. Tracebacks show its lines."""
    name = f"<expression {next(_numbers)}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    return compile(source, name, "exec")
