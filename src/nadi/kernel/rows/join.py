"""Joins (semantics/joins.md).

What comes out of a side's handlers and window is joined event by event with what the other side holds. The matches of one event form a chunk; the chunks
of what the window lets out at once form a group, whose results are delivered together (Siddhi 4: each by itself).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from nadi.errors import error
from nadi.kernel.rows.compile import ROWS, compile_row, compile_slots, compile_values
from nadi.kernel.rows.events import CURRENT, EXPIRED, RESET, TIMER, Chunk, Event, Group, Row
from nadi.kernel.rows.flow import Flow
from nadi.kernel.rows.queueindex import QueueIndex
from nadi.kernel.rows.state import Deque
from nadi.kernel.rows.steps import Steps, make_steps
from nadi.kernel.rows.stores import StoredTable
from nadi.kernel.rows.tables import TableRuntime, asks_for_key, lookup_of
from nadi.lang.tree import Type
from nadi.plan.nodes import Attr, Comparison, Const, Expr, FilterStep, JoinInput, JoinSide, Query, WindowStep
from nadi.plan.walk import conjuncts

if TYPE_CHECKING:
    from nadi.functions.registry import Registry
    from nadi.kernel.rows.compile import Searchable

Slots = tuple[Row | None, Row | None]
SCANNED = 16
"""Windows that hold less are scanned."""
Find = Callable[[Row, int], list[Row]]
"""The rows of the other side that match a row (and its timestamp), in the order in which they are held."""


class JoinRuntime:
    """Takes the chunks of both sides; `emit` gets groups of chunks of events whose row is `(left row | None, right row | None)`.

    `receive("left" | "right", chunk)` for sides that are streams or named windows.

    Raises:
        OperationNotSupportedException: NOT_SUPPORTED, a side has handlers after its window.
    """

    def __init__(
        self,
        plan: JoinInput,
        query: Query,
        flow: Flow,
        tables: Mapping[str, Searchable],
        registry: Registry,
        emit: Callable[[Group], None],
    ) -> None:
        self._flow = flow
        self._emit = emit
        self._keeps_expired = query.keeps_expired
        sides = (plan.left, plan.right)
        for side in sides:
            _check(side)
        self._steps: dict[int, Steps] = {}
        for slot, side in enumerate(sides):
            if side.kind in ("stream", "window"):
                self._steps[slot] = make_steps(
                    side.input.steps,
                    side.input.schema,
                    flow,
                    tables,
                    registry,
                    self._triggering(slot, side),
                    keeps_expired=self._keeps_expired,
                    searched=True,
                )
        held = tuple(_holding(slot, side, self._steps, flow, tables) for slot, side in enumerate(sides))
        self.finds: list[Find] = [
            _reading(plan, slot, flow, tables)
            if sides[1 - slot].kind == "aggregation"
            else _finding(plan.on, slot, held[1 - slot], flow, tables)
            for slot in (0, 1)
        ]
        self.found = tuple((sides[1 - slot].kind, sides[1 - slot].input.source) for slot in (0, 1))
        self._outer = tuple(side.outer for side in sides)

    def begin(self) -> None:
        """Once per flow key, before its first event."""
        for steps in self._steps.values():
            steps.begin()

    def receive(self, side: str, chunk: Chunk) -> None:
        """A chunk of one side. What comes of each chunk that its window lets out is delivered together."""
        self._steps[0 if side == "left" else 1].process(chunk)

    def _triggering(self, slot: int, side: JoinSide) -> Callable[[Chunk], None]:
        """What the handlers and the window of a side push to."""
        if not side.triggers:
            return _ignore
        if side.kind == "stream" and side.input.window is None:
            return lambda chunk: self._trigger(slot, self._passing(chunk))
        return lambda chunk: self._trigger(slot, chunk)

    def _passing(self, chunk: Chunk) -> Iterator[Event]:
        """A side without a window: each event comes, goes at once and leaves nothing behind."""
        for event in chunk:
            yield event
            if event.kind == CURRENT:
                if self._keeps_expired:
                    yield Event(EXPIRED, self._flow.now, event.row)
                yield Event(RESET, self._flow.now, ())

    def _trigger(self, slot: int, events: Iterable[Event]) -> None:
        find, outer = self.finds[slot], self._outer[slot]
        group: Group = []
        for event in events:
            kind, ts, row = event
            if kind == TIMER:
                continue
            if kind == RESET:
                group.append([event])
            elif found := find(row, ts):
                group.append([Event(kind, ts, (row, other) if slot == 0 else (other, row)) for other in found])
            elif outer:
                group.append([Event(kind, ts, (row, None) if slot == 0 else (None, row))])
        self._deliver(group)

    def _deliver(self, group: Group) -> None:
        if self._flow.compat == 4:
            for chunk in group:
                self._emit([chunk])
        elif group:
            self._emit(group)


def _ignore(chunk: Chunk) -> None:
    """A side that does not trigger only fills its window."""


def _check(side: JoinSide) -> None:
    steps = side.input.steps
    if side.kind == "aggregation" and steps:
        raise error(
            "NOT_SUPPORTED",
            what=f"a handler on the aggregation '{side.input.source}' in a join",
            alternative="put the condition after 'on'",
        )
    if any(isinstance(step, WindowStep) for step in steps[:-1]):
        raise error(
            "NOT_SUPPORTED",
            what=f"handlers after the window of '{side.input.source}' in a join",
            alternative="put filters before the window, or into the join's condition",
        )


# ---- what a side holds ---------------------------------------------------------------------------------------------


@runtime_checkable
class Ranged(Protocol):
    """An aggregation, which is read over a range of time."""

    def between(self, within: tuple[object, ...], per: object) -> list[Row]: ...


@dataclass(frozen=True, slots=True)
class _Held:
    """The rows of a side that the other one meets. `lookup` finds them by the values of some columns, where it can (else it gives None).

    A table in a store (`stored`) is asked with the join's condition, one in memory (`table`) by its primary key where that is the whole condition.
    """

    rows: Callable[[], Iterable[Row]]
    lookup: Callable[[tuple[int, ...], tuple[object, ...]], list[Row] | None] | None = None
    stored: StoredTable | None = None
    table: TableRuntime | None = None


class _WindowLookup:
    """Look-ups in a sliding window by equal columns; None where a scan is as good, or the window is of another kind."""

    __slots__ = ("_flow", "_indexes", "_queue", "_sweep_at")

    def __init__(self, queue: Callable[[], Deque], flow: Flow) -> None:
        self._queue = queue
        self._flow = flow
        self._indexes: dict[tuple[str, tuple[int, ...]], QueueIndex] = {}
        self._sweep_at = 64

    def __call__(self, columns: tuple[int, ...], key: tuple[object, ...]) -> list[Row] | None:
        queue = self._queue()
        if len(queue) < SCANNED:
            return None
        where = (self._flow.key, columns)
        index = self._indexes.get(where)
        if index is None or index.queue is not queue:
            if len(self._indexes) >= self._sweep_at:  # windows that are nearly empty by now are scanned
                self._indexes = {k: i for k, i in self._indexes.items() if len(i.queue) >= SCANNED}
                self._sweep_at = 2 * len(self._indexes) + 64
            index = self._indexes[where] = QueueIndex(queue, columns)
        return index.find(key)


def _holding(
    slot: int, side: JoinSide, steps: Mapping[int, Steps], flow: Flow, tables: Mapping[str, Searchable]
) -> _Held:
    if side.kind == "stream":
        chain = steps[slot]
        queue = getattr(chain.window, "queue", None)
        lookup = None if queue is None else _WindowLookup(queue, flow)
        return _Held(lambda: [event[2] for event in chain.content()], lookup)
    source = tables[side.input.source]
    conditions = [compile_row(s.condition, flow, tables) for s in side.input.steps if isinstance(s, FilterStep)]
    if len(conditions) != len(side.input.steps):
        raise error(
            "NOT_SUPPORTED",
            what=f"a stream function on '{side.input.source}' in a join",
            alternative="call the function in the selection",
        )
    if conditions:
        return _Held(lambda: [row for row in source.rows() if all(c(row, flow.now) for c in conditions)])
    if isinstance(source, StoredTable):
        return _Held(source.rows, stored=source)
    if isinstance(source, TableRuntime):
        return _Held(source.rows, source.lookup, table=source)
    return _Held(source.rows)


# ---- finding matches -----------------------------------------------------------------------------------------------


def _finding(on: Expr | None, slot: int, held: _Held, flow: Flow, tables: Mapping[str, Searchable]) -> Find:
    """How an event of side `slot` finds its matches on the other side.

    Equality of two columns narrows the rows before the whole condition is evaluated: by a look-up if there is one, else by a scan.
    """
    rows = held.rows
    if on is None or (isinstance(on, Const) and on.value is True):
        return lambda row, ts: list(rows())
    if held.stored is not None:
        return _asking(on, slot, held.stored, flow, tables)
    if held.table is not None and asks_for_key(on, held.table.table, 1 - slot):
        return _by_key(on, slot, held.table, flow, tables)
    condition = compile_slots(on, flow, tables, events=False)

    def holds(row: Row, ts: int, other: Row) -> object:
        return condition((row, other) if slot == 0 else (other, row), ts)

    pairs = tuple(dict(_equal_columns(on, slot)).items())
    if not pairs:
        return lambda row, ts: [other for other in rows() if holds(row, ts, other)]
    # nothing is left to check after a look-up by the only condition; NaN equals itself there, which Java's does not
    whole = isinstance(on, Comparison) and on.common not in (Type.FLOAT, Type.DOUBLE)
    theirs = tuple(their for their, _mine in pairs)
    mine = tuple(mine for _their, mine in pairs)
    column, first = theirs[0], mine[0]
    lookup = held.lookup

    def narrowed(row: Row) -> list[Row]:
        if lookup is not None:
            found = lookup(theirs, tuple(row[i] for i in mine))
            for their, own in pairs:
                found = lookup((their,), (row[own],)) if found is None else found
            if found is not None:
                return found
        value = row[first]
        return [other for other in rows() if other[column] == value]

    def find(row: Row, ts: int) -> list[Row]:
        if any(row[i] is None for i in mine):
            return []  # null equals nothing
        found = narrowed(row)
        return found if whole else [other for other in found if holds(row, ts, other)]

    return find


def _by_key(on: Expr, slot: int, table: TableRuntime, flow: Flow, tables: Mapping[str, Searchable]) -> Find:
    """How an event of side `slot` finds the row of a table by all of its primary key, in which null finds null."""
    _columns, values = lookup_of(on, table.table, 1 - slot)
    compute = compile_values(values, flow, tables, ROWS)

    def find(row: Row, ts: int) -> list[Row]:
        slots: Slots = (row, None) if slot == 0 else (None, row)
        return [found for _number, found in table.keyed(compute(slots, ts, (), ()))]

    return find


def _asking(on: Expr, slot: int, table: StoredTable, flow: Flow, tables: Mapping[str, Searchable]) -> Find:
    """How an event of side `slot` finds its matches in a store: there, by the whole condition."""
    question = table.question(on, slot=1 - slot)
    compute = [compile_slots(value, flow, tables, events=False) for value in question.values]

    def find(row: Row, ts: int) -> list[Row]:
        slots: Slots = (row, None) if slot == 0 else (None, row)
        return table.find(question, tuple(value(slots, ts) for value in compute))

    return find


def _reading(plan: JoinInput, slot: int, flow: Flow, tables: Mapping[str, Searchable]) -> Find:
    """How an event of side `slot` finds its matches in an aggregation: in the range that `within` and `per` mean for it (semantics/aggregations.md#reading)."""
    side = (plan.right, plan.left)[slot]
    aggregation = tables[side.input.source]
    assert isinstance(aggregation, Ranged)  # the plan says that this side is one
    bounds = [compile_slots(e, flow, tables, events=False) for e in (*plan.within, plan.per) if e is not None]
    on = None if plan.on is None else compile_slots(plan.on, flow, tables, events=False)

    def find(row: Row, ts: int) -> list[Row]:
        def slots(other: Row | None) -> Slots:
            return (row, other) if slot == 0 else (other, row)

        *within, per = (bound(slots(None), ts) for bound in bounds)
        rows = aggregation.between(tuple(within), per)
        return rows if on is None else [other for other in rows if on(slots(other), ts)]

    return find


def _equal_columns(condition: Expr, slot: int) -> Iterator[tuple[int, int]]:
    """(column of the other side, column of side `slot`) that must be equal, of the same type, for the condition to hold; by column of the other side."""
    for part in conjuncts(condition):
        if not (isinstance(part, Comparison) and part.op == "=="):
            continue
        left, right = part.left, part.right
        if isinstance(left, Attr) and isinstance(right, Attr) and left.type == right.type and left.slot != right.slot:
            mine, their = (left, right) if left.slot == slot else (right, left)
            if mine.slot == slot and their.slot == 1 - slot:
                yield their.position, mine.position
