"""A join with batch windows as a join of chunks: in front of each such side a stage lets events wait for the end of their batch, which goes on as one chunk.

What such a window shows the other side is the batch that went on last: the window holds the last chunk of what the stage gives. Where batches end by themselves
it is gone after another period, in which the batch stayed empty: the window is `timeBatch` there. `lengthBatch` and `timeBatch` show all batches that ever went
on, as Siddhi 5 forgets them only when expired events are to come out, which they never do here: the window holds every batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from nadi.kernel.columns.collecting import Collecting
from nadi.kernel.columns.contract import Input
from nadi.kernel.columns.gathering import Gathering
from nadi.kernel.columns.joins.layout import HOARD, LAST
from nadi.kernel.columns.keying import key_of
from nadi.kernel.columns.staging import Stage
from nadi.kernel.columns.stretch import Stretch
from nadi.kernel.columns.waiting import Waiting
from nadi.kernel.columns.wholerows import nothing
from nadi.plan.nodes import (
    OUTPUT,
    App,
    Attr,
    Column,
    FilterStep,
    JoinInput,
    JoinSide,
    Partition,
    Query,
    Schema,
    Selection,
    SingleInput,
    ValueKey,
    WindowCall,
    WindowStep,
)
from nadi.plan.walk import inside
from nadi.plan.windowtraits import HOARDING, NOTHING, OF_BATCH, OF_TIME_BATCH, STAGED_IN_JOINS, TIMED, UNIQUE_BATCHES


@dataclass(frozen=True, slots=True)
class Entry:
    """Where the events of a side come from: the stream `source`, by a stage or without; the join reads them as `name`.

    `timed`: batches end by themselves.
    """

    source: str
    name: str
    stage: Stage | None
    timed: bool


class Whole(Waiting):
    """A stage outside of partitions. `query` selects the attributes at which the join looks; the others come as nothing."""

    letters = frozenset({"w", "r"})

    def __init__(self, query: Query, given: Input) -> None:
        super().__init__(query, given)
        self.element = self.elements[0]
        self._whole = given.types
        self._places = {v.position: n for n, v in enumerate(query.selection.values) if isinstance(v, Attr)}

    def __len__(self) -> int:
        return self.size()[self.element]

    def process(self, given: Mapping[str, Stretch], until: int) -> Stretch | None:
        """The events of the batches that end, with all their attributes."""
        made = super().process(given, until)
        if made is None:
            return None
        columns = tuple(
            made.columns[self._places[p]] if p in self._places else nothing(kind, len(made))
            for p, kind in enumerate(self._whole)
        )
        return made.having(columns)


def staged(query: Query, app: App) -> tuple[Query, App, tuple[Entry, Entry]]:
    """The join that stands behind the stages, its app, and where the events of both sides come from."""
    join = query.input
    assert isinstance(join, JoinInput)  # the caller has looked
    sides, entries = [], []
    inner = app
    for slot, side in enumerate((join.left, join.right)):
        window = side.input.window
        if window is None or not window.has(STAGED_IN_JOINS):
            sides.append(side)
            entries.append(Entry(side.input.source, side.input.source, None, False))
            continue
        name = f"{side.input.source} of {window.id}"
        inner = _with_stream(query, inner, side.input.source, name)
        sides.append(_behind(side, window, name))
        entries.append(Entry(side.input.source, name, _stage(query, app, side, slot), window.has(TIMED)))
    made = replace(query, input=replace(join, left=sides[0], right=sides[1]))
    return made, inner, (entries[0], entries[1])


def _behind(side: JoinSide, window: WindowCall, name: str) -> JoinSide:
    """A side as it stands behind its stage."""
    kept = WindowCall(window.id, LAST, (), OF_BATCH)
    if window.has(HOARDING):
        kept = WindowCall(
            window.id, HOARD, window.args if window.has(TIMED) else (), replace(OF_BATCH, columns=NOTHING)
        )
    elif window.has(TIMED):
        kept = WindowCall(
            window.id, "timeBatch", window.args[1:] if window.has(UNIQUE_BATCHES) else window.args, OF_TIME_BATCH
        )
    return replace(side, input=replace(side.input, source=name, steps=(WindowStep(kept),)))


def _stage(query: Query, app: App, side: JoinSide, slot: int) -> Stage:
    """The stage of a side: its filters, its window; of its attributes those at which the join looks."""
    join = query.input
    assert isinstance(join, JoinInput)
    source, selection = side.input.source, query.selection
    types, key = app.streams[source].schema.types, key_of(query, source, app)
    if key is not None and key.position == len(types):  # made for the partition
        types = (*types, key.type)
    looked = (join.on, selection.values, selection.having, selection.aggregates, selection.group_by)
    found = {p.position for p in inside(looked) if isinstance(p, Attr) and p.slot == slot and p.slot != OUTPUT}
    values = tuple(Attr(0, p, types[p]) for p in sorted(found))
    schema = Schema(tuple(Column(f"${v.position}", v.type) for v in values))
    single = SingleInput(source, side.input.steps, side.input.schema)
    waiting = replace(query, input=single, selection=Selection(values, schema), rate=None)
    filters = tuple(step.condition for step in side.input.steps if isinstance(step, FilterStep))
    given = Input(types, filters, None if key is None else key.position, app.sharding.kind == "key")
    if side.input.window is not None and side.input.window.has(UNIQUE_BATCHES):
        return Collecting(waiting, given)
    return Whole(waiting, given) if key is None else Gathering(waiting, given)


def _with_stream(query: Query, app: App, source: str, name: str) -> App:
    """An app with another stream: the events of `source` that a stage lets go on, with the key that they have in the partition."""
    stream, key = app.streams[source], key_of(query, source, app)
    schema, elements = stream.schema, app.elements
    if key is not None:
        if key.position == len(schema):
            schema = Schema((*schema.columns, Column("$key", key.type)))
        more = ValueKey(name, replace(key, slot=0))
        elements = tuple(
            replace(e, keys=(*e.keys, more)) if isinstance(e, Partition) and e.id == query.partition else e
            for e in elements
        )
    streams = {**app.streams, name: replace(stream, key=name, name=name, schema=schema, partition=None)}
    return replace(app, streams=streams, elements=elements)
