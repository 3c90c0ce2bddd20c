"""`reorder:kslack` and `reorder:akslack`: events are held back until no earlier one is expected, and given out in the order of a time.

K-slack: K is the greatest lateness seen so far, at most `max.k`. Lateness is measured when the greatest time grows: the distance from it to the least
time that came since it last grew. Then all that is K older than the greatest time goes out. With a `timeout` what came that long ago goes out, and with
it all that precedes it in the order, at ticks of a second.

>>> from nadi.runtime import Runtime
>>> runtime = Runtime("define stream S (at long); from S#reorder:kslack(at) select at insert into Out;")
>>> found = []
>>> runtime.on_stream("Out", lambda events: found.extend(e.row[0] for e in events))
>>> runtime.start()
>>> for at in (1, 4, 3, 5, 6, 9, 7, 8, 10, 13):
...     runtime.send("S", [(None, (at,))])
>>> found
[1, 4, 3, 5, 6, 7, 8, 9, 10]
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple

from nadi.errors import error
from nadi.functions.arithmetic import told
from nadi.kernel.rows.events import RESET, Chunk, Event, Row
from nadi.kernel.rows.processors.contract import Setup
from nadi.kernel.rows.processors.coverage import Alpha, java_round
from nadi.kernel.rows.state import Cells, Map, Value

TICK = 1000
"""How often timeouts are looked at, ms."""

UNBOUNDED = 2**63 - 1


class Course(NamedTuple):
    """Where the order has come to: K, the greatest time, the least since it grew, the last that went out, what number comes next, that of the first since."""

    k: int = 0
    greatest: int | None = None
    least: int | None = None
    sent: int | None = None
    number: int = 0
    since: int = 0


@dataclass(frozen=True, slots=True)
class Options:
    """`timeout` None: never; `most`: the bound of K; `discards`: what is earlier than what has gone out is dropped."""

    timeout: int | None = None
    most: int = UNBOUNDED
    discards: bool = False


class Slack:
    """Cells: `buffer` number → (time, arrival, kind, timestamp, row) in the order of arrival, `course`, `ticks`, whether a tick is set.

    With `alpha` (AQ-K-slack) it sees every event and scales K; its cells are there too. Which event goes out next follows from the buffer: a heap per flow
    key, made anew when the cells are others.
    """

    def __init__(self, setup: Setup, options: Options, alpha: Alpha | None = None) -> None:
        self._flow, self._emit = setup.flow, setup.emit
        self._time, self._name = setup.value(0), setup.step.name
        self._options, self._alpha = options, alpha
        self._field: Callable[[Row, int], Any] | None = None if alpha is None else setup.value(1)
        more = {} if alpha is None else alpha.cells
        self._state = setup.element(buffer=Map, course=Value, ticks=Value, **more)
        self._timer = setup.timer(self._tick)
        self._heaps: dict[str, tuple[Cells, list[tuple[int, int]]]] = {}

    def process(self, chunk: Chunk) -> None:
        cells = self._state.at(self._flow.key)
        out: Chunk = []
        for event in chunk:
            if event.kind >= RESET:
                out.append(event)
            else:
                self._arrive(cells, event, out)
        self._keep_ticking(cells)
        if out:
            self._emit(out)

    def _arrive(self, cells: Cells, event: Event, out: Chunk) -> None:
        course, time = _course(cells), self._number(self._time(event.row, event.ts), (int,))
        if self._alpha is not None and self._field is not None:
            self._alpha.observe(cells, time, self._number(self._field(event.row, event.ts), (int, float)))
        if self._options.discards and course.sent is not None and time < course.sent:
            return
        heappush(self._heap(cells), (time, course.number))
        cells["buffer"].set(course.number, (time, self._flow.now, event.kind, event.ts, event.row))
        least = time if course.least is None else min(time, course.least)
        course = course._replace(number=course.number + 1, least=least)
        if self._alpha is not None:
            self._alpha.count(cells, time, course.k)
        if course.greatest is None or time > course.greatest:
            course = self._advance(cells, course, time, time - least, out)
        cells["course"].set(tuple(course))

    def _number(self, value: Any, kinds: tuple[type, ...]) -> Any:
        if value is None:
            raise error("NULL_VALUE", where=f"a parameter of '{self._name}'")
        if type(value) not in kinds:
            raise error("CLASS_CAST", where=f"a parameter of '{self._name}'", reason=f"{told(value)} is not a number")
        return value

    def _advance(self, cells: Cells, course: Course, greatest: int, lateness: int, out: Chunk) -> Course:
        """The greatest time grew."""
        k, most = course.k, self._options.most
        if lateness > k:
            scaled = lateness if self._alpha is None else java_round(lateness * self._alpha.factor(cells))
            k = scaled if lateness < most else most
        course = course._replace(k=k, greatest=greatest, least=None, since=course.number)
        return self._release(cells, course, greatest - k, out)

    def _release(self, cells: Cells, course: Course, until: int, out: Chunk) -> Course:
        """What is due goes out in the order of times, of equal ones as they came."""
        buffer: Map = cells["buffer"]
        heap, sent = self._heap(cells), course.sent
        while heap and heap[0][0] <= until:
            time, number = heappop(heap)
            _time, _arrival, kind, ts, row = buffer.pop(number)
            out.append(Event(kind, ts, row))
            sent = time
        if not heap:
            del self._heaps[self._flow.key]
        return course._replace(sent=sent)

    def _heap(self, cells: Cells) -> list[tuple[int, int]]:
        key = self._flow.key
        found = self._heaps.get(key)
        if found is None or found[0] is not cells:
            if len(self._heaps) > len(self._state.flow_keys()):
                self._heaps.clear()  # keys were dropped
            heap = [(entry[0], number) for number, entry in cells["buffer"].items()]
            heapify(heap)
            found = self._heaps[key] = (cells, heap)
        return found[1]

    # ---- timeout

    def _keep_ticking(self, cells: Cells) -> None:
        if self._options.timeout is not None and len(cells["buffer"]) and not cells["ticks"].get():
            cells["ticks"].set(True)
            self._timer.at(self._flow.now + TICK)

    def _tick(self, due: int) -> None:
        cells, now = self._state.at(self._flow.key), self._flow.now
        out: Chunk = []
        if (until := self._timed_out(cells, now)) is not None:
            course = self._release(cells, _course(cells), until, out)
            left = (entry[0] for number, entry in cells["buffer"].items() if number >= course.since)
            cells["course"].set(tuple(course._replace(least=min(left, default=None))))
        if len(cells["buffer"]):
            self._timer.at(due + ((now - due) // TICK + 1) * TICK)
        else:
            cells["ticks"].set(None)
        if out:
            self._emit(out)

    def _timed_out(self, cells: Cells, now: int) -> int | None:
        """The greatest time among events that have waited for the timeout."""
        found: int | None = None
        for time, arrival, *_event in cells["buffer"].values():
            if arrival + (self._options.timeout or 0) > now:
                break
            found = time if found is None else max(found, time)
        return found


def _course(cells: Cells) -> Course:
    found = cells["course"].get()
    return Course() if found is None else Course(*found)


def fixed_slack(setup: Setup) -> Slack:
    """`reorder:kslack(timestamp [, timeout [, max.k]] [, discard.late.arrival])`."""
    constants = [setup.constant(n) for n in range(1, len(setup.step.args))]
    numbers = [c for c in constants if type(c) is not bool]
    return Slack(setup, _options(*numbers, discards=True in constants))


def adaptive_slack(setup: Setup) -> Slack:
    """`reorder:akslack(timestamp, field [, batch.size [, timeout [, max.k [, discard.late.arrival [, error.threshold, confidence.level]]]]])`."""
    options = _options(setup.constant(3, -1), setup.constant(4, -1), discards=setup.constant(5, False))
    return Slack(setup, options, Alpha(setup.constant(2, 10_000), setup.constant(6, 0.03), setup.constant(7, 0.95)))


def _options(timeout: int = -1, most: int = -1, *, discards: bool) -> Options:
    return Options(None if timeout == -1 else timeout, UNBOUNDED if most == -1 else most, discards)
