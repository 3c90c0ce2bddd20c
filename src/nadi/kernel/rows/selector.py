"""The selector (semantics/selection.md): aggregates, select, having, the chunk rule, order by, offset and limit.

For each event in order: C adds to the aggregators, X removes, R resets all groups; then all values are computed, then `having` decides. An event that is
dropped has still counted. Under the chunk rule one event per chunk (and group) comes out. Where values may fail, it shows in which order they are computed,
and that those of events that the output does not want are computed, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from nadi.kernel.rows.aggregation import Aggregation
from nadi.kernel.rows.compile import (
    EVENTS,
    ROW,
    ROWS,
    Searchable,
    compile_grouped,
    compile_key,
    compile_map,
    compile_values,
)
from nadi.kernel.rows.events import CURRENT, EXPIRED, RESET, Chunk, Event, Row, event_of
from nadi.kernel.rows.flow import Flow
from nadi.kernel.rows.itemwise import Itemwise, fails_between
from nadi.kernel.rows.misfits import MISFITS, cast_failed
from nadi.kernel.rows.snapshots import learns_resets
from nadi.lang.tree import Events, Type
from nadi.plan.columns.failures import safe
from nadi.plan.nodes import Attr, Const, JoinInput, Query, SingleInput, WindowCall

Emit = Callable[[Chunk], None]

_WANTED = {
    Events.CURRENT: frozenset({CURRENT}),
    Events.EXPIRED: frozenset({EXPIRED}),
    Events.ALL: frozenset({CURRENT, EXPIRED}),
}
_NO_VALUES: list[Any] = []
_NOTHING = Const(None, Type.OBJECT)  # what count() counts


Selected = tuple[Event, str, Row]
"""A selected event, the key of its group, and the values by which its chunk is ordered."""


class Selector:
    """The selector of a query: chunks of its input in, chunks of output rows out.

    The rows of `emit`'s chunk are output rows, kinds C and X. A chunk of which only R was left comes out empty (semantics/events.md#a-query: callbacks then
    get null, null). While `emit` runs, `group_keys` has the group key of each event of the chunk, where the query groups.
    """

    def __init__(self, query: Query, flow: Flow, tables: Mapping[str, Searchable], emit: Emit) -> None:
        selection = query.selection
        self.group_keys: list[str] = []
        self._emit = emit
        self._selection = selection
        self._wanted = _WANTED[query.output.events]
        self._grouped = bool(selection.group_by)
        self._ordered = bool(selection.order_by)
        self._once = _keeps_to_chunk_rule(query, flow, tables)
        shape = shape_of(query)
        may_fail = not all(safe(value) for value in selection.values)
        leaving = {EXPIRED} if may_fail and expires(query, flow, tables) else set()
        self._computed = self._wanted | ({CURRENT} | leaving if may_fail else set())
        self._values = None if _passes_row(query) else compile_values(selection.values, flow, tables, shape)
        self._having = compile_values((selection.having,), flow, tables, shape) if selection.having else None
        self._order = compile_values([e for e, _up in selection.order_by], flow, tables, shape)
        self._key = compile_key(selection.group_by, flow, tables, shape) if self._grouped else None
        plain = not (selection.aggregates or self._grouped or self._ordered or selection.having)
        self._cuts = selection.limit is not None or bool(selection.offset)
        self._direct: Callable[[Chunk], Chunk] | None = None
        # the limiter of `first every …` counts an R, which goes on where nothing is aggregated; a snapshot is cleared by it
        first = query.rate is not None and query.rate.kind == "first" and not self._once
        self._resets = first or learns_resets(query)
        if plain and not self._cuts and self._values is not None and not self._resets:
            self._direct = compile_map(selection.values, flow, tables, shape, self._computed)
        self.alone = self._direct is not None  # looks at each event by itself, whatever chunk it stands in
        self._aggregation: Aggregation | None = None
        self._itemwise: Itemwise | None = None
        if selection.aggregates:
            removes = expires(query, flow, tables)
            self._aggregation = Aggregation(f"{query.id}/selector", selection.aggregates, removes, flow)
            arguments = [a.args[0] if a.args else _NOTHING for a in selection.aggregates]
            self._grouped_values = compile_grouped(selection.group_by, arguments, flow, tables, shape)
            if fails_between(selection):
                self._grouped_values = compile_grouped(selection.group_by, [], flow, tables, shape)
                self._itemwise = Itemwise(selection, self._aggregation, flow, tables, shape)

    # ---- a chunk

    def process(self, chunk: Chunk) -> None:
        """Take a chunk of the query's input.

        Raises:
            ClassCastException: a value is of a class that an expression or aggregator cannot take.
        """
        if self._direct is not None:
            # the short way for a selection that looks at each event alone
            mapped = self._direct(chunk)
            if self._computed is not self._wanted:
                mapped = [e for e in mapped if e[0] in self._wanted]
            if mapped or any(e[0] == RESET for e in chunk):
                self._emit(mapped)
            return
        try:
            made = self._plain(chunk) if self._aggregation is None else self._aggregated(chunk, self._aggregation)
        except MISFITS as problem:
            raise cast_failed("an aggregator", problem) from None
        if self._once and len(made) > 1:
            made = self._last(made)
        if self._ordered:
            made = self._sorted(made)
        if self._cuts:
            made = self._cut(made) if self._grouped or not self._once else self._cut_last(made)
        if len(made) == 1:
            selected, key, _order = made[0]
            self.group_keys = [key] if self._grouped else []
            self._emit([selected])
        elif made:
            self.group_keys = [m[1] for m in made] if self._grouped else []
            self._emit([m[0] for m in made])
        elif not self._once and any(e.kind == RESET for e in chunk):
            self.group_keys = []
            self._emit([])

    def _plain(self, chunk: Chunk) -> list[Selected]:
        made = []
        for event in chunk:
            if event.kind in self._computed:
                key = "" if self._key is None else self._key(event.row, event.ts)
                output = self._output(event, _NO_VALUES)
                if event.kind not in self._wanted:
                    continue
                if (selected := self._select(event, key, _NO_VALUES, output)) is not None:
                    made.append(selected)
            elif event.kind == RESET and self._resets:
                made.append(self._reset(event))
        return made

    def _reset(self, event: Event) -> Selected:
        return event, "", (None,) * len(self._selection.order_by)

    def _aggregated(self, chunk: Chunk, aggregation: Aggregation) -> list[Selected]:
        aggregation.bind()
        wanted, computed, grouped_values, itemwise = self._wanted, self._computed, self._grouped_values, self._itemwise
        made = []
        for event in chunk:
            kind, ts, row = event
            if kind == RESET:
                aggregation.reset()
                if self._resets:
                    made.append(self._reset(event))
            elif kind < RESET:
                key, values = grouped_values(row, ts)
                if itemwise is not None:
                    aggregates, output = itemwise.take(event, key)
                else:
                    aggregates = aggregation.add(key, values) if kind == CURRENT else aggregation.remove(key, values)
                    if kind not in computed:
                        continue
                    output = self._output(event, aggregates)
                if kind in wanted and (selected := self._select(event, key, aggregates, output)) is not None:
                    made.append(selected)
        return made

    def _output(self, event: Event, aggregates: list[Any]) -> Row:
        return event.row if self._values is None else self._values(event.row, event.ts, aggregates, ())

    def _select(self, event: Event, key: str, aggregates: list[Any], output: Row) -> Selected | None:
        kind, ts, row = event
        if self._having is not None and self._having(row, ts, aggregates, output)[0] is not True:
            return None
        order = self._order(row, ts, aggregates, output) if self._ordered else ()
        return event_of((kind, ts, output)), key, order

    # ---- chunk rule, order, limit

    def _last(self, made: list[Selected]) -> list[Selected]:
        """The last event, or the last one per key in the order in which the keys came."""
        if not self._grouped:
            return made[-1:]
        by_key: dict[str, Selected] = {}
        for selected in made:
            by_key[selected[1]] = selected
        return list(by_key.values())

    def _sorted(self, made: list[Selected]) -> list[Selected]:
        """Sorts within runs of equal kind, stable, nulls last in both directions."""
        ordered: list[Selected] = []
        start = 0
        for end in range(1, len(made) + 1):
            if end == len(made) or made[end][0].kind != made[start][0].kind:
                run = made[start:end]
                for number in range(len(self._selection.order_by) - 1, -1, -1):
                    up = self._selection.order_by[number][1]
                    run.sort(key=_ascending(number) if up else _descending(number), reverse=not up)
                ordered += run
                start = end
        return ordered

    def _cut(self, made: list[Selected]) -> list[Selected]:
        """Offset and limit count C and X, but only C are more than the limit allows: as in Siddhi, X go on. R are passed over."""
        offset, limit = self._selection.offset or 0, self._selection.limit
        passed: list[Selected] = []
        count = 0
        for selected in made:
            kind = selected[0].kind
            if kind < RESET:
                if count < offset:
                    count += 1
                    continue
                if limit is not None and kind == CURRENT and count >= offset + limit:
                    continue
                count += 1
            passed.append(selected)
        return passed

    def _cut_last(self, made: list[Selected]) -> list[Selected]:
        """Of the one event that aggregators without groups leave, C or X: it comes out unless nothing may."""
        return [] if self._selection.offset or self._selection.limit == 0 else made


def _ascending(number: int) -> Callable[[Selected], tuple[bool, Any]]:
    return lambda selected: (selected[2][number] is None, _comparable(selected[2][number]))


def _descending(number: int) -> Callable[[Selected], tuple[bool, Any]]:
    return lambda selected: (selected[2][number] is not None, _comparable(selected[2][number]))


def _comparable(value: Any) -> Any:
    """Strings are ordered by UTF-16 code unit, as in Java; nulls never get as far as being compared."""
    if value is None:
        return 0
    return value.encode("utf-16-be", "surrogatepass") if type(value) is str else value


# ---- what a query is -------------------------------------------------------------------------------------------------


def shape_of(query: Query) -> str:
    """The shape of the rows that reach the selector."""
    if isinstance(query.input, SingleInput):
        return ROW
    return ROWS if isinstance(query.input, JoinInput) else EVENTS


def _passes_row(query: Query) -> bool:
    """Whether the output row is the input row: `select *` from one stream."""
    if not isinstance(query.input, SingleInput) or len(query.selection.values) != len(query.input.schema):
        return False
    return all(isinstance(v, Attr) and v.slot == 0 and v.position == i for i, v in enumerate(query.selection.values))


def _windows(query: Query) -> list[WindowCall]:
    if isinstance(query.input, SingleInput):
        inputs = [query.input]
    elif isinstance(query.input, JoinInput):
        inputs = [query.input.left.input, query.input.right.input]
    else:
        return []
    return [i.window for i in inputs if i.window is not None]


def _reads_window(query: Query, tables: Mapping[str, Searchable]) -> bool:
    """Whether the input is a named window: X events may come out of it."""
    if isinstance(query.input, SingleInput):
        return query.input.source in tables
    return isinstance(query.input, JoinInput) and "window" in (query.input.left.kind, query.input.right.kind)


def expires(query: Query, flow: Flow, tables: Mapping[str, Searchable]) -> bool:
    """Whether X events can reach the selector: not without a window, and not from a batch window whose X nobody wants."""
    if _reads_window(query, tables) or (isinstance(query.input, JoinInput) and _windows(query)):
        return True
    wanted = query.output.events is not Events.CURRENT
    return any(wanted or _always_expires(w, flow) for w in _windows(query))


def _is_batch(window: WindowCall, flow: Flow) -> bool:
    spec = flow.registry.window(window.name)
    return spec is not None and spec.batch


def _always_expires(window: WindowCall, flow: Flow) -> bool:
    spec = flow.registry.window(window.name)
    return spec is None or not spec.batch or spec.cancels


def _keeps_to_chunk_rule(query: Query, flow: Flow, tables: Mapping[str, Searchable]) -> bool:
    """Whether one event per chunk (and group) comes out (semantics/selection.md#the-chunk-rule).

    With an aggregator or `group by` only; 4.x applies it to chunks of batch windows, named windows and joins alone; a snapshot rate turns it off.
    """
    if query.rate is not None and query.rate.kind == "snapshot":
        return False
    if not (query.selection.aggregated or query.selection.group_by):
        return False
    if flow.compat >= 5:
        return True
    return (
        isinstance(query.input, JoinInput)
        or _reads_window(query, tables)
        or any(_is_batch(w, flow) for w in _windows(query))
    )
