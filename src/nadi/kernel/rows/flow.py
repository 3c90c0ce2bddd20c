"""The flow: what is true while an event travels, and the timers that wake elements.

One `Flow` per kernel. While a chunk is on its way, `flow.key` is the partition key it travels under ("" outside partitions), `flow.group` the
key-group its outputs are numbered in, `flow.now` the app's clock. Elements read them and never the machine's clock. `flow.store` holds all state.

In playback there are two clocks (semantics/time.md#playback): `flow.now` with `flow.timers` follows event timestamps, `flow.arrival_now` with
`flow.arrivals` follows arrivals; cron, triggers and idle time use the latter. Without playback both are the same.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from operator import index
from typing import Protocol

from nadi.errors import error
from nadi.functions.registry import Registry, default_registry
from nadi.kernel.rows.state import Deque, Element, Store, Value

MOST_IN_A_JUMP = 1_000_000
"""How often one timer may fire for one key while a jump of the playback clock makes up for lost time: a period of a second over eleven days."""


class Flow:
    """See the module's text. `playback` is whether event timestamps move the clock."""

    def __init__(
        self,
        group_of: Callable[[str], int],
        playback: bool = False,
        compat: int = 5,
        registry: Registry | None = None,
        seed: str = "",
    ) -> None:
        self.registry = registry or default_registry()
        self._seed = seed
        self.properties: Mapping[str, str] = {}  # of the node
        self.key = ""
        self.group = 0
        self.now = 0
        self.playback = playback
        self.compat = compat
        self.group_of = group_of
        self.store = Store(group_of)
        self.timers = Timers(self)
        self.arrivals = Timers(self, arrivals=True) if playback else self.timers
        self.on_error: Callable[[Exception], None] | None = None  # takes what a timer's work raised; None: it goes up
        self._arrival_now = 0
        self._calls: Element = self.store.element("app/unique", {"count": Value})

    def unique(self) -> str:
        """A text that no other call gets, and this one again on a replay: from the seed (app and bucket), the flow key and a count in state."""
        count: Value = self._calls.at(self.key)["count"]
        number = (count.get() or 0) + 1
        count.set(number)
        return f"{self._seed}/{self.key}/{number}"

    @property
    def arrival_now(self) -> int:
        """The clock of arrivals: in playback apart from `now`, else the same."""
        return self._arrival_now if self.playback else self.now

    @arrival_now.setter
    def arrival_now(self, now: int) -> None:
        if self.playback:
            self._arrival_now = max(self._arrival_now, now)
        else:
            self.now = max(self.now, now)

    def set_clocks(self, now: int, arrival_now: int) -> None:
        """After a load."""
        self.now, self._arrival_now = now, arrival_now


class Woken(Protocol):
    """What a timer calls: with the time it was due; `flow.key`, `flow.group` and `flow.now` are set."""

    def __call__(self, due: int, /) -> None: ...


class Timer:
    """The notifications of one timed element: a FIFO of due times per flow key, kept in state."""

    def __init__(self, timers: Timers, order: int, state: Element, woken: Woken) -> None:
        self._timers = timers
        self.order = order
        self.state = state
        self.woken = woken

    def at(self, due: int) -> None:
        """Wake this element under the current flow key at `due`, after what waits there already (not sorted by time)."""
        key = self._timers.flow.key
        waiting: Deque = self.state.at(key)["due"]
        waiting.append(due)
        if len(waiting) == 1:
            self._timers.offer(due, self, key)

    def drop(self, key: str) -> None:
        """Forget what waits under a key."""
        self.state.drop(key)

    def waiting(self, key: str) -> tuple[int, ...]:
        """The due times that wait under a key."""
        if key not in self.state.flow_keys():
            return ()
        due: Deque = self.state.at(key)["due"]
        return tuple(due)


