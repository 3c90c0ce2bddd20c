"""The live kernels of one app in a host: what a cut does to one, and which frames of its state are to be written. A cache; nothing is lost with it.

A kernel is found by (query, bucket) and recognised by its *token*, which is random, new after every cut and stored with the state. Whoever comes
with another token than the kernel's gets `need: state` and must feed the frames of the state first.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nadi.kernel.contract import Kernel, Outputs
from nadi.kernel.control import CONTROL
from nadi.pipeline.executor.dumper import Dumper
from nadi.pipeline.executor.feeding import Feeding
from nadi.pipeline.executor.forked import resident
from nadi.pipeline.executor.snapshot import Since, Snapshot
from nadi.pipeline.hosting.protocol import Frame, Part
from nadi.pipeline.inputs.fatrows import Body, Gathered, gather, to_ipc, unpack
from nadi.pipeline.inputs.sends import Send
from nadi.pipeline.state.frames import base_stream, delta_stream, to_frames
from nadi.pipeline.state.layout import POLICY, Directory, Plan, Policy, plan_base, plan_delta

IDLE = 1_800.0  # seconds after which the cache lets go of a kernel
IDLE_FEEDING = 120.0  # and of frames that were fed for a task that did not come back
SIZES_EVERY = 2.0  # seconds between two countings of entries
WITHOUT_SNAPSHOT = (
    4  # times the base that deltas may weigh before a dump that cannot be made beside a batch is made within it
)
KEPT_OPEN = 8  # feedings under way

Place = tuple[str, int]
"""Query and bucket."""


@dataclass(slots=True)
class Held:
    """A live kernel: at `token` after cut `cut`; `before` was its token before that cut, whose answer and outputs are kept for repeated tasks.

    A `snapshot` is of this kernel's own past, so it can become the base of this life of the state only, and goes with the kernel.
    """

    kernel: Kernel
    token: str
    before: str = ""
    cut: int = -1
    clock: int = 0
    answer: Frame | None = None
    outputs: Outputs | None = None
    errors: list[list[Any]] = field(default_factory=list)
    sends: list[Send] = field(default_factory=list)
    entries: dict[str, int] = field(default_factory=dict)
    snapshot: Snapshot | None = None
    loading: float = 0.0  # seconds, told once
    counted: float = 0.0
    used: float = 0.0

    def release(self) -> None:
        """Give the memory back, the child's, too; the kernel is not used any more.

        Loading nothing empties its stores at once. What is left are some thousand objects in cycles, which the collector finds when the host is idle.
        """
        if self.snapshot is not None:
            self.snapshot.close()
            self.snapshot = None
        self.answer = self.outputs = None
        self.kernel.load(())


def _as_given(_heads: Sequence[dict[str, Any]], bodies: Sequence[Part]) -> Sequence[Body]:
    return bodies


class Kernels:
    """Makes, feeds and keeps them. `streams` names the inputs by ordinal; with `one_query` a kernel of another query than the one that asks is left from its
    past; snapshots are made in `scratch`, and dumps for revisions by `dumper`, where there is one. `taken` gives the bodies of fat rows that are elsewhere.
    """

    def __init__(
        self,
        make: Callable[[int], Kernel],
        start: Callable[[Kernel, int, int], None],
        streams: Mapping[int, str],
        scratch: Path,
        one_query: bool,
        policy: Policy = POLICY,
        dumper: Dumper | None = None,
        taken: Callable[[Sequence[dict[str, Any]], Sequence[Part]], Sequence[Body]] = _as_given,
    ) -> None:
        self._make = make
        self._start = start
        self._streams = streams
        self._scratch = scratch
        self._one_query = one_query
        self._policy = policy
        self._dumper = dumper
        self._taken = taken
        self._held: dict[Place, Held] = {}
        self._locks: dict[Place, threading.Lock] = {}
        self._fed: dict[str, Feeding] = {}
        self._lock = threading.Lock()

    @contextmanager
    def user(self, place: Place) -> Iterator[Held | None]:
        """The kernel of a place, if there is one; a kernel has one user at a time."""
        with self._lock_of(place):
            held = self._held.get(place)
            if held is not None:
                held.used = time.monotonic()
            yield held

    def written(self, place: Place, token: str) -> Held | None:
        """The kernel whose outputs a write is about; None where they are gone."""
        held = self._held.get(place)
        return None if held is None or held.token != token or held.outputs is None else held

    # ---- feeding

    def feed(self, head: dict[str, Any], parts: Sequence[Part]) -> Frame:
        """Take frames of a state, in order; `first` begins a new feeding, which the feeder has named."""
        key = head["feeding"]
        if head["first"]:
            with self._lock:
                self._fed[key] = Feeding(self._make(head["bucket"]))
                over = [self._fed.pop(k) for k in list(self._fed)[:-KEPT_OPEN]]
            for feeding in over:
                feeding.give_up()
        with self._lock:
            found = self._fed.get(key)
        if found is None:
            return Frame({"need": "state"}, [])
        found.take(parts)
        return Frame({"ok": True}, [])

    # ---- one cut

    def process(self, head: dict[str, Any], parts: Sequence[Part]) -> Frame:
        """One cut of one bucket: (directory, fat rows) → (new directory, frames to write, keys to remove)."""
        place = (head["query"], head["bucket"])
        with self._lock_of(place):
            return self._process(place, head, parts)

    def _process(self, place: Place, head: dict[str, Any], parts: Sequence[Part]) -> Frame:
        directory = Directory.unpack(head["directory"])
        heads = [unpack(h) for h in head["heads"]]
        rows = list(zip(heads, self._taken(heads, parts), strict=True))
        streams = {int(k): v for k, v in head["streams"].items()} if "streams" in head else self._streams
        gathered = gather(rows, streams)
        held = self._held.get(place)
        repeated = held is not None and held.before == directory.token and held.cut == gathered.n
        if held is not None and repeated and held.answer is not None and not head.get("want"):
            return held.answer
        if held is None or held.token != directory.token:
            held = self._kernel_at(place, directory, gathered.started, head.get("fed", ""))
            if held is None:
                return Frame({"need": "state"}, [])
        if self._one_query:
            self._leave_others(place)
        self._held.pop(place, None)  # a kernel that fails half-way is not met again
        try:
            answer = self._run(held, directory, gathered, head.get("want"))
            if self._dumper is not None:
                self._dumper.look(held.kernel, held.cut, place[1])
        except BaseException:
            held.release()
            raise
        self._held[place] = held
        return answer

    def _kernel_at(self, place: Place, directory: Directory, started: int, fed: str) -> Held | None:
        """The kernel of a state, from what was fed; None where that is missing."""
        with self._lock:
            feeding = self._fed.pop(fed, None)
        if directory.token:
            kernel = None if feeding is None else feeding.finish(directory.frames)
            if kernel is None or feeding is None:
                return None
            made = Held(kernel, directory.token, loading=feeding.loading)
        else:
            made = Held(self._make(place[1]), "")
            self._start(made.kernel, place[1], started)
        if (other := self._held.pop(place, None)) is not None:
            other.release()
        return made

    def _run(self, held: Held, directory: Directory, gathered: Gathered, want: list[str] | None) -> Frame:
        kernel = held.kernel
        outputs = kernel.process(gathered.arrivals, gathered.clock)
        held.before, held.token, held.cut = held.token, secrets.token_hex(8), gathered.n
        held.clock = gathered.clock
        held.used = time.monotonic()
        plan, frames = self._state(held, directory)
        self._count(held)
        head = {
            "token": held.token,
            "cut": held.cut,
            "directory": plan.after.pack(),
            "writes": [plan.written, plan.copies],
            "removes": plan.removed,
            "frames": len(frames),
            "due": kernel.next_timer(),
            "in": {stream: n for stream, n in gathered.events.items() if stream != CONTROL},
            "out": {k: b.num_rows for k, b in outputs.batches.items()},
            "entries": held.entries,
            "highs": [[o, p, high] for (o, p), high in sorted(gathered.highs.items())],
            "bytes": gathered.bytes,
            "state_bytes": plan.after.bytes,
            "memory": resident(),
            "loading": held.loading,
            "snapshot": "" if held.snapshot is None else "dumping" if held.snapshot.dump is None else "copying",
        }
        held.loading = 0.0
        if want is not None:
            given = [name for name in want if name in outputs.batches]
            bodies = [to_ipc(outputs.batches[name]) for name in given]
            failures = [f.message for f in outputs.failures]
            told = {**head, "outputs": given, "failed": len(failures), "failures": failures[:5]}
            return Frame(told, [*views(frames), *views(bodies)])
        held.outputs, held.errors, held.sends = outputs, gathered.errors, gathered.sends
        held.answer = Frame(head, views(frames))
        return held.answer

    def _state(self, held: Held, directory: Directory) -> tuple[Plan, list[bytes]]:
        """What this cut does to the store: its delta with a slice of a dump, or a base of all there is; begins a dump where one is due."""
        policy, delta = self._policy, held.kernel.delta()
        if not directory.token:
            return self._base(held, directory)
        frames = to_frames(delta_stream(delta), policy.frame_bytes)
        dump = held.snapshot.look() if held.snapshot is not None else None
        plan = plan_delta(directory, held.token, held.cut, len(frames), len(delta), dump, policy)
        if held.snapshot is None:
            if plan.after.heavy(policy):
                too_heavy = plan.after.heavy(policy, WITHOUT_SNAPSHOT)
                if directory.small(policy) or (not self._begin(held, plan) and too_heavy):
                    return self._base(held, directory)
        else:
            frames.extend(held.snapshot.frames(*plan.copied))
            if held.snapshot.failed or (dump is not None and plan.after.growing is None):
                held.snapshot.close()
                held.snapshot = None
        return plan, frames

    def _base(self, held: Held, directory: Directory) -> tuple[Plan, list[bytes]]:
        frames = to_frames(base_stream(held.kernel.dump()), self._policy.frame_bytes)
        size = sum(map(len, frames))
        return plan_base(directory, held.token, held.cut, len(frames), size, self._policy), frames

    def _begin(self, held: Held, plan: Plan) -> bool:
        """Begin a dump of the state after this cut; whether one could be begun."""
        deltas = plan.after.deltas
        held.snapshot = Snapshot.begin(
            held.kernel, self._scratch, Since(deltas.end, deltas.bytes), self._policy.frame_bytes
        )
        return held.snapshot is not None

    def _count(self, held: Held) -> None:
        if held.used - held.counted > SIZES_EVERY:
            held.entries, held.counted = held.kernel.size(), held.used

    # ---- housekeeping

    def _lock_of(self, place: Place) -> threading.Lock:
        with self._lock:
            return self._locks.setdefault(place, threading.Lock())

    def _leave_others(self, place: Place) -> None:
        """Let go of this bucket's kernel of another query (that is: of another checkpoint)."""
        for other in [p for p in self._held if p[1] == place[1] and p != place]:
            self._let_go(other)

    def _let_go(self, place: Place) -> bool:
        lock = self._lock_of(place)
        if not lock.acquire(blocking=False):
            return False  # in use
        try:
            held = self._held.pop(place, None)
            if held is not None:
                held.release()
            return held is not None
        finally:
            lock.release()

    def let_go_idle(self, now: float) -> int:
        """Drop kernels and fed frames that nobody asked for in a long while (a later task feeds them again); how many kernels went."""
        with self._lock:
            over = [self._fed.pop(k) for k, f in list(self._fed.items()) if f.used < now - IDLE_FEEDING]
        for feeding in over:
            feeding.give_up()
        idle = [place for place, held in list(self._held.items()) if held.used < now - IDLE]
        return sum(self._let_go(place) for place in idle)

    @property
    def last_use(self) -> float:
        """When any of them was used last, by the monotonic clock."""
        return max((held.used for held in list(self._held.values())), default=0.0)

    def close(self) -> None:
        """Let go of all."""
        with self._lock:
            over = list(self._fed.values())
            self._fed.clear()
        for feeding in over:
            feeding.give_up()
        for place in list(self._held):
            with self._lock_of(place):
                held = self._held.pop(place, None)
                if held is not None:
                    held.release()


def views(parts: Sequence[Part]) -> list[memoryview]:
    return [memoryview(p) for p in parts]
