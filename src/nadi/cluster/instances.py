"""What a worker runs: one task an instance, which brings it to what the last order says.

An epoch is started once. Before another epoch of an instance starts, or when it is not wanted any more, what runs of it is stopped and has ended. Whether
anything may run at all (the lease) is asked before each start.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from nadi.cluster.contract import Haste, Node, Spawn, StartFailed
from nadi.cluster.messages import Order, Running


@dataclass(slots=True)
class _Slot:
    """An instance: what is wanted of it, and what is there."""

    wanted: Order | None = None
    has: int = 0  # the epoch that runs, or is being started or stopped; 0: nothing
    state: str = ""
    failed: Running | None = None
    started: int = 0  # the highest epoch that was ever started here
    turn: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None


class Instances:
    """All of a worker's. `changed` is called when there is something to report, `haste` says how long stops may take."""

    def __init__(
        self, node: Node, allowed: Callable[[], bool], changed: Callable[[], None], spawn: Spawn, haste: Haste
    ) -> None:
        self._node = node
        self._haste = haste
        self._allowed = allowed
        self._changed = changed
        self._spawn = spawn
        self._slots: dict[str, _Slot] = {}
        node.watch(self._ended, self._drained)

    def want(self, orders: Iterable[Order]) -> None:
        """Run just these. An order that is repeated starts what it could not start before, as the lease was over for a moment when its turn came."""
        wanted = {order.instance: order for order in orders}
        for instance, order in wanted.items():
            slot = self._slots.setdefault(instance, _Slot())
            if slot.wanted is None or slot.wanted.epoch != order.epoch:
                slot.wanted = order
                self._turn(instance, slot)
            elif slot.task is not None and slot.task.done() and self._next(slot) is not None:
                self._turn(instance, slot)
        for instance, slot in self._slots.items():
            if instance not in wanted and slot.wanted is not None:
                slot.wanted, slot.failed = None, None
                self._turn(instance, slot)

    def report(self) -> tuple[Running, ...]:
        """What is here: also what is being started or stopped, and what failed."""
        found = []
        for instance, slot in self._slots.items():
            if slot.has:
                found.append(Running(instance, slot.has, slot.state))
            elif slot.wanted is None:
                continue  # it may have failed between the order to stop and its end: nobody asks any more
            elif slot.failed is not None:
                found.append(slot.failed)
            elif slot.wanted.epoch <= slot.started:
                found.append(
                    Running(instance, slot.wanted.epoch, "ended", "it was stopped when the lease was nearly over")
                )
        return tuple(found)

    @property
    def any(self) -> bool:
        """Whether anything runs, or is wanted."""
        return any(slot.has or slot.wanted is not None for slot in self._slots.values())

    def _turn(self, instance: str, slot: _Slot) -> None:
        slot.turn.set()
        if slot.task is None or slot.task.done():
            slot.task = self._spawn(self._settle(instance, slot))

    async def _settle(self, instance: str, slot: _Slot) -> None:
        """Bring an instance to what is wanted; the task ends when it is so."""
        while (step := self._next(slot)) is not None:
            slot.turn.clear()
            if step == "stop":
                await self._stop(instance, slot)
            else:
                await self._start(slot)

    def _next(self, slot: _Slot) -> str | None:
        wanted = slot.wanted
        if slot.has and (wanted is None or wanted.epoch != slot.has or slot.state == "stopping"):
            return "stop"
        if not slot.has and wanted is not None and may_start(wanted, slot.started) and self._allowed():
            return "start"
        return None

    async def _stop(self, instance: str, slot: _Slot) -> None:
        slot.state = "stopping"
        await self._node.stop(instance, self._haste)
        slot.has, slot.state = 0, ""
        self._changed()

    async def _start(self, slot: _Slot) -> None:
        """Start what is wanted. A change of mind breaks it off."""
        order = slot.wanted
        assert order is not None
        slot.has = slot.started = order.epoch
        slot.state, slot.failed = "starting", None
        starting = asyncio.ensure_future(self._node.start(order))
        turned = asyncio.ensure_future(slot.turn.wait())
        await asyncio.wait((starting, turned), return_when=asyncio.FIRST_COMPLETED)
        turned.cancel()
        if not starting.done():
            starting.cancel()
            slot.state = "stopping"  # also where it is wanted again by now: there may be half of it
            return
        if slot.has != order.epoch:
            return  # it ended meanwhile
        reason = starting.exception()
        if reason is None:
            slot.state = "running"
        elif isinstance(reason, StartFailed):
            self._failed(slot, order.instance, order.epoch, str(reason))
        else:
            raise reason
        self._changed()

    def _failed(self, slot: _Slot, instance: str, epoch: int, reason: str) -> None:
        slot.has, slot.state = 0, ""
        slot.failed = Running(instance, epoch, "failed", reason)

    def _ended(self, instance: str, epoch: int, reason: str) -> None:
        """The node says that an instance ended by itself."""
        slot = self._slots.get(instance)
        if slot is not None and slot.has == epoch and slot.state != "stopping":
            self._failed(slot, instance, epoch, reason)
            self._changed()

    def _drained(self, instance: str, epoch: int) -> None:
        """The node says that an instance has drained, and that nothing of it is left."""
        slot = self._slots.get(instance)
        if slot is not None and slot.has == epoch and slot.state != "stopping":
            slot.has, slot.state = 0, ""
            slot.failed = Running(instance, epoch, "drained")
            self._changed()


def may_start(order: Order, started: int) -> bool:
    """Whether an order is one that was not started here before."""
    return order.text is not None and order.epoch > started