class Timers:
    """All timers of a kernel. The one to fire next has the least (due time of its head, element order, key)."""

    def __init__(self, flow: Flow, arrivals: bool = False) -> None:
        self.flow = flow
        self._arrivals = arrivals
        self._all: list[Timer] = []
        self._heap: list[tuple[int, int, str]] = []
        self._before = 0  # the clock before the jump at hand
        self._furthest: int | None = (
            None  # the last element, in their order, whose timers it has come to; None where there is no jump
        )

    def timer(self, element_id: str, woken: Woken) -> Timer:
        """Declare a timed element; the order of declaration breaks ties between equal due times."""
        state = self.flow.store.element(f"{element_id}/timer", {"due": Deque})
        made = Timer(self, len(self._all), state, woken)
        self._all.append(made)
        return made

    def all(self) -> tuple[Timer, ...]:
        """All timed elements."""
        return tuple(self._all)

    def offer(self, due: int, timer: Timer, key: str) -> None:
        heapq.heappush(self._heap, (due, timer.order, key))

    def rebuild(self) -> None:
        """After a load: the heap is not state, it follows from the FIFOs."""
        self._heap = [
            (index(waiting[0]), timer.order, key)
            for timer in self._all
            for key in timer.state.flow_keys()
            if len(waiting := timer.state.at(key)["due"])
        ]
        heapq.heapify(self._heap)

    def next_due(self) -> int | None:
        """Due time of the timer that fires next."""
        while self._heap:
            due, order, key = self._heap[0]
            if self._is_head(due, self._all[order], key):
                return due
            heapq.heappop(self._heap)
        return None

    def run_until(self, until: int) -> None:
        """Live clock: fire all timers due up to `until` (or the clock, if that is later), each at its due time, then set the clock to `until`."""
        clock = self.flow.arrival_now if self._arrivals else self.flow.now
        if until < clock:
            until = clock
        if self._heap and self._heap[0][0] <= until:  # it may have become void: `next_due` tells
            while (due := self.next_due()) is not None and due <= until:
                _due, order, key = heapq.heappop(self._heap)
                self._set(due)
                self._fire(self._all[order], key)
        self._set(until)

    def _set(self, now: int) -> None:
        if self._arrivals:
            self.flow.arrival_now = now
        elif now > self.flow.now:
            self.flow.now = now

    def jump_to(self, now: int) -> None:
        """Playback: set the clock, then run each scheduler with due entries to its end: element by element, in each by the first due time of its keys.

        They see the new time, not their own (semantics/time.md#playback: a jump runs due timers at the new time).
        """
        self._before, self._furthest = self.flow.now, -1  # no element's turn was yet
        self.flow.now = max(self.flow.now, now)
        try:
            self._run_all()
        finally:
            self._furthest = None

    def ran_until(self, timer: Timer) -> int:
        """Up to which time all that was due of an element has fired: during a jump of the playback clock its turn may be still to come."""
        if self._furthest is None or timer.order <= self._furthest:
            return self.flow.now
        return self._before

    def _run_all(self) -> None:
        waiting: list[tuple[int, int, str]] = []
        last = furthest = -1
        while True:
            while (due := self.next_due()) is not None and due <= self.flow.now:
                waiting.append(heapq.heappop(self._heap))
            if not waiting:
                return
            # the next element that has something due; after the last one those that got something from later ones
            last = min((order for _due, order, _key in waiting if order > last), default=-1)
            furthest = self._furthest = max(last, furthest)
            turn = sorted(entry for entry in waiting if entry[1] == last)
            waiting = [entry for entry in waiting if entry[1] != last]
            for due, order, key in turn:
                if self._is_head(due, self._all[order], key):
                    self._run_out(self._all[order], key)

    def _run_out(self, timer: Timer, key: str) -> None:
        """Fire all that is due of one element under one key, one after the other. Errors: JUMP_TOO_FAR, for what would practically never end."""
        first, fired = None, 0
        while len(waiting := timer.state.at(key)["due"]) and waiting[0] <= self.flow.now:
            first = waiting[0] if first is None else first
            fired += 1
            if fired > MOST_IN_A_JUMP:
                raise error(
                    "JUMP_TOO_FAR", element=timer.state.id, since=first, now=self.flow.now, times=MOST_IN_A_JUMP
                )
            self._fire(timer, key, offer=False)
        if len(waiting):
            self.offer(waiting[0], timer, key)

    def _is_head(self, due: int, timer: Timer, key: str) -> bool:
        if key not in timer.state.flow_keys():
            return False
        waiting: Deque = timer.state.at(key)["due"]
        return len(waiting) > 0 and waiting[0] == due

    def _fire(self, timer: Timer, key: str, offer: bool = True) -> None:
        flow = self.flow
        waiting: Deque = timer.state.at(key)["due"]
        due = waiting.popleft()
        if offer and len(waiting):
            self.offer(waiting[0], timer, key)
        before = flow.key, flow.group
        flow.key, flow.group = key, flow.group_of(key)
        try:
            timer.woken(due)
        except MemoryError:
            raise  # how much there is is no input: it fails the cut, not an event
        except Exception as problem:
            if flow.on_error is None:
                raise
            flow.on_error(problem)
        finally:
            flow.key, flow.group = before
