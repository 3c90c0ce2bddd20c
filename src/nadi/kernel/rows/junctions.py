"""Junctions: where the events of a stream meet what listens to it (semantics/events.md#delivery).

Delivery is synchronous and depth-first, in the order of subscription. What a receiver raises ends the delivery of that chunk: receivers after it
are skipped, the events are noted as failures or go to the fault stream, and the sender never hears of it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable

from nadi.errors import error
from nadi.kernel.contract import Failure
from nadi.kernel.rows.events import CURRENT, Chunk, Event, Row
from nadi.kernel.rows.flow import Flow
from nadi.kernel.rows.misfits import named

Emit = Callable[[Chunk], None]

MAX_DEPTH = 1000
"""How many junctions may be nested in one delivery: an app that inserts into its own input without end stops here."""

_DEEP = 20  # from here on Python's limit on frames is in the way

_FRAMES = 20  # Python frames between two junctions, generously: filter, window, selector, rate, output, join, pattern …


class Delivery:
    """What all junctions of a kernel share: the flow, the failures since they were last taken, how deep deliveries are nested."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.failures: list[Failure] = []
        self.depth = 0

    def take_failures(self) -> tuple[Failure, ...]:
        """The failures noted since the last call."""
        taken = tuple(self.failures)
        self.failures.clear()
        return taken

    def note(self, place: str, events: Iterable[Event], problem: Exception, routed: bool = False) -> None:
        """Note that the events could not be processed at `place`."""
        condition, message = said(problem)
        group = self.flow.group
        for event in events:
            self.failures.append(Failure(place, event.ts, event.row, condition, message, routed, group))

    def note_row(self, place: str, ts: int, row: Row, problem: Exception) -> None:
        """Note one row that got lost at `place`."""
        self.note(place, [Event(CURRENT, ts, row)], problem)

    def note_timer(self, problem: Exception) -> None:
        """Note what the work of a timer raised: no event was lost, its emission was."""
        self.note("", [Event(CURRENT, self.flow.now, ())], problem)

    def note_callback(self, place: str, problem: Exception) -> None:
        """Note what user code raised that listens at `place`."""
        failed = error("CALLBACK_FAILED", place=place, reason=f"{type(problem).__name__}: {problem}")
        self.note(place, [Event(CURRENT, self.flow.now, ())], failed)


def said(problem: Exception) -> tuple[str, str]:
    """Condition and sentence of an exception; what is none of nadi's conditions is what a query met in a value."""
    found = named(problem)
    return found.condition, found.diagnostic.message


class Junction:
    """One stream (or the output side of a named window).

    `inner` streams stay in the partition: their events keep the flow key; all others are delivered outside of any partition.
    """

    def __init__(self, key: str, delivery: Delivery, inner: bool = False) -> None:
        self.key = key
        self.passed = 0  # events since the counts were last taken
        self.fault: Junction | None = None
        self._delivery = delivery
        self._inner = inner
        self._receivers: list[Emit] = []
        self._callbacks: list[Callable[[Chunk], None]] = []

    def subscribe(self, receiver: Emit) -> None:
        """Add a receiver behind the others."""
        self._receivers.append(receiver)

    @property
    def receivers(self) -> list[Emit]:
        """The list itself: what is put into a place of it receives from then on."""
        return self._receivers

    def listen(self, callback: Callable[[Chunk], None]) -> None:
        """Add a callback: called after all receivers; what it raises is noted and concerns nobody else."""
        self._callbacks.append(callback)

    def take_passed(self) -> int:
        """How many events passed since the last call."""
        passed, self.passed = self.passed, 0
        return passed

    def send(self, chunk: Chunk) -> None:
        """Deliver a chunk to all receivers, then to the callbacks."""
        delivery = self._delivery
        if delivery.depth >= MAX_DEPTH:
            raise error("NESTED_TOO_DEEP", stream=self.key, depth=MAX_DEPTH)
        self.passed += len(chunk)
        flow = delivery.flow
        before, depth = flow.key, delivery.depth + 1
        delivery.depth = depth
        if depth == _DEEP:
            # Python's own limit would end this long before MAX_DEPTH; once raised it stays, as another thread may be deep already
            sys.setrecursionlimit(max(sys.getrecursionlimit(), MAX_DEPTH * _FRAMES))
        key = before if self._inner else ""
        flow.key = key
        try:
            # as in `deliver`, which is not called because each event comes through here
            try:
                for receive in self._receivers:
                    receive(chunk)
            except MemoryError:
                raise  # how much there is is no input: it fails the cut, not an event
            except Exception as problem:
                flow.key, delivery.depth = key, depth
                self.fail(chunk, problem)
                return
            for callback in self._callbacks:
                try:
                    callback(chunk)
                except Exception as problem:
                    delivery.note_callback(self.key, problem)
        finally:
            flow.key = before
            delivery.depth = depth - 1

    def deliver(self, receivers: Iterable[Emit], chunk: Chunk) -> bool:
        """Hand a chunk to some receivers as this junction does: False where one of them failed."""
        delivery = self._delivery
        key, depth = delivery.flow.key, delivery.depth
        try:
            for receive in receivers:
                receive(chunk)
        except MemoryError:
            raise
        except Exception as problem:
            delivery.flow.key, delivery.depth = key, depth
            self.fail(chunk, problem)
            return False
        return True

    def fail(self, chunk: Chunk, problem: Exception, routes: bool = True) -> None:
        """Note events as failed; where there is a fault stream, and unless `routes` is False, they go there with the reason."""
        fault = self.fault if routes else None
        self._delivery.note(self.key, chunk, problem, routed=fault is not None)
        if fault is not None:
            text = ": ".join(said(problem))
            fault.send([Event(CURRENT, e.ts, (*e.row, text)) for e in chunk])


def call_back(delivery: Delivery, place: str, callback: Callable[..., None], *arguments: object) -> None:
    """Call user code: what it raises is noted and swallowed (semantics/events.md#failures)."""
    try:
        callback(*arguments)
    except Exception as problem:
        delivery.note_callback(place, problem)
