"""A worker: tells managers that it lives, runs what the leader answers, and ends all of it before its lease is over. One that is to end leaves first: it says
so, and the leader has all that it runs stopped, and started elsewhere, without waiting for the lease.

The lease counts from when the heartbeat was *sent*. A worker that no leader answers stops its apps early enough that the last one has ended, at the latest by
force, before the lease is over; only then another worker may be given them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from nadi.cluster.contract import Clock, Haste, Network, NoAnswer, Node
from nadi.cluster.instances import Instances
from nadi.cluster.leases import counted_until
from nadi.cluster.messages import Elsewhere, Farewell, Granted, Heartbeat, Message, Poke, Rejected
from nadi.cluster.settings import WorkerSettings
from nadi.cluster.signals import Bell

HOPS = 3
"""So many managers in a row may name another one as leader."""


class Worker:
    """One worker. `run` is its life; `answer` serves requests while it runs. `agree(time, unsure)` hears with each heartbeat what time it is for all nodes of
    the cluster, give or take some ms."""

    def __init__(
        self,
        settings: WorkerSettings,
        clock: Clock,
        network: Network,
        node: Node,
        agree: Callable[[int, int], None] = lambda _time, _unsure: None,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._network = network
        self._node = node
        self._agree = agree
        self._beats = Bell(clock)
        self._guard = Bell(clock)
        self._steps = Bell(clock)  # of a worker that leaves
        self._haste = Haste()
        self.instances = Instances(node, self._allowed, self._changed, self._spawn, self._haste)
        self._state = "NEW"
        self._leader: str | None = None
        self._managers = list(settings.managers)
        self._number = 0
        self._applied = (0, 0)
        self._seen, self._holder = 0, ""
        self._interval = 2_000
        self._until = 0  # of the lease, by this clock
        self._stop_by = 0  # when stopping must begin
        self._leaving = False
        self._alone = False  # nobody took the last heartbeat of one that leaves
        self._farewell: Farewell | None = None
        self.rejected = ""

    async def run(self) -> None:
        """Live until cancelled, or until a part of it fails. What runs is for the node to end then."""
        async with asyncio.TaskGroup() as self._tasks:
            self._spawn(self._watch_lease())
            self._spawn(self._send_beats())

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return self._tasks.create_task(work)

    async def leave(self, within: int) -> Farewell | None:
        """Have all that runs here stopped, and placed elsewhere; -> what the leader said when nothing lay here any more.

        None where nobody has said so in `within` ms, or where there is nobody to wait for: no manager answers, and the lease is over. What still runs then is
        for the node to end, and goes on elsewhere when the lease is over."""
        until = self._clock.now() + within
        self._leaving = True
        self._beats.ring()
        while not self._has_left() and (rest := until - self._clock.now()) > 0:
            await self._steps.heard(rest)
        return None if self.instances.any else self._farewell

    def _has_left(self) -> bool:
        heard = self._farewell is not None or (self._alone and self._clock.now() >= self._until)
        return heard and not self.instances.any

    def _changed(self) -> None:
        self._beats.ring()
        self._steps.ring()

    async def _send_beats(self) -> None:
        while self._farewell is None:
            leaving = self._leaving
            granted = await self._round()
            self._alone = leaving and not granted
            self._steps.ring()
            await self._beats.heard(self._pause(granted))

    async def answer(self, request: Message) -> Message:
        """Serve a request of a manager: a wish for a heartbeat."""
        if not isinstance(request, Poke):
            raise TypeError(f"a worker does not serve {type(request).__name__}")
        if request.token >= self._seen:
            self._leader = request.leader
            self._beats.ring()
        return request

    def _allowed(self) -> bool:
        """Whether anything may be started: there is a lease, and time to stop again."""
        return self._clock.now() < self._stop_by

    # ---- heartbeats ------------------------------------------------------------------------------------------------

    def _pause(self, granted: bool) -> int:
        """How long until the next round. While there is a lease to lose, rounds follow quickly."""
        if granted:
            return self._interval
        return self._interval // 4 if self._clock.now() < self._until else self._settings.retry

    async def _round(self) -> bool:
        """Ask the leader, then each manager in order, until one grants. Whether one did."""
        asked: set[str] = set()
        for address in [self._leader, *self._managers]:
            hops, next_ = 0, address
            while next_ is not None and next_ not in asked and hops < HOPS:
                asked.add(next_)
                answer = await self._ask(next_)
                if isinstance(answer, Granted | Farewell):
                    return True
                next_, hops = (answer.leader, hops + 1) if isinstance(answer, Elsewhere) else (None, hops)
        return False

    async def _ask(self, address: str) -> Message | None:
        self._number += 1
        me = self._settings
        beat = Heartbeat(
            me.id, me.address, self._node.incarnation, self._number, self._state, me.receiver, self.instances.report(), self._applied, self._seen, self._holder,
            self._node.metrics(), self._leaving, me.version,
        )  # fmt: skip
        sent = self._clock.now()
        try:
            answer = await self._network.ask(address, beat, me.within)
        except NoAnswer:
            return None
        if isinstance(answer, Granted) and self._follows(answer):
            self._take(answer, sent)
            return answer
        if isinstance(answer, Farewell) and self._leaving:
            self._part(answer)
            return answer
        if isinstance(answer, Rejected):
            self.rejected = f"the id {me.id} belongs to the worker at {answer.address}"
        return answer if isinstance(answer, Elsewhere) else None

    def _follows(self, granted: Granted) -> bool:
        """Whether a leader is no older than the last one. Two with one token are the sign of a database that went back: the managers raise the alarm."""
        return granted.token > self._seen or (granted.token == self._seen and granted.holder == self._holder)

    def _take(self, granted: Granted, sent: int) -> None:
        """Do as the leader says, for as long as it says."""
        self._state, self.rejected = "EXISTS", ""
        self._leader, self._seen, self._holder = granted.leader, granted.token, granted.holder
        self._managers += [m for m in granted.managers if m not in self._managers]
        self._interval = granted.interval
        self._haste.within = granted.stop_within
        now = self._clock.now()
        if granted.time:
            self._agree(granted.time + (now - sent) // 2, (now - sent) // 2)
        self._until = counted_until(sent, now, granted.lease)
        self._stop_by = stops_by(self._until, granted.stop_within)
        if self._allowed():
            self._haste.begun.clear()
        self._guard.ring()
        self._applied = (granted.token, granted.decision)
        self.instances.want(granted.orders if self._allowed() else ())

    def _part(self, said: Farewell) -> None:
        """There is no lease any more."""
        self._farewell = said
        self._until = self._stop_by = self._clock.now()
        self._guard.ring()

    # ---- the lease -------------------------------------------------------------------------------------------------

    async def _watch_lease(self) -> None:
        """Stop everything when the lease is nearly over."""
        while True:
            rest = self._stop_by - self._clock.now()
            if rest > 0:
                await self._guard.heard(rest)
                continue
            self._haste.begun.set()
            self.instances.want(())
            self._steps.ring()
            await self._guard.heard()


def stops_by(until: int, stop_within: int) -> int:
    """When a worker must begin to stop what it runs, so that all has ended when the lease has.

    >>> stops_by(10_000, 1_500)
    8500
    """
    return until - stop_within
