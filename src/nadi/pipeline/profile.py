"""Where the time of a profiled app goes: what Spark tells of its batches and what hosts note (`nadi.pipeline.executor.stopwatch`), put together on the driver.

`<state>/profile.json` is replaced about once a second while the app runs, and stays when it has ended. Each moment of a batch counts for one phase only,
so the phases add up to the batch, also where hosts work side by side.
"""

from __future__ import annotations

import shutil
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from nadi.io.durablefiles import read_note
from nadi.pipeline.executor.stopwatch import Note, Timed, Told
from nadi.pipeline.query import at_work
from nadi.received import read_json

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

WINDOW = 300  # batches that the figures are about
WRITE_EVERY = 1.0  # seconds
SETTLED = 1_500.0  # ms after its end at which hosts have written what they did in a batch
FILE = "profile.json"

PLANNING, OFFSETS, SCHEDULING, COMMITS = "planning", "offset log", "scheduling", "commit log"
_SPARK = {PLANNING: "queryPlanning", OFFSETS: "walCommit", COMMITS: "commitOffsets"}
_HOSTS = {
    "kernel": ("kernel",),
    "state": ("process",),
    "read": ("read",),
    "write": ("write",),
    "commit": ("commit",),
}
"""Our names for what hosts note. An earlier one has a moment that two of them share: the kernel is within `process`."""

PHASES = (OFFSETS, PLANNING, SCHEDULING, "read", "kernel", "state", "write", "commit", COMMITS)
"""In the order of a batch. *read* has decoding and spreading over buckets, *scheduling* is what is left: Spark's jobs and tasks, Python workers, shuffle."""


class Batch(msgspec.Struct, frozen=True):
    """A batch as Spark tells it: number, begin (ms since the epoch), `durationMs`; whether it is the first one of a query, in which all is started."""

    id: int
    begin: float
    ms: dict[str, int]
    cold: bool = False

    @property
    def length(self) -> float:
        return float(self.ms.get("triggerExecution", 0))


class Spent(msgspec.Struct, frozen=True):
    """Milliseconds of a phase in a batch: mean, median, 99th percentile; share of the whole time of all batches."""

    mean: float
    p50: float
    p99: float
    share: float


class PartTime(msgspec.Struct, frozen=True):
    """A query, named window, aggregation or trigger: ms of its own in the kernels since the node started, share of theirs, events it took, µs for each."""

    name: str
    ms: float
    share: float
    events: int
    us_per_event: float


class Profile(msgspec.Struct, frozen=True):
    """Where the time of an app goes. Figures of `batch` and `phases` are of the last `batches` of `total`, without first ones, where there are others; `at`
    and `since` are ms since the epoch.

    `slowest` names the part with the most time; "" where kernels do not tell their queries apart.
    """

    app: str
    since: int
    at: int
    total: int
    batches: int
    batch: Spent
    phases: dict[str, Spent]
    parts: list[PartTime]
    slowest: str


def read_profile(state: Path) -> Profile | None:
    """The profile of an app by its state folder; None where it was not profiled. Errors: STATE_FILE_NOT_READABLE."""
    try:
        found: Profile = read_note(state / FILE, Profile)
        return found
    except (FileNotFoundError, NotADirectoryError):
        return None


def forget_profile(state: Path) -> None:
    """What a run before has left."""
    (state / FILE).unlink(missing_ok=True)
    shutil.rmtree(state / "profile", ignore_errors=True)


# ---- figures: pure -------------------------------------------------------------------------------------------------


def phases_of(batch: Batch, notes: Iterable[Note]) -> dict[str, float]:
    """Milliseconds of each phase in a batch; they add up to its length.

    >>> told = {"triggerExecution": 100, "queryPlanning": 5, "walCommit": 3, "commitOffsets": 2}
    >>> found = phases_of(Batch(1, 0.0, told), [Note("read", 20, 30), Note("process", 40, 60), Note("kernel", 45, 55)])
    >>> found["read"], found["kernel"], found["state"], found["scheduling"], sum(found.values())
    (10.0, 10.0, 10.0, 60.0, 100.0)
    """
    begin, end = batch.begin, batch.begin + batch.length
    inside = [n for n in notes if n.begin < end and n.end > begin]
    found = {name: float(batch.ms.get(key, 0)) for name, key in _SPARK.items()}
    taken: list[tuple[float, float]] = []
    before = 0.0
    for name, kinds in _HOSTS.items():
        taken += [(max(n.begin, begin), min(n.end, end)) for n in inside if n.phase in kinds]
        total = covered(taken)
        found[name], before = total - before, total
    found[SCHEDULING] = max(0.0, batch.length - sum(found.values()))
    return {name: found[name] for name in PHASES}


def covered(intervals: Iterable[tuple[float, float]]) -> float:
    """How much time some intervals (begin, end) cover together.

    >>> covered([(0, 2), (1, 3), (5, 6)])
    4.0
    """
    total, reached = 0.0, float("-inf")
    for begin, end in sorted(intervals):
        total += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    return total


