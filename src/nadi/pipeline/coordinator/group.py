"""One execution group as the coordinator has it: the cut it stands at, the one that is next or under way, and what becomes of it.

    idle ──look──► ready ──batch──► running ──receipt──► settling ──► idle …
                     ▲                 │  pending: a host is still at it; the next batch that it rings for asks again
                     └──── need ───────┘
    failed, closed: nothing more is asked of it in this run. Another run of the group has another epoch.

A group is looked at by one thread at a time; whoever moves it holds `lock`.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from enum import Enum

from nadi.errors import NadiError, error
from nadi.metrics import Progress
from nadi.metrics.measured import Tally
from nadi.pipeline.coordinator.conduct import CRASHES, Conduct
from nadi.pipeline.coordinator.ledger import Ledger
from nadi.pipeline.coordinator.receipts import Receipt
from nadi.pipeline.coordinator.share import Share
from nadi.pipeline.coordinator.supplies import brought, check_there, ready
from nadi.pipeline.coordinator.tasks import Work
from nadi.pipeline.cutting import cutlogs
from nadi.pipeline.cutting.commitlog import Commits, Recovered, sweep
from nadi.pipeline.cutting.cutmaker import CutMaker, SourceStatus
from nadi.pipeline.cutting.cuts import Cut, Place
from nadi.pipeline.cutting.makers import check_left, check_newest
from nadi.pipeline.cutting.seeds import drop_seeds
from nadi.pipeline.hosting.atwork import cut_of, kernel_of, noted_message
from nadi.pipeline.hosting.seats import Seat
from nadi.pipeline.progress import read_progress
from nadi.pipeline.spec import AppSpec
from nadi.pipeline.statelog.folder import FolderStore
from nadi.pipeline.statelog.store import ObjectStore
from nadi.pipeline.statelog.stores import open_store

_LOG = logging.getLogger("nadi.coordinator")

FEW = 20  # objects that are deleted at once
PENDING_LOOK = 5.0  # seconds after which a host is asked again for what it told as pending, should neither its ring nor its death have been heard

MakeCuts = Callable[[AppSpec], CutMaker]


class Stage(Enum):
    """Where a group is on its way from one cut to the next."""

    IDLE = "idle"
    LOOKING = "looking"
    READY = "ready"
    RUNNING = "running"
    SETTLING = "settling"
    FAILED = "failed"
    CLOSED = "closed"


class Group:
    """See the module's text. `changed` is called, from any thread, when there is something to tell of it. `conduct` is that of all its runs; `level` says what
    is to be measured of its next cut."""

    def __init__(
        self,
        spec: AppSpec,
        changed: Callable[[], None],
        make_cuts: MakeCuts = CutMaker,
        interval: float = 0.0,
        conduct: Conduct | None = None,
        level: Callable[[], int] = int,
    ) -> None:
        """Take the group over: from now on no run before this one can go on with it. Errors: those of its inputs, its logs and its sinks' options;
        MADE_BY_NEWER (nothing has changed then), CUT_LEFT_BY_OLDER."""
        check_newest(spec.app, cutlogs.newest_cut(spec))
        self.spec = ready(replace(spec, epoch=cutlogs.take_over(spec)))
        self.lock = threading.Lock()
        self.stage = Stage.IDLE
        self.failure: NadiError | None = None
        self.rung = False
        self.held = False  # no further cut is made
        self.crashed = False  # a host has died while the cut was under way in it
        self.woken = False  # a host has done what it told as pending
        self.look_at = 0.0  # by the monotonic clock
        self.share = Share(time.monotonic())
        self.conduct = Conduct() if conduct is None else conduct
        self.tally = Tally()
        self._level = level
        self._changed = changed
        self._tell: Callable[[], None] = lambda: None
        self._interval = interval
        self._cut_at = 0.0
        self._tell_all = True
        self._asked = 0  # requests for its cuts
        self._told_all = False  # for the cut that it stands at
        self._seats: dict[int, Seat] = {}
        self._brought = b""
        self._commits: Commits = cutlogs.open_commit_log(self.spec, self.spec.epoch)
        self._store: ObjectStore = open_store(self.spec.log_place)
        self._gone = False
        self._pins = 0
        self._waste: set[str] = set()
        self._maker = make_cuts(self.spec)
        try:
            found = self._commits.recovered()
            if found is not None:
                check_there(self.spec, self._store, self._commits.objects())
                drop_seeds(self.spec)
            sweep(self._store, self._commits.objects(), self.spec.epoch)
            self.at = self._maker.initial() if found is None else self._maker.at(found.n)
            self.known = None if found is None else Progress(found.n, found.due, found.highs)
            left = self._maker.logged(self.at)  # the run before did not commit it
            check_left(self.spec.app, left)
            self._left = left is not None
            self._ledger = Ledger(self.spec, self._commits, (self.at.n, self._maker.last()))
        except BaseException:
            self._maker.close()
            raise
        self.shown: Progress | None = read_progress(self.spec.place.state)
        self.cut: Cut | None = None

    @property
    def key(self) -> tuple[str, int]:
        """What receipts name it by."""
        return self.spec.id, self.spec.epoch

    @property
    def status(self) -> SourceStatus:
        """How it is with its inputs."""
        return self._maker.status

    @property
    def log(self) -> str:
        """Where its state log is."""
        return self.spec.log_place

    @property
    def rests(self) -> bool:
        """Whether all that was cut is committed, and nothing is under way."""
        return self.stage is Stage.IDLE and not self._left

    @property
    def owes(self) -> bool:
        """Whether a cut stands in the log that is not committed."""
        return self.cut is not None or self._left

    @property
    def halted(self) -> bool:
        """Whether no cut is taken any more."""
        return self.held and not self._left

    @property
    def has_committed(self) -> bool:
        """Whether a commit stands for it, of this run or one before."""
        return self.known is not None

    def wake(self, tell: Callable[[], None]) -> None:
        """Have `tell` called when something may have come for it."""
        self._tell = tell
        self._maker.wake(tell)

    def want_first(self) -> None:
        """Have a first cut made though nothing has come: only of what is committed can something be kept."""
        self._maker.wanted = True
        self._tell()

    # ---- the next cut

    def look(self) -> bool:
        """Make the next cut where there is reason for one; whether the group is ready now."""
        with self.lock:
            if self.stage is not Stage.IDLE or self.halted:
                return False
            self.stage = Stage.LOOKING
            self.rung = False
        wait = self._interval - (time.monotonic() - self._cut_at)
        cut: Cut | None = None
        try:
            if wait <= 0:
                before = self._maker.status
                cut = self._maker.next(self.at, self.known)
                if cut is None and self._maker.status != before:
                    self._changed()
                elif cut is not None:
                    self._brought = brought(self.spec, self._maker, self.at, cut)
                wait = self._maker.next_look(self.known)
                if (after := self._ledger.idle_after) is not None:
                    wait = min(wait, after)
                    if cut is None and self._maker.quiet is not None:
                        self._ledger.idle(self._maker.quiet)
        except Exception as reason:
            self.fail(reason)
            return False
        with self.lock:
            if self.stage is not Stage.LOOKING:
                return False  # it was closed meanwhile
            self.cut = cut
            self.stage = Stage.IDLE if cut is None else Stage.READY
            self.look_at = time.monotonic() + wait
        if cut is not None:
            self._cut_at = time.monotonic()
        else:
            self._tell_who_holds()
        return cut is not None

    def _tell_who_holds(self) -> None:
        """It may have been held while it looked: whoever does so waits until it rests."""
        if self.held:
            self._changed()

    def begin(self) -> Work | None:
        """What a batch is to do for it, if it is still ready."""
        with self.lock:
            if self.stage is not Stage.READY or self.cut is None:
                return None
            self.stage = Stage.RUNNING
            self.woken = False
            self._told_all |= self._tell_all
            lines, seats = self._commits.lines(), dict(self._seats)
            careful = self.conduct.tries(self.cut.n)
            self._asked += 1
            ask = f"{self.spec.id}.{self.spec.epoch}.{self._asked}"
            told, level = self._tell_all, self._level()
            return Work(self.spec, self.at, self.cut, lines, told, seats, self._brought, level, careful, ask)

    def sit(self, seats: dict[int, Seat]) -> None:
        """Go on with what is known of where its buckets are on a cluster, and keep it there."""
        with self.lock:
            self._seats = seats

    def seat(self, receipt: Receipt) -> None:
        """Note which hosts of a cluster have taken the cut, or are at it: they have the kernels from now on."""
        with self.lock:
            for seat, buckets in receipt.seats:
                self._seats.update(dict.fromkeys(buckets or range(self.spec.buckets), seat))

    def again(self, tell_all: bool) -> None:
        """The same cut goes into another batch; hosts are told all where they lacked something."""
        with self.lock:
            if self.stage is Stage.RUNNING:
                self._tell_all = tell_all
                self.stage = Stage.READY
                self.look_at = time.monotonic() + PENDING_LOOK

    # ---- what became of a cut

    def settle(self, receipt: Receipt) -> None:
        """Commit the cut that all buckets have processed. What goes wrong is the group's failure."""
        with self.lock:
            if self.stage is not Stage.RUNNING or self.cut is None:
                return
            self.stage, cut = Stage.SETTLING, self.cut
        try:
            if len(receipt.buckets) != self.spec.buckets:
                raise error(
                    "HOST_FAILED",
                    operation="cut",
                    reason=f"{len(receipt.buckets)} of {self.spec.buckets} buckets told of cut {cut.n}",
                )
            self.known = self.shown = self._ledger.commit(cut, receipt.buckets)
            self._note(receipt)
        except Exception as reason:
            self.fail(reason)
            return
        with self.lock:
            if self.stage is not Stage.SETTLING:
                return
            self.conduct.done(cut.n)
            self.at, self.cut, self._tell_all, self._told_all, self._left = cut, None, False, False, False
            self.stage = Stage.IDLE
            self.crashed = False
            self.look_at = 0.0
        self._throw_away()
        self._changed()

    def _note(self, receipt: Receipt) -> None:
        """What was measured, and what the cut has cost others. One that a host was told all for began with planning, loading and compiling: it does not count
        against the group."""
        told = [b[name] for b in receipt.buckets for name in ("measured", "sent") if name in b]
        if told:
            self.tally.add(told, time.time() * 1000)
        now = time.monotonic()
        self.share.add(now, receipt.worked)
        if not self._told_all:
            self.conduct.cut(now, max(receipt.computed, receipt.wrote, self._ledger.waited))

    def probed(self) -> None:
        """The cut was tried, and no message by itself is what hosts die of."""
        with self.lock:
            if self.cut is not None:
                self.conduct.tried(self.cut.n)

    def starved(self, guilty: tuple[int, int, int] | None) -> None:
        """A kernel had no memory left for the cut, or for a message of it, when it was tried."""
        cut = self.cut
        if cut is None:
            return
        self.conduct.die(cut.n)
        if guilty is not None:
            self._set_aside(cut, guilty[:2], guilty[2])

    def patience(self, note: str) -> float:
        """How many times the usual time the kernel may take that a note is of: without end for the cut under way, if that was tried before."""
        cut = self.cut
        if cut is not None and cut_of(note) == cut_of(kernel_of(self.spec.id, cut.n)) and self.conduct.has_tried(cut.n):
            return math.inf
        return self.conduct.patience

    @property
    def is_suspect(self) -> bool:
        """Whether it is suspected to have its hosts die, and in one that others have, too."""
        return not self.spec.offset and self.conduct.has_crashed(time.monotonic())

    def crash(self, notes: Collection[str] = (), alone: bool = False, looped: bool = False) -> None:
        """A host has died while a cut of the group was under way in it; `notes` are what it was at. `alone`: no other kernel computed in it, or (`looped`) it
        was killed as the kernel of this one came to no end."""
        computed = any(note.startswith(kernel_of(self.spec.id)) for note in notes)
        with self.lock:
            cut = self.cut
            if cut is not None:
                self.conduct.die(cut.n, CRASHES if looped else 1)
        found = None if cut is None else noted_message(notes, self.spec.id, cut.n)
        if cut is not None and found is not None and alone and self.conduct.suspects((cut.n, *found)):
            self._set_aside(cut, *found)
        self.crashed = True
        self.conduct.crash(time.monotonic(), computed)
        self._changed()

    def _set_aside(self, cut: Cut, place: Place, position: int) -> None:
        """Hosts die of a message: from now on the cut is without it, for whoever takes it. Another run takes it."""
        if position in cut.aside.get(place, ()):
            return
        try:
            self._maker.amend(cut.without(place, position))
        except NadiError as reason:
            self.fail(reason)
            return
        self.conduct.begin_anew()
        input_, partition = place
        self.fail(
            error(
                "EVENT_SET_ASIDE",
                app=self.spec.app,
                cut=cut.n,
                input=input_,
                partition=partition,
                position=position,
            )
        )

    def fail(self, reason: BaseException) -> None:
        """End this run of the group with what went wrong."""
        with self.lock:
            if self.stage in (Stage.FAILED, Stage.CLOSED):
                return
            self.stage = Stage.FAILED
            if not isinstance(reason, NadiError):
                _LOG.error("a group failed without a named condition: %s", self.spec.app, exc_info=reason)
            self.failure = (
                reason
                if isinstance(reason, NadiError)
                else error("HOST_FAILED", operation="cut", reason=f"{type(reason).__name__}: {reason}")
            )
        self._changed()

    def say_last(self) -> None:
        """Tell those who read that nothing will come any more, as all is committed. Errors: those of the sinks."""
        self._ledger.finish()

    def hold(self) -> None:
        """Make no further cut; what the log has goes on."""
        with self.lock:
            self.held = True

    def close(self) -> None:
        """Let go of inputs and sinks; a batch that still has it is told nothing any more."""
        with self.lock:
            if self._gone:
                return
            self._gone = True
            done = self.spec.until_end and self.status.finished and self.rests
            if self.stage is not Stage.FAILED:
                self.stage = Stage.CLOSED
        if done:
            with suppress(NadiError):  # the next run of the group says it again
                self._ledger.finish()
        self._maker.close()
        self._ledger.close()
        self._sweep_late()

    # ---- the state log

    def _sweep_late(self) -> None:
        """Delete what hosts of earlier runs have written after this one began. The record is read anew: whatever run goes on now, it needs no other objects of
        earlier epochs, and nobody can bind them any more."""
        with self.lock:
            if self._pins or self.spec.cuts or not isinstance(self._store, FolderStore):
                return  # who closes a group does not wait for other machines
        with suppress(OSError, NadiError):  # the next run of the group sweeps, too
            sweep(self._store, cutlogs.open_commit_log(self.spec).objects(), self.spec.epoch)

    @contextmanager
    def pinned(self) -> Iterator[tuple[Cut, Recovered]]:
        """The cut of the last commit, with what is known after it; nothing that its state is read from goes meanwhile.

        Errors: NOTHING_COMMITTED before the first one."""
        with self.lock:
            self._pins += 1
        try:
            # The record is one value: a cut that is being committed may stand there before the group does.
            found = self._commits.recovered()
            if found is None:
                raise error("NOTHING_COMMITTED", app=self.spec.app)
            yield self._maker.at(found.n), found
        finally:
            with self.lock:
                self._pins -= 1
            self._throw_away()

    def _throw_away(self) -> None:
        """Delete what no recovery line needs any more; a failure leaves it to the next time."""
        with self.lock:
            self._waste |= self._commits.released()
            if self._pins or not self._waste:
                return
            waste, self._waste = self._waste, set()
        if len(waste) <= FEW:
            self._delete(waste)
        else:  # the next cut does not wait for it
            threading.Thread(target=self._delete, args=(waste,), name=f"sweep {self.spec.app}", daemon=True).start()

    def _delete(self, waste: Collection[str]) -> None:
        with suppress(OSError, NadiError):  # what is left the next run of the group sweeps
            self._store.delete(sorted(waste))
