"""In a host, with `nadi run --profile`: how long what it does for an app took, and which query the kernels spent their time in.

A host writes what it knows to `<state>/profile/<process id>.json` about twice a second, whole. The driver puts the files together (`nadi.pipeline.profile`).
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

from nadi.config.ownership import make_folders
from nadi.kernel.contract import Arrivals, Kernel, Outputs, Row, Segment
from nadi.plan.nodes import OnDemand

T = TypeVar("T")

KEPT = 3_000  # notes: some seconds of small batches
WRITE_EVERY = 0.4  # seconds


class Note(msgspec.Struct, frozen=True, array_like=True):
    """A phase of work: read, kernel, process (the kernel and its state), write or commit; its begin and end (ms since the epoch)."""

    phase: str
    begin: float
    end: float


class Timed(msgspec.Struct, frozen=True, array_like=True):
    """What a part of an app took in the kernels of a host: ns of its own, entries, events."""

    ns: int
    calls: int
    events: int


class Part(Protocol):
    """What a kernel has charged to a part so far; it goes on."""

    ns: int
    calls: int
    events: int


class Told(msgspec.Struct, frozen=True):
    """All that a host tells: its latest notes, and since its begin the time of each part by label, and of the kernels (ns)."""

    notes: list[Note]
    parts: dict[str, Timed]
    kernel_ns: int


class Stopwatch:
    """Notes of one app in this host. `state` is its state folder."""

    def __init__(self, state: Path) -> None:
        self._path = state / "profile" / f"{os.getpid()}.json"
        make_folders(self._path.parent)
        self._notes: deque[Note] = deque(maxlen=KEPT)
        self._parts: list[Mapping[str, Part]] = []  # of all kernels there were; the kernels themselves may go
        self._lock = threading.Lock()
        self._written = float("-inf")
        self.kernel_ns = 0

    def note(self, phase: str, begin: float) -> None:
        """Something that began at `begin` (s since the epoch) is over now."""
        self._notes.append(Note(phase, begin * 1000, time.time() * 1000))

    def timed(self, operation: str, action: Callable[[], T]) -> T:
        """The result of an operation of the host."""
        begin = time.time()
        try:
            return action()
        finally:
            self.note(operation, begin)
            if time.monotonic() - self._written >= WRITE_EVERY:
                self.write()

    def each(self, phase: str, rows: Iterable[T]) -> Iterator[T]:
        """Pass rows on; what making them took is one note each, without what is done with them meanwhile."""
        made = iter(rows)
        while True:
            begin = time.time()
            row = next(made, None)
            self.note(phase, begin)
            if row is None:
                return
            yield row

    def kernel(self, inner: Kernel) -> Kernel:
        """A kernel whose cuts are timed, and its queries, where it can."""
        measure = getattr(inner, "measure", None)  # a kernel may not know its queries apart
        if measure is not None:
            with self._lock:
                self._parts.append(measure(time.perf_counter_ns).parts)
        return TimedKernel(inner, self)

    def told(self) -> Told:
        """All there is to tell."""
        parts: dict[str, Timed] = {}
        with self._lock:
            for of_kernel in self._parts:
                for label, part in of_kernel.items():
                    before = parts.get(label, Timed(0, 0, 0))
                    parts[label] = Timed(before.ns + part.ns, before.calls + part.calls, before.events + part.events)
            return Told(list(self._notes), parts, self.kernel_ns)

    def write(self) -> None:
        """Tell the driver."""
        self._written = time.monotonic()
        fresh = self._path.with_suffix(".new")
        try:
            fresh.write_bytes(msgspec.json.encode(self.told()))
            fresh.replace(self._path)
        except OSError:
            return  # a full disk is for those to tell who need it; this is for display


class TimedKernel:
    """A kernel under a stopwatch."""

    def __init__(self, inner: Kernel, watch: Stopwatch) -> None:
        self._inner = inner
        self._watch = watch

    def start(self, now: int) -> None:
        self._inner.start(now)

    def process(self, arrivals: Arrivals, until: int) -> Outputs:
        begin, start = time.time(), time.perf_counter_ns()
        try:
            return self._inner.process(arrivals, until)
        finally:
            self._watch.kernel_ns += time.perf_counter_ns() - start
            self._watch.note("kernel", begin)

    def next_timer(self) -> int | None:
        return self._inner.next_timer()

    def delta(self) -> bytes:
        return self._inner.delta()

    def dump(self) -> Iterable[Segment]:
        return self._inner.dump()

    def load(self, state: Iterable[Segment | bytes]) -> None:
        self._inner.load(state)

    def find(self, question: OnDemand) -> list[Row]:
        return self._inner.find(question)

    def select(self, question: OnDemand, rows: Sequence[Row]) -> list[Row]:
        return self._inner.select(question, rows)

    def size(self) -> dict[str, int]:
        return self._inner.size()
