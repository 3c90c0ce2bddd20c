"""The live kernels of one app over streaming DataFrames in a host, whose states are in Spark's state store: what a batch does to one, and which frames of its
state are to be written. A cache; nothing is lost with it.

A kernel is found by (query, bucket) and recognised by its *token*, which is random, new after every cut and stored with the state. Whoever comes
with another token than the kernel's gets `need: state` and must feed the frames of the state first.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nadi.kernel.contract import Kernel
from nadi.pipeline.executor.snapshot import Since, Snapshot
from nadi.pipeline.executor.statefeed import Feeding
from nadi.pipeline.hosting.protocol import Frame, Part
from nadi.pipeline.inputs.fatrows import Gathered, gather, to_ipc, unpack
from nadi.pipeline.spec import AppSpec, planned
from nadi.pipeline.state.frames import base_stream, delta_stream, to_frames
from nadi.pipeline.state.layout import POLICY, Directory, Plan, plan_base, plan_delta

IDLE = 1_800.0  # seconds after which the cache lets go of a kernel
IDLE_FEEDING = 120.0  # and of frames that were fed for a task that did not come back
WITHOUT_SNAPSHOT = (
    4  # times the base that deltas may weigh before a dump that cannot be made beside a batch is made within it
)
KEPT_OPEN = 8  # feedings under way
FAILURES = 5  # that are told of a batch

Place = tuple[str, int]
"""Query and bucket."""


@dataclass(slots=True)
class Held:
    """A live kernel at `token`, after cut `cut`.

    A `snapshot` is of this kernel's own past, so it can become the base of this life of the state only, and goes with the kernel.
    """

    kernel: Kernel
    token: str
    cut: int = -1
    snapshot: Snapshot | None = None
    used: float = 0.0

    def release(self) -> None:
        """Give the memory back, the child's, too; the kernel is not used any more.

        Loading nothing empties its stores at once. What is left are some thousand objects in cycles, which the collector finds when the host is idle.
        """
        if self.snapshot is not None:
            self.snapshot.close()
            self.snapshot = None
        self.kernel.load(())


class Kernels:
    """Makes, feeds and keeps them. Snapshots are made in `scratch`."""

    def __init__(self, spec: AppSpec, scratch: Path) -> None:
        self.spec = spec
        self._engine = spec.load_engine()
        self._app = planned(self._engine, spec.text, spec.variables)
        self._scratch = scratch
        self._policy = getattr(self._engine, "POLICY", POLICY)  # that of a test has frames of some bytes
        self._held: dict[Place, Held] = {}
        self._locks: dict[Place, threading.Lock] = {}
        self._fed: dict[str, Feeding] = {}
        self._lock = threading.Lock()

    def answer(self, head: dict[str, Any], parts: Sequence[Part]) -> Frame:
        """The answer to a request. Raises ValueError for an operation that is none of theirs."""
        if head["op"] == "process":
            return self._processed(head, parts)
        if head["op"] == "feed":
            return self._taken(head, parts)
        raise ValueError(f"a query over DataFrames has no operation {head['op']}")

    def _make(self, bucket: int) -> Kernel:
        return self._engine.make_kernel(self._app, self.spec.outputs, bucket, self.spec.properties)

    # ---- feeding

    def _taken(self, head: dict[str, Any], parts: Sequence[Part]) -> Frame:
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

    def _processed(self, head: dict[str, Any], parts: Sequence[Part]) -> Frame:
        """One cut of one bucket: (directory, fat rows) → (new directory, frames to write, keys to remove, the rows of the streams that `want` names)."""
        place = (head["query"], head["bucket"])
        with self._lock_of(place):
            return self._process(place, head, parts)

    def _process(self, place: Place, head: dict[str, Any], parts: Sequence[Part]) -> Frame:
        directory = Directory.unpack(head["directory"])
        rows = [(unpack(h), body) for h, body in zip(head["heads"], parts, strict=True)]
        gathered = gather(rows, {int(k): v for k, v in head["streams"].items()})
        held = self._held.get(place)
        if held is None or held.token != directory.token:
            held = self._kernel_at(place, directory, gathered.started, head.get("fed", ""))
            if held is None:
                return Frame({"need": "state"}, [])
        self._held.pop(place, None)  # a kernel that fails half-way is not met again
        try:
            answer = self._run(held, directory, gathered, head["want"])
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
            if kernel is None:
                return None
        else:
            kernel = self._make(place[1])
            kernel.start(started)
        if (other := self._held.pop(place, None)) is not None:
            other.release()
        return Held(kernel, directory.token)

    def _run(self, held: Held, directory: Directory, gathered: Gathered, want: Sequence[str]) -> Frame:
        outputs = held.kernel.process(gathered.arrivals, gathered.clock)
        held.token, held.cut = secrets.token_hex(8), gathered.n
        held.used = time.monotonic()
        plan, frames = self._state(held, directory)
        given = [name for name in want if name in outputs.batches]
        head = {
            "directory": plan.after.pack(),
            "writes": [plan.written, plan.copies],
            "removes": plan.removed,
            "frames": len(frames),
            "outputs": given,
            "failed": len(outputs.failures),
            "failures": [failure.message for failure in outputs.failures[:FAILURES]],
        }
        bodies = [to_ipc(outputs.batches[name]) for name in given]
        return Frame(head, [memoryview(part) for part in (*frames, *bodies)])

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

    # ---- housekeeping

    def _lock_of(self, place: Place) -> threading.Lock:
        with self._lock:
            return self._locks.setdefault(place, threading.Lock())

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
