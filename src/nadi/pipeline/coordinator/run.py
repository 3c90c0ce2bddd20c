"""One run of a Spark query as the coordinator has it: the groups that it carries, those whose next cut is ready, the batch that is under way.

Spark asks three things of it, one after the other and always from the same thread: which batch is next (it waits here until a group is ready), what the
tasks of a batch are to do, and to take what they told. A batch's number means nothing but its place in this run.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait

from nadi.errors import error
from nadi.pipeline.coordinator.conduct import BOUND
from nadi.pipeline.coordinator.group import Group
from nadi.pipeline.coordinator.receipts import Receipt, gather
from nadi.pipeline.coordinator.tasks import Work, one_stage, two_stages
from nadi.pipeline.hosting.lane import Partition

DEADLINE = BOUND  # seconds that a batch of several groups waits for the slowest of them
SETTLES_WITHIN = 0.2  # seconds that it waits for commits


class QueryRun:
    """See the module's text. `name` is what Java calls it by, `query` what people do; with `spread` it has two stages, for the one group that it carries;
    `work` has a worker call something, `look` has a group looked at (again), hosts ring at `wake`."""

    def __init__(
        self,
        name: str,
        query: str,
        spread: bool,
        work: Callable[..., Future[None]],
        look: Callable[[Group], None],
        wake: str,
    ) -> None:
        self.name = name
        self.query = query
        self.spread = spread
        self._work = work
        self._look = look
        self._wake = wake
        self._groups: dict[str, Group] = {}
        self._ready: dict[str, Group] = {}
        self._changed = threading.Condition()
        self._over = False
        self._batch = 0
        self._works: list[tuple[Group, Work]] = []
        self._tasks: list[Partition] = []
        self._warming: Sequence[Partition] = ()
        self._warmed = 0  # batches without groups

    # ---- groups

    @property
    def batch(self) -> int:
        """The number of the batch under way, or of the last one."""
        return self._batch

    @property
    def groups(self) -> tuple[Group, ...]:
        """Those that it carries now."""
        with self._changed:
            return tuple(self._groups.values())

    def enter(self, group: Group) -> None:
        """Carry a group from now on."""
        with self._changed:
            self._groups[group.spec.id] = group

    def leave(self, group: Group) -> None:
        """Carry it no more; what a batch under way tells of it is not heard."""
        with self._changed:
            if self._groups.get(group.spec.id) is group:
                del self._groups[group.spec.id]
            self._ready.pop(group.spec.id, None)

    def ready(self, group: Group) -> None:
        """The next cut of a group waits for a batch."""
        with self._changed:
            if self._groups.get(group.spec.id) is group:
                self._ready[group.spec.id] = group
                self._changed.notify_all()

    def warm(self, tasks: Sequence[Partition]) -> bool:
        """Have a batch run that has no groups, when none of them is ready, and wait for its end; False where the query ends before. The first batches of a JVM
        take a second, in which it loads and compiles what it needs: so it takes that before there is anything to do."""
        with self._changed:
            wanted = self._warmed + 1
            self._warming = tasks
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._warmed >= wanted or self._over)
            return not self._over

    @property
    def over(self) -> bool:
        """Whether its query has ended."""
        return self._over

    def end(self) -> None:
        """Nobody is to wait here any more: the query is over."""
        with self._changed:
            self._over = True
            self._changed.notify_all()

    # ---- Spark's questions

    def latest(self, start: int, gone: Callable[[], bool]) -> int:
        """The number of the batch after `start`, once there is one; `start` where the query is over, or who asks is `gone`."""
        with self._changed:
            while True:
                self._changed.wait_for(lambda: self._ready or self._warming or self._over)
                if self._over or gone():
                    return start
                chosen = list(self._ready.values())
                self._ready.clear()
                self._works = [(group, work) for group in chosen if (work := group.begin()) is not None]
                if self._works:
                    break
                if not chosen and self._warming:
                    self._batch, self._tasks = start + 1, list(self._warming)
                    return self._batch
            self._batch = start + 1
            works = [work for _group, work in self._works]
            shared = len(self._groups) > 1
            self._tasks = (
                two_stages(works[0]) if self.spread else one_stage(works, DEADLINE if shared else None, self._wake)
            )
            return self._batch

    def tasks(self, end: int) -> Sequence[Partition]:
        """What the tasks of a batch are to do. Errors: SPARK_FAILED for a batch that this run has not made."""
        with self._changed:
            if end != self._batch:
                raise error(
                    "SPARK_FAILED",
                    app=self.query,
                    reason=f"batch {end} was asked for, the last one is {self._batch}",
                    log="",
                )
            return self._tasks

    def commit(self, receipts: Sequence[memoryview]) -> None:
        """Take what the tasks of the batch told, and commit the groups side by side; one that is slow commits later."""
        found = gather(receipts)
        with self._changed:
            works, self._works = self._works, []
            if self._warming and not works:
                self._warming = ()
                self._warmed += 1
                self._changed.notify_all()
                return
            mine = {group.key for group in self._groups.values()}
        settling = [
            self._work(self._settle, group, found.get(group.key, Receipt("failed", work.cut.n)))
            for group, work in works
            if group.key in mine
        ]
        wait(settling, None if len(mine) == 1 else SETTLES_WITHIN)

    def _settle(self, group: Group, receipt: Receipt) -> None:
        group.seat(receipt)
        if receipt.state == "done":
            group.settle(receipt)
            self._look(group)
        elif receipt.state == "need":
            if receipt.probed:
                group.probed()
            group.again(tell_all=True)
            self.ready(group)
        elif receipt.state == "pending":
            group.again(tell_all=False)
            if group.woken:  # its host was faster than this answer
                self.ready(group)
            else:
                self._look(group)
        elif receipt.state == "left":
            group.again(tell_all=True)
            if group.is_suspect:  # it is on its way to hosts of its own
                self._look(group)
            else:
                self.ready(group)
        elif receipt.state == "fenced":
            group.fail(error("CUT_FENCED", app=group.spec.app, current="a newer one", epoch=group.spec.epoch))
        else:
            if receipt.starved:
                group.starved(receipt.guilty)
            group.fail(receipt.failure())
