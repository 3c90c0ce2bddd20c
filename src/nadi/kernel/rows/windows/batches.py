"""Batch windows by count and by arrival: lengthBatch, batch (semantics/windows.md#batch-windows).

At a flush the order in one chunk is: previous batch as X, R, new batch as C.
"""

from __future__ import annotations

from collections.abc import Iterable

from nadi.kernel.rows.events import CURRENT, Chunk, Event
from nadi.kernel.rows.flow import Flow
from nadi.kernel.rows.state import Cell, Cells, Deque, Element, Value
from nadi.kernel.rows.windows.collectors import ALL, Collector
from nadi.kernel.rows.windows.contract import Setup, current, expired, reset


class LengthBatchWindow:
    """`lengthBatch(n [, stream.current.event])`.

    Cells: `batch` being collected, `previous` (only if X are wanted or the window is searched; see `hoards`). With stream.current.event C pass at once, `batch`
    is what has passed, and event n+1 brings [X(batch), R, C]. With n = 0: each event [C, X, R], a chunk of its own, in 4.x nothing. What counts is how many the
    batch holds: `collector` tells which events those are.
    """

    def __init__(self, setup: Setup, collector: Collector = ALL) -> None:
        self._flow, self._emit = setup.flow, setup.emit
        self._collector = collector
        self._length: int = setup.constant(0)
        self._streams: bool = setup.constant(1, False)
        self._expires = setup.keeps_expired
        self._keeps = setup.keeps_expired or setup.searched
        self._hoards = hoards(setup, collector)
        self._state = setup.element(batch=collector.cell, previous=Deque, **first_cells(setup.flow))
        if self._hoards:
            self.queue = self._previous  # where joins look rows up: there may be many

    def begin(self) -> None:
        """No batch has ended yet."""
        begin_first(self._state, self._flow)

    def process(self, chunk: Chunk) -> None:
        arrived = [e for e in chunk if e.kind == CURRENT]
        if self._length == 0:
            self._each(arrived)
        elif self._streams:
            self._stream(arrived)
        else:
            self._collect(arrived)

    def _each(self, arrived: Chunk) -> None:
        if self._flow.compat < 5:
            return
        now = self._flow.now
        for event in arrived:
            self._emit([event, expired((event.ts, event.row), now), reset(now)])

    def _stream(self, arrived: Chunk) -> None:
        """Each C is a chunk of its own."""
        now = self._flow.now
        cells = self._state.at(self._flow.key)
        batch: Deque = cells["batch"]
        made: list[Chunk] = []
        for event in arrived:
            out: Chunk = []
            if len(batch) == self._length:
                if self._expires:
                    out += [expired(held, now) for held in batch]
                out.append(reset(now))
                batch.clear()
            out.append(event)
            batch.append((event.ts, event.row))
            if self._hoards:
                cells["previous"].append((event.ts, event.row))
            made.append(out)
        for out in made:
            self._emit(out)

    def _collect(self, arrived: Chunk) -> None:
        """All batches of a chunk are made before the first is emitted: an emission may come back to this window."""
        cells = self._state.at(self._flow.key)
        batch, collector = cells["batch"], self._collector
        made: list[Chunk] = []
        for event in arrived:
            collector.add(batch, (event.ts, event.row))
            if len(batch) == self._length:
                made.append(flush(cells, self._flow, self._expires, self._keeps, self._hoards, collector))
        for out in made:
            self._emit(out)

    def _previous(self) -> Deque:
        previous: Deque = self._state.at(self._flow.key)["previous"]
        return previous

    def content(self) -> Iterable[Event]:
        cells = self._state.at(self._flow.key)
        return map(current, cells["batch"] if self._streams and not self._hoards else cells["previous"])


def hoards(setup: Setup, collector: Collector) -> bool:
    """Whether a window shows those who search it all batches that there ever were, and not the last one only.

    Siddhi 5 forgets a batch only when it lets it go as X: in a join that inserts current events alone `lengthBatch` and `timeBatch` never do.
    """
    return setup.searched and not setup.keeps_expired and setup.flow.compat > 4 and collector is ALL


def first_cells(flow: Flow) -> dict[str, type[Cell]]:
    """The cell that says that no batch has ended yet, where it matters. What has no such entry, as states of before, has had one."""
    return {"fresh": Value} if flow.compat < 5 else {}


def begin_first(state: Element, flow: Flow) -> None:
    """No batch has ended under the key at hand."""
    if flow.compat < 5:
        state.at(flow.key)["fresh"].set(True)


def opening(cells: Cells, flow: Flow) -> Chunk:
    """The R before a batch; there is none before the first one of a window that has the cell for it."""
    fresh: Value | None = cells.get("fresh")
    if fresh is None or not fresh.get():
        return [reset(flow.now)]
    fresh.set(None)
    return []


def flush(cells: Cells, flow: Flow, expires: bool, keeps: bool, hoards: bool, collector: Collector) -> Chunk:
    """[X(previous), R, C(batch)], no R without C: see `opening`. Empty where there is neither.

    The batch becomes the previous one, or with `hoards` comes to those before.
    """
    batch, previous, now = cells["batch"], cells["previous"], flow.now
    out = [expired(held, now) for held in previous] if expires else []
    if len(batch):
        out += opening(cells, flow)
    out += map(current, collector.events(batch))
    if not hoards:
        previous.clear()
    if keeps:
        previous.extend(collector.events(batch))
    batch.clear()
    return out


class BatchWindow:
    """`batch([n])`: each chunk that arrives is a batch; with n it is cut into pieces, and the X of all pieces come before the first of the next chunk.

    No R comes before the first batch.
    """

    def __init__(self, setup: Setup) -> None:
        self._flow, self._emit = setup.flow, setup.emit
        self._length: int = setup.constant(0, 0)
        self._expires = setup.keeps_expired
        self._keeps = setup.keeps_expired or setup.searched
        self._state = setup.element(previous=Deque, fresh=Value)

    def begin(self) -> None:
        """No batch has come yet."""
        self._state.at(self._flow.key)["fresh"].set(True)

    def process(self, chunk: Chunk) -> None:
        arrived = [e for e in chunk if e.kind == CURRENT]
        if not arrived:
            return
        now = self._flow.now
        cells = self._state.at(self._flow.key)
        previous: Deque = cells["previous"]
        left = [expired(held, now) for held in previous] if self._expires else []
        previous.clear()
        if self._keeps:
            previous.extend((e.ts, e.row) for e in arrived)
        size = self._length or len(arrived)
        for start in range(0, len(arrived), size):
            self._emit([*left, *opening(cells, self._flow), *arrived[start : start + size]])
            left = []

    def content(self) -> Iterable[Event]:
        return map(current, self._state.at(self._flow.key)["previous"])
