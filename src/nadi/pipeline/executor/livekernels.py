"""The live kernels of one app in a host whose states are in a state log (`nadi.pipeline.statelog`). A cache; nothing is lost with it.

A kernel is recognised by the *tip* that it stands at: the name of the last piece that changed its state. Whoever asks for a cut names the tip that the cut
follows. A kernel that stands there takes the cut; one that has taken just this cut from there gives the same answer again; any other one is not used, and the
state is loaded from its line.

A cut counts for a kernel when its delta is durable. Whatever fails in between (`process` … `keep`) discards the kernel: it would be ahead of what is written.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import structlog

from nadi.errors import NadiError
from nadi.kernel.contract import Kernel
from nadi.kernel.control import CONTROL
from nadi.pipeline.executor.bases import AnotherAtWork, BaseWork
from nadi.pipeline.executor.forked import resident
from nadi.pipeline.executor.outcome import Outcome
from nadi.pipeline.executor.probe import AppProbe, Probe
from nadi.pipeline.executor.statefeed import uncollected
from nadi.pipeline.inputs.fatrows import Gathered
from nadi.pipeline.spec import AppSpec
from nadi.pipeline.statelog.chunks import Index, Place, write_base
from nadi.pipeline.statelog.lines import POLICY, Base, Line, Piece, Policy, after_base, after_delta, heavy, pins
from nadi.pipeline.statelog.names import delta_name
from nadi.pipeline.statelog.objects import Delta, write_deltas
from nadi.pipeline.statelog.recovery import load, read_index
from nadi.pipeline.statelog.store import ObjectStore
from nadi.pipeline.statelog.stores import open_store

if TYPE_CHECKING:
    from nadi.io.stores.surroundings import Surroundings

log = structlog.get_logger(__name__)

IDLE = 1_800.0  # seconds after which the cache lets go of a kernel
SIZES_EVERY = 2.0  # seconds between two countings of entries
# How many times what a base has said deltas may weigh before one is made within a cut: where no child can make it, and where it still waits for the children
# of others. Of a large state it takes seconds, for which its cut would last.
WITHOUT_CHILD = 4
TURN_WITHIN = 64


class At(NamedTuple):
    """Where a bucket stands before a cut. Who asks leaves the line out where it thinks that the host does not need it."""

    tip: str
    line: Line | None


class Standing(Enum):
    """What there is for a bucket: a kernel that can take the cut, one that has taken it, or none (and no line either)."""

    READY = "ready"
    TAKEN = "taken"
    LACKING = "lacking"


@dataclass(slots=True)
class Live:
    """A live kernel, which stands after `line`, and the last cut that it took. A base that is being made is of its own past, and goes with it."""

    kernel: Kernel
    line: Line
    epoch: int
    last: Step | None = None
    base: BaseWork | None = None
    begun: bool = True  # whether it has a state: else its first cut begins it
    beside: int = (
        0  # bytes of other buckets that the objects of its deltas have: none of them goes before these deltas do
    )
    entries: dict[str, int] = field(default_factory=dict)
    loading: float = 0.0  # seconds, told once
    counted: float = 0.0
    used: float = 0.0
    probe: Probe = field(default_factory=Probe)

    def leave_base(self) -> None:
        """Let go of a base that is being made."""
        if self.base is not None:
            self.base.close()
            self.base = None

    def release(self) -> None:
        """Give the memory back, the child's, too; the kernel is not used any more.

        Loading nothing empties its stores at once. What is left are some thousand objects in cycles, which the collector finds when the host is idle.
        """
        self.leave_base()
        self.last = None
        self.kernel.load(())


@dataclass(frozen=True, slots=True)
class Step:
    """What one cut did to a kernel, kept until the next one for whoever asks again.

    `before` is where it stood. `delta` is what changed; `whole`: there was no state before, so the whole state is written in its place; `renewed`: it is
    written beside it, as a new base. `base` is one that a child has made. `facts` are told with all that. `told` is complete once the step is durable. The cut
    was without `aside` messages.
    """

    live: Live
    bucket: int
    epoch: int
    cut: int
    before: Line
    outcome: Outcome
    facts: Mapping[str, Any]
    delta: bytes = b""
    whole: bool = False
    renewed: bool = False
    base: Base | None = None
    told: Mapping[str, Any] | None = None
    aside: int = 0


class LiveKernels:
    """Makes, loads and keeps them. `make` makes a kernel without state, `start(kernel, bucket, started)` gives it what it begins with; bases are made by
    children that tell of it in `scratch`; `probe` measures cuts, where that is asked for; `stores` are what tables in stores have
    around them. Every method but `using` and `user` is called within one of these."""

    def __init__(
        self,
        make: Callable[[int], Kernel],
        start: Callable[[Kernel, int, int], None],
        spec: AppSpec,
        scratch: Path,
        host: int,
        policy: Policy = POLICY,
        probe: AppProbe | None = None,
        stores: Surroundings | None = None,
    ) -> None:
        self._make = make
        self._start = start
        self._spec = spec
        self._scratch = scratch
        self._host = host
        self._policy = policy
        self._probe = probe
        self._stores = stores
        self._live: dict[int, Live] = {}
        self._seen: dict[int, tuple[int, int]] = {}
        self._locks: dict[int, threading.Lock] = {}
        self._lock = threading.Lock()
        self._closed = False

    @cached_property
    def store(self) -> ObjectStore:
        """Where the states are."""
        return open_store(self._spec.log_place)

    # ---- who uses them

    @contextmanager
    def using(self, buckets: Collection[int]) -> Iterator[None]:
        """Have the kernels of some buckets; one user at a time."""
        with ExitStack() as held:
            for bucket in sorted(buckets):
                held.enter_context(self._lock_of(bucket))
            try:
                yield
            finally:
                if self._closed:
                    for bucket in buckets:
                        self._leave(bucket)

    @contextmanager
    def user(self, bucket: int) -> Iterator[Live | None]:
        """The kernel of a bucket, if there is one, to look at."""
        with self.using([bucket]):
            live = self._live.get(bucket)
            if live is not None:
                live.used = time.monotonic()
            yield live

    def is_late(self, buckets: Collection[int], epoch: int, cut: int) -> bool:
        """Whether one of the buckets was asked for a later cut already; else this is the latest one."""
        asked = dict.fromkeys(buckets, (epoch, cut))
        if any(self._seen.get(bucket, now) > now for bucket, now in asked.items()):
            return True
        self._seen |= asked
        return False

    # ---- one cut

    def stand(self, bucket: int, at: At, epoch: int, cut: int, aside: int = 0) -> Standing:
        """What there is for a cut of a bucket; a state whose line was given is loaded. What the cut gave when fewer messages of it were set aside is not
        used. Errors: those of the state log."""
        if at.line is not None and at.line.tip != at.tip:
            raise ValueError(f"the line of bucket {bucket} leads to '{at.line.tip}', not to '{at.tip}'")
        live = self._live.get(bucket)
        if live is not None:
            if live.epoch != epoch:
                live.leave_base()  # what another run has written is swept, unless it was committed
            last = live.last
            if last is not None and (last.cut, last.aside) == (cut, aside) and last.before.tip == at.tip:
                if at.line is not None:
                    live.last = replace(last, before=at.line)
                return Standing.TAKEN
            if live.line.tip == at.tip and (last is None or last.cut < cut):
                if at.line is not None:
                    live.line = at.line  # who commits knows which bases count
                return Standing.READY
        if at.line is None:
            return Standing.LACKING
        self._leave(bucket)
        self._live[bucket] = self._loaded(bucket, at.line, epoch)
        return Standing.READY

    def _loaded(self, bucket: int, line: Line, epoch: int) -> Live:
        kernel = self._make(bucket)
        if not line.tip:
            return Live(kernel, line, epoch, begun=False, used=time.monotonic())
        begin = time.monotonic()
        try:
            with uncollected():
                damage = load(self.store, line, bucket, kernel.load)
        except BaseException:
            kernel.load(())
            raise
        if damage is not None:
            log.warning("the older base was taken", app=self._spec.app, bucket=bucket, damage=str(damage))
        now = time.monotonic()
        return Live(kernel, line, epoch, loading=now - begin, used=now)

    @contextmanager
    def lent(self, bucket: int, gathered: Gathered) -> Iterator[Kernel]:
        """A kernel that is ready for a cut, to try it with; it is not used for anything else afterwards. Errors: those of the kernel."""
        live = self._live.pop(bucket)
        try:
            with self._in_stores(bucket, gathered.n, live.epoch, trial=True):
                if not live.begun:
                    self._start(live.kernel, bucket, gathered.started)
                yield live.kernel
        finally:
            live.release()

    def _in_stores(self, bucket: int, cut: int, epoch: int, trial: bool = False) -> AbstractContextManager[None]:
        """What tables in stores do meanwhile belongs to a cut; the end of it commits that. Errors: CONNECTION_UNAVAILABLE, FENCED."""
        return nullcontext() if self._stores is None else self._stores.cut(bucket, cut, epoch, trial)

    def process(self, bucket: int, gathered: Gathered, epoch: int) -> Step:
        """Take a cut through a kernel that is ready for it. It is met again when the step is kept. Errors: those of the kernel."""
        live = self._live.pop(bucket)
        try:
            return self._process(live, bucket, gathered, epoch)
        except BaseException:
            live.release()
            raise

    def _process(self, live: Live, bucket: int, gathered: Gathered, epoch: int) -> Step:
        kernel, line = live.kernel, live.line
        live.epoch = epoch
        live.probe.switch(kernel, gathered.level)
        with self._in_stores(bucket, gathered.n, epoch):
            if not live.begun:
                self._start(kernel, bucket, gathered.started)
                live.begun = True
            outputs = kernel.process(gathered.arrivals, gathered.clock)
        delta = kernel.delta()
        live.used = time.monotonic()
        base, due = None, False
        if live.base is not None:
            base = live.base.look()
            if base is not None or live.base.failed:
                live.leave_base()
        elif line.tip and (heavy(line, self._policy) or pins(line, live.beside, self._policy)):
            due = self._within(live, bucket, gathered.n, len(delta))
        outcome = Outcome(outputs, gathered.clock, gathered.errors, gathered.sends, gathered.level, epoch)
        facts = self._facts(live, gathered, outcome)
        whole = not line.tip
        return Step(
            live, bucket, epoch, gathered.n, line, outcome, facts, delta, whole, due, base, aside=gathered.aside
        )

    def _within(self, live: Live, bucket: int, cut: int, delta: int) -> bool:
        """Whether a base that is due is made within the cut; else a child is at it, or the next cut looks again."""
        if live.line.bytes + delta <= self._policy.inline:
            return True
        place = Place(live.epoch, cut, bucket)
        at_hand = partial(self._index, live.line.base, bucket)
        try:
            live.base = BaseWork.begin(live.kernel, self.store, self._scratch, place, at_hand)
        except AnotherAtWork:
            return heavy(live.line, self._policy, TURN_WITHIN)
        return live.base is None and heavy(live.line, self._policy, WITHOUT_CHILD)

    def _index(self, base: Base | None, bucket: int) -> Index | None:
        """The chunks of the base at hand; where they cannot be read, all are written anew."""
        if base is None:
            return None
        try:
            return read_index(self.store, base, bucket)
        except NadiError as reason:
            log.warning("the base at hand is of no use", app=self._spec.app, bucket=bucket, damage=str(reason))
            return None

    def _facts(self, live: Live, gathered: Gathered, outcome: Outcome) -> dict[str, Any]:
        if live.used - live.counted > SIZES_EVERY:
            live.entries, live.counted = live.kernel.size(), live.used
        facts = {
            "cut": gathered.n,
            "due": live.kernel.next_timer(),
            "in": {stream: n for stream, n in gathered.events.items() if stream != CONTROL},
            "out": {k: b.num_rows for k, b in outcome.outputs.batches.items()},
            "entries": live.entries,
            "highs": [[o, p, high] for (o, p), high in sorted(gathered.highs.items())],
            "bytes": gathered.bytes,
            "memory": resident(),
            "loading": live.loading,
            "snapshot": "" if live.base is None else "dumping",
        }
        live.loading = 0.0
        if gathered.level and self._probe is not None:
            facts["measured"] = self._probe.of_cut(gathered, outcome.outputs.counts, live.probe)
        return facts

    def taken(self, bucket: int, epoch: int) -> Step:
        """The step of a kernel that has taken the cut already. What another run has written is to be written again: it is swept, unless it was committed."""
        live = self._live[bucket]
        step = live.last
        assert step is not None
        live.used = time.monotonic()
        if step.epoch == epoch:
            return step
        live.epoch = epoch
        del self._live[bucket]
        return replace(step, epoch=epoch, renewed=False, base=None, told=None)

    # ---- the state log

    def keep(self, steps: Sequence[Step]) -> list[Step]:
        """Make steps durable: one object with all deltas, one for each base. -> the same, complete. Errors: those of the state log."""
        written = self._write([step for step in steps if step.told is None])
        together = sum(piece.length for piece, _ in written.values() if piece is not None)
        found = []
        for step in steps:
            if step.bucket in written:
                piece, base = written[step.bucket]
                if base is not None:
                    step.live.beside = 0
                elif piece is not None:
                    step.live.beside += together - piece.length
                step = self._kept(step, piece, base)
            found.append(step)
        return found

    def _write(self, steps: Sequence[Step]) -> dict[int, tuple[Piece | None, Base | None]]:
        """Where the delta and the base of each bucket lie."""
        if not steps:
            return {}
        first = steps[0]
        deltas = {s.bucket: Delta(s.cut, s.epoch, s.before.check, s.delta) for s in steps if not s.whole}
        pieces = write_deltas(self.store, delta_name(first.epoch, first.cut, self._host), deltas)
        bases = {step.bucket: self._base(step) if step.whole or step.renewed else step.base for step in steps}
        return {step.bucket: (pieces.get(step.bucket), bases[step.bucket]) for step in steps}

    def _base(self, step: Step) -> Base:
        """The state after the step, from the kernel, which stands there."""
        return write_base(self.store, Place(step.epoch, step.cut, step.bucket), step.live.kernel.dump())

    def _kept(self, step: Step, piece: Piece | None, base: Base | None) -> Step:
        live, line = step.live, step.before
        if piece is not None:
            line = after_delta(line, piece)
        if base is not None:
            line = after_base(line, base)
        written = (0 if piece is None else piece.length) + (0 if base is None else base.written)
        told = {
            "bucket": step.bucket,
            **step.facts,
            "tip": line.tip,
            "piece": piece,
            "base": base,
            "state_bytes": line.bytes,
            "state_written": written,
        }
        live.line = line
        live.last = replace(step, told=told)
        self._live[step.bucket] = live
        return live.last

    def discard(self, steps: Iterable[Step]) -> None:
        """Let go of the kernels of steps that could not be made durable."""
        for step in steps:
            if step.told is None:
                step.live.release()

    # ---- housekeeping

    def _lock_of(self, bucket: int) -> threading.Lock:
        with self._lock:
            return self._locks.setdefault(bucket, threading.Lock())

    def _leave(self, bucket: int) -> bool:
        live = self._live.pop(bucket, None)
        if live is not None:
            live.release()
        return live is not None

    def let_go_idle(self, now: float) -> int:
        """Drop kernels that nobody asked for in a long while (they are loaded again); how many went."""
        idle = [bucket for bucket, live in list(self._live.items()) if live.used < now - IDLE]
        return sum(self._let_go(bucket) for bucket in idle)

    def _let_go(self, bucket: int) -> bool:
        lock = self._lock_of(bucket)
        if not lock.acquire(blocking=False):
            return False  # in use
        try:
            return self._leave(bucket)
        finally:
            lock.release()

    @property
    def last_use(self) -> float:
        """When any of them was used last, by the monotonic clock."""
        return max((live.used for live in list(self._live.values())), default=0.0)

    def close(self) -> None:
        """Let go of all; of those in use when their users are done, which may take for ever."""
        self._closed = True
        for bucket in list(self._live):
            self._let_go(bucket)