def spent(values: Sequence[float], whole: float) -> Spent:
    """
    >>> spent([1.0, 2.0, 6.0], 18.0)
    Spent(mean=3.0, p50=2.0, p99=6.0, share=0.5)
    """
    if not values:
        return Spent(0.0, 0.0, 0.0, 0.0)
    ordered = sorted(values)
    total = sum(ordered)
    median, late = ordered[len(ordered) // 2], ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)]
    return Spent(total / len(ordered), median, late, total / whole if whole else 0.0)


def parts_of(parts: Mapping[str, Timed], kernel_ns: int) -> list[PartTime]:
    """What each part took, the slowest first."""
    whole = max(kernel_ns, sum(p.ns for p in parts.values()), 1)
    return [
        PartTime(label, p.ns / 1e6, p.ns / whole, p.events, p.ns / 1e3 / p.events if p.events else 0.0)
        for label, p in sorted(parts.items(), key=lambda item: -item[1].ns)
        if p.calls
    ]


# ---- on the driver -------------------------------------------------------------------------------------------------


class Profiler:
    """Follows one app: looks at its query and the files of its hosts, writes its profile."""

    def __init__(self, app: str, state: Path) -> None:
        self._app, self._state = app, state
        self._since = time.time()
        self._last = -1
        self._run = ""
        self._waiting: list[Batch] = []
        self._batches: deque[tuple[float, dict[str, float]]] = deque(maxlen=WINDOW)
        self._cold: list[tuple[float, dict[str, float]]] = []
        self._total = 0
        self._written = 0.0

    def look(self, query: StreamingQuery) -> None:
        """Take over what is new; write, if the last time is long enough ago."""
        self._waiting += self._new_batches(query)
        now = time.time() * 1000
        if now - self._written >= WRITE_EVERY * 1000:
            self._take(now, SETTLED)

    def finish(self, query: StreamingQuery | None) -> None:
        """Take over the last batches and what hosts have written at their end."""
        if query is not None:
            self._waiting += self._new_batches(query)
        self._take(time.time() * 1000, 0.0)

    def _take(self, now: float, settled: float) -> None:
        self._written = now
        told = self._told()
        notes = sorted((n for one in told for n in one.notes), key=lambda n: n.begin)
        ready = [b for b in self._waiting if not settled or b.begin + b.length < now - settled]
        self._waiting = [b for b in self._waiting if b not in ready]
        for batch in ready:
            made = batch.length, phases_of(batch, notes)
            if batch.cold:
                self._cold = [made]
            else:
                self._batches.append(made)
        self._total += len(ready)
        self._write(self._profile(told, int(now)))

    def _new_batches(self, query: StreamingQuery) -> list[Batch]:
        """Those that Spark has not told of before; looks without a batch are left out."""
        run = str(query.runId)
        if run != self._run:
            self._run, self._last = run, -1  # a restart may do its last batch again
        found: list[Batch] = []
        jvm: Any = query
        for progress in reversed(jvm._jsq.recentProgress()):
            batch = int(progress.batchId())
            if batch <= self._last:
                break
            told = msgspec.json.decode(progress.json())
            if "addBatch" in told["durationMs"]:
                begin = datetime.fromisoformat(told["timestamp"].replace("Z", "+00:00")).timestamp() * 1000
                waited = told["durationMs"].get("latestOffset", 0)
                found.append(Batch(batch, begin + waited, at_work(told["durationMs"])))
        if found and self._last < 0:
            found[-1] = msgspec.structs.replace(found[-1], cold=True)
        if found:
            self._last = found[0].id
        return found[::-1]

    def _told(self) -> list[Told]:
        """What all hosts have written since the node started, those that have died meanwhile, too."""
        found = []
        for path in sorted((self._state / "profile").glob("*.json")):
            try:
                found.append(read_json(path.read_bytes(), Told))
            except (OSError, msgspec.DecodeError):
                continue  # for display only; it is written again in a moment
        return found

    def _profile(self, told: Sequence[Told], now: int) -> Profile:
        parts: dict[str, Timed] = {}
        for one in told:
            for label, part in one.parts.items():
                before = parts.get(label, Timed(0, 0, 0))
                parts[label] = Timed(before.ns + part.ns, before.calls + part.calls, before.events + part.events)
        chosen = [*self._batches] or self._cold
        lengths = [length for length, _ in chosen]
        whole = sum(lengths)
        phases = {name: spent([found[name] for _, found in chosen], whole) for name in PHASES}
        listed = parts_of(parts, sum(one.kernel_ns for one in told))
        slowest = listed[0].name if listed else ""
        since = int(self._since * 1000)
        return Profile(self._app, since, now, self._total, len(lengths), spent(lengths, whole), phases, listed, slowest)

    def _write(self, profile: Profile) -> None:
        fresh = self._state / f"{FILE}.new"
        try:
            fresh.write_bytes(msgspec.json.encode(profile))
            fresh.replace(self._state / FILE)
        except OSError:
            return  # for display only: a disk that is full ends the app by another name
