"""Whole rows that wait, as on rows: those of a batch window that looks at each event by itself, those of an output rate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any

from nadi.kernel.columns.arrivals import Clocks
from nadi.kernel.columns.endings import BOUNDARY, END, GREATEST, NEVER, PHASE, PHASED
from nadi.kernel.columns.flat import Block
from nadi.kernel.columns.stretch import Array
from nadi.kernel.rows.events import CURRENT
from nadi.kernel.rows.payloads import Entry
from nadi.lang.tree import Type
from nadi.plan.nodes import App, Attr, Query, Rate, SingleInput

Row = tuple[Any, ...]


def rows_of(arrays: Mapping[str, Array], types: Sequence[Type]) -> tuple[list[int], list[Row]]:
    """The timestamps and the rows of a block of a `Parcel`."""
    columns = []
    for number, kind in enumerate(types):
        nulls = arrays[f"z{number}"].tolist()
        given = _strings(arrays, number) if kind is Type.STRING else arrays[f"v{number}"].tolist()
        columns.append([None if null else value for value, null in zip(given, nulls)])
    ts: list[int] = arrays["ts"].tolist()
    return ts, list(zip(*columns)) if columns else [()] * len(ts)


def _strings(arrays: Mapping[str, Array], number: int) -> list[str]:
    whole, lengths = arrays[f"b{number}"].tobytes(), arrays[f"l{number}"].tolist()
    ends = accumulate(lengths, initial=0)
    return [whole[start:end].decode("utf-8", "surrogatepass") for start, end in pairwise(ends)]


class BatchState:
    """A batch window: of its events what is selected as it came. With aggregators nothing may be held: `batch`, between two chunks."""

    def __init__(self, query: Query, app: App) -> None:
        assert isinstance(query.input, SingleInput)
        window = query.input.window
        assert window is not None
        self._element, self._name = window.id, window.name
        self._types = query.selection.schema.types
        self._width = len(app.streams[query.input.source].schema)
        values = enumerate(query.selection.values)
        self._passed = [(number, v.position) for number, v in values if isinstance(v, Attr) and v.slot == 0]

    def entries(self, block: Block) -> Iterator[Entry]:
        """What a block comes to."""
        if self._name == "batch":
            return
        if block.letter == "w":
            yield from self._clock(block.arrays["clock"].tolist())
            return
        ts, rows = rows_of(block.arrays, self._types)
        yield self._element, "", {"batch": ["d", 0, list(zip(ts, map(self._event, rows)))]}

    def _event(self, row: Row) -> Row:
        """A row of the stream, of which the rest is null."""
        made = [None] * self._width
        for number, position in self._passed:
            made[position] = row[number]
        return tuple(made)

    def _clock(self, clock: list[int]) -> Iterator[Entry]:
        if self._name == "externalTimeBatch" and clock[PHASED]:
            yield self._element, "", {"clock": ["v", (clock[PHASE], clock[END], clock[GREATEST])]}
        if self._name == "timeBatch" and clock[PHASED]:
            yield f"{self._element}/phase", "", {"first": ["v", clock[PHASE]]}
            if clock[BOUNDARY] != NEVER:
                yield self._element, "", {"boundary": ["v", clock[BOUNDARY]]}
                yield f"{self._element}/timer", "", {"due": ["d", 0, [clock[BOUNDARY]]]}


class RateState:
    """An output rate outside of partitions, not of single groups; `clocks` are those of the kernel."""

    def __init__(self, query: Query, rate: Rate, clocks: Clocks) -> None:
        self._rate, self._clocks = rate, clocks
        self._types = query.selection.schema.types
        self._count = 0

    def entries(self, block: Block) -> Iterator[Entry]:
        """What a block comes to."""
        rate = self._rate
        if block.letter == "n":
            yield from self._numbers(block.arrays["held"].tolist())
            return
        ts, rows = rows_of(block.arrays, self._types)
        events = [(CURRENT, at, row) for at, row in zip(ts, rows)]
        last = rate.kind == "last"
        held = [("" if last else self._count + i, event) for i, event in enumerate(events)]
        self._count += len(events)
        yield rate.id, "", {"held": ["m", False, held, []]}

    def _numbers(self, held: list[int]) -> Iterator[Entry]:
        rate = self._rate
        if rate.every is None:
            seen = ["m", False, [("", held[0])], []] if rate.kind == "first" else ["v", held[0]]
            yield rate.id, "", {"seen": seen}
        elif rate.kind == "first":
            if held[0]:
                yield rate.id, "", {"passed": ["m", False, [("", held[1])], []]}
        else:
            start, now = held[0], self._clocks.now
            yield f"{rate.id}/timer", "", {"due": ["d", 0, [start + ((now - start) // rate.every + 1) * rate.every]]}
