"""A worker alone: what it does with each answer, and what it starts and stops."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from nadi.cluster.contract import Haste, NoAnswer, StartFailed
from nadi.cluster.instances import Instances
from nadi.cluster.messages import (
    Elsewhere,
    Farewell,
    Granted,
    Heartbeat,
    Message,
    Metrics,
    Nobody,
    Order,
    Poke,
    Rejected,
    Running,
)
from nadi.cluster.settings import WorkerSettings
from nadi.cluster.worker import Worker


class Clock:
    """Time that passes when a test says so; sleepers are not woken."""

    ms = 0

    def now(self) -> int:
        return self.ms

    async def sleep(self, ms: int) -> None:
        await asyncio.get_running_loop().create_future()


@dataclass
class Machine:
    """A node whose starts wait for the test where `slow`."""

    incarnation: str = "1"
    slow: bool = False
    broken: bool = False
    log: list[str] = field(default_factory=list)
    ended: Callable[[str, int, str], None] | None = None

    async def start(self, order: Order) -> None:
        self.log.append(f"start {order.instance} {order.epoch}")
        if self.slow:
            await asyncio.get_running_loop().create_future()
        if self.broken:
            raise StartFailed("no room")

    async def stop(self, instance: str, haste: Haste) -> None:
        self.log.append(f"stop {instance}")

    def metrics(self) -> Metrics:
        return Metrics()

    def watch(self, ended: Callable[[str, int, str], None], drained: Callable[[str, int], None]) -> None:
        self.ended = ended


@dataclass
class Managers:
    """A network with what each manager answers."""

    answers: dict[str, Message] = field(default_factory=dict)
    asked: list[tuple[str, Heartbeat]] = field(default_factory=list)

    async def ask(self, address: str, message: Message, within: int) -> Message:
        assert isinstance(message, Heartbeat)
        self.asked.append((address, message))
        if address not in self.answers:
            raise NoAnswer("nobody")
        return self.answers[address]


def granted(*orders: Order, token: int = 1, holder: str = "i1", leader: str = "m1", decision: int = 1) -> Granted:
    return Granted(leader, ("m1", "m2", "m3"), "EXISTS", token, holder, decision, 2_000, 8_000, 1_500, orders)


def order(instance: str, epoch: int = 1, text: str | None = "text") -> Order:
    return Order(instance, epoch, "d", text)


async def settled() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def test_managers_are_asked_in_order_and_the_one_that_they_name() -> None:
    async def walk() -> None:
        net = Managers({"m1": Nobody(), "m2": Elsewhere("m3"), "m3": granted(leader="m3")})
        worker = Worker(WorkerSettings("w", "w", ("m0", "m1", "m2")), Clock(), net, Machine())
        assert await worker._round()
        assert [address for address, _beat in net.asked] == ["m0", "m1", "m2", "m3"]
        assert net.asked[0][1].state == "NEW"
        assert await worker._round()
        assert net.asked[-1][0] == "m3"
        assert (net.asked[-1][1].state, net.asked[-1][1].seen, net.asked[-1][1].applied) == ("EXISTS", 1, (1, 1))
        assert [beat.number for _address, beat in net.asked] == [1, 2, 3, 4, 5]

    asyncio.run(walk())


def test_a_worker_has_the_time_from_its_leader_give_or_take_half_of_the_way() -> None:
    clock = Clock()

    class Slow(Managers):
        async def ask(self, address: str, message: Message, within: int) -> Message:
            clock.ms += 40
            return await super().ask(address, message, within)

    async def walk() -> None:
        net = Slow({"m1": replace(granted(), time=1_700_000_000_000)})
        heard: list[tuple[int, int]] = []
        settings = WorkerSettings("w", "w", ("m1",))
        worker = Worker(settings, clock, net, Machine(), lambda *said: heard.append(said))
        assert await worker._round()
        net.answers["m1"] = granted()  # a leader that does not know it yet
        assert await worker._round()
        assert heard == [(1_700_000_000_020, 20)]

    asyncio.run(walk())


def test_managers_that_name_each_other_are_not_asked_for_ever() -> None:
    async def walk() -> None:
        net = Managers({"m1": Elsewhere("m2"), "m2": Elsewhere("m1")})
        worker = Worker(WorkerSettings("w", "w", ("m1", "m2")), Clock(), net, Machine())
        assert not await worker._round()
        assert [address for address, _beat in net.asked] == ["m1", "m2"]

    asyncio.run(walk())


def test_a_leader_of_before_and_a_second_one_of_a_token_are_not_obeyed() -> None:
    async def walk() -> None:
        net = Managers({"m1": granted(token=3)})
        worker = Worker(WorkerSettings("w", "w", ("m1",)), Clock(), net, Machine())
        assert await worker._round()
        for answer in (granted(token=2), granted(token=3, holder="another")):
            net.answers["m1"] = answer
            assert not await worker._round()
        net.answers["m1"] = granted(token=4, holder="another")
        assert await worker._round()

    asyncio.run(walk())


def test_a_rejected_worker_says_so_and_asks_on() -> None:
    async def walk() -> None:
        net = Managers({"m1": Rejected("elsewhere")})
        worker = Worker(WorkerSettings("w", "w", ("m1",), retry=7_000), Clock(), net, Machine())
        assert not await worker._round()
        assert worker.rejected == "the id w belongs to the worker at elsewhere"
        assert worker._pause(False) == 7_000
        net.answers["m1"] = granted()
        assert await worker._round()
        assert worker.rejected == ""
        assert worker._pause(True) == 2_000
        assert worker._pause(False) == 500  # there is a lease to lose

    asyncio.run(walk())


def test_an_answer_that_took_as_long_as_the_lease_allows_nothing() -> None:
    async def walk() -> None:
        clock, machine = Clock(), Machine()

        class Slow(Managers):
            async def ask(self, address: str, message: Message, within: int) -> Message:
                clock.ms += 6_400
                return await super().ask(address, message, within)

        worker = Worker(WorkerSettings("w", "w", ("m1",)), clock, Slow({"m1": granted(order("A"))}), machine)
        assert await worker._round()
        await settled()
        assert machine.log == []

    asyncio.run(walk())


def instances(machine: Machine, allowed: Callable[[], bool] = lambda: True) -> Instances:
    return Instances(machine, allowed, lambda: None, asyncio.ensure_future, Haste())


def test_an_instance_is_started_once_and_stopped_when_it_is_not_wanted() -> None:
    async def walk() -> None:
        machine = Machine()
        found = instances(machine)
        for _ in range(3):
            found.want([order("A"), order("B")])
            await settled()
        assert found.report() == (Running("A", 1, "running"), Running("B", 1, "running"))
        found.want([order("B")])
        await settled()
        assert machine.log == ["start A 1", "start B 1", "stop A"]
        assert found.report() == (Running("B", 1, "running"),)

    asyncio.run(walk())


def test_a_higher_epoch_starts_after_the_one_before_has_ended() -> None:
    async def walk() -> None:
        machine = Machine()
        found = instances(machine)
        found.want([order("A")])
        await settled()
        found.want([order("A", 2)])
        await settled()
        assert machine.log == ["start A 1", "stop A", "start A 2"]

    asyncio.run(walk())


def test_an_epoch_that_was_stopped_is_reported_and_not_started_again() -> None:
    async def walk() -> None:
        machine = Machine()
        found = instances(machine)
        found.want([order("A")])
        await settled()
        found.want([])
        await settled()
        found.want([order("A")])
        await settled()
        assert machine.log == ["start A 1", "stop A"]
        assert [(r.epoch, r.state) for r in found.report()] == [(1, "ended")]
        found.want([order("A", 2)])
        await settled()
        assert [(r.epoch, r.state) for r in found.report()] == [(2, "running")]

    asyncio.run(walk())


def test_a_start_that_is_not_wanted_any_more_is_broken_off() -> None:
    async def walk() -> None:
        machine = Machine(slow=True)
        found = instances(machine)
        found.want([order("A")])
        await settled()
        assert [r.state for r in found.report()] == ["starting"]
        found.want([])
        found.want([order("A")])  # wanted again before anyone looked: what is half started goes all the same
        await settled()
        assert machine.log == ["start A 1", "stop A"]
        assert [r.state for r in found.report()] == ["ended"]

    asyncio.run(walk())


def test_what_cannot_be_started_or_ends_by_itself_is_reported_with_the_reason() -> None:
    async def walk() -> None:
        machine = Machine(broken=True)
        found = instances(machine)
        found.want([order("A")])
        await settled()
        assert found.report() == (Running("A", 1, "failed", "no room"),)
        machine.broken = False
        found.want([order("A", 2)])
        await settled()
        assert machine.ended is not None
        machine.ended("A", 1, "an epoch that is over")
        assert found.report() == (Running("A", 2, "running"),)
        machine.ended("A", 2, "it crashed")
        assert found.report() == (Running("A", 2, "failed", "it crashed"),)

    asyncio.run(walk())


def test_an_instance_that_ends_between_the_order_to_stop_and_its_stop_is_not_reported_for_ever() -> None:
    async def walk() -> None:
        machine = Machine()
        found = instances(machine)
        found.want([order("A")])
        await settled()
        assert machine.ended is not None
        found.want([])
        machine.ended("A", 1, "a higher epoch was accepted")  # before the task that stops it had its turn
        await settled()
        assert found.report() == ()
        assert not found.any

    asyncio.run(walk())


def test_nothing_is_started_without_a_lease() -> None:
    async def walk() -> None:
        machine = Machine()
        found = instances(machine, lambda: False)
        found.want([order("A")])
        await settled()
        assert machine.log == []
        assert found.report() == ()

    asyncio.run(walk())


def test_what_could_not_be_started_as_the_lease_was_over_is_started_when_the_same_order_comes_under_another_one() -> (
    None
):
    async def walk() -> None:
        machine, leases = Machine(), [True]
        found = instances(machine, lambda: bool(leases))
        found.want([order("A")])
        await settled()
        found.want([order("A", 2)])
        leases.clear()
        await settled()  # A has been stopped for epoch 2, which must not start now
        assert machine.log == ["start A 1", "stop A"]
        leases.append(True)
        for _ in range(2):
            found.want([order("A", 2)])
            await settled()
        assert machine.log == ["start A 1", "stop A", "start A 2"]
        assert found.report() == (Running("A", 2, "running"),)

    asyncio.run(walk())


def test_a_worker_that_leaves_says_so_and_ends_when_all_has_stopped_and_the_leader_knows() -> None:
    async def walk() -> None:
        machine, net = Machine(), Managers({"m1": granted(order("A"))})
        worker = Worker(WorkerSettings("w", "w", ("m1",)), Clock(), net, machine)
        life = asyncio.ensure_future(worker.run())
        await settled()
        assert [beat.leaving for _address, beat in net.asked] == [False, False]  # the second one tells that A runs
        leaving = asyncio.ensure_future(worker.leave(9_000))
        await settled()
        assert net.asked[-1][1].leaving
        assert not leaving.done()  # A is still granted
        net.answers["m1"] = granted(decision=2)
        await worker.answer(Poke("m1", 1))
        await settled()
        assert machine.log == ["start A 1", "stop A"]
        assert net.asked[-1][1].running == ()
        assert not leaving.done()  # the leader has not said that it knows
        net.answers["m1"] = Farewell(("A: no worker is there",))
        await worker.answer(Poke("m1", 1))
        await settled()
        assert leaving.result() == Farewell(("A: no worker is there",))
        asked = len(net.asked)
        await worker.answer(Poke("m1", 1))
        await settled()
        assert len(net.asked) == asked  # it is no worker of the cluster any more
        life.cancel()

    asyncio.run(walk())


def test_a_worker_that_was_told_that_it_has_left_stops_what_it_still_runs() -> None:
    async def walk() -> None:
        machine, net = Machine(), Managers({"m1": granted(order("A"))})
        worker = Worker(WorkerSettings("w", "w", ("m1",)), Clock(), net, machine)
        life = asyncio.ensure_future(worker.run())
        await settled()
        net.answers["m1"] = Farewell()  # its lease was over, and nobody had told it
        assert await worker.leave(9_000) == Farewell()
        assert machine.log == ["start A 1", "stop A"]
        life.cancel()

    asyncio.run(walk())


def test_a_worker_that_no_manager_takes_leaves_at_once() -> None:
    async def walk() -> None:
        worker = Worker(WorkerSettings("w", "w", ("m1",)), Clock(), Managers(), Machine())
        life = asyncio.ensure_future(worker.run())
        assert await worker.leave(9_000) is None
        life.cancel()

    asyncio.run(walk())


def test_stops_have_no_hurry_until_the_lease_is_nearly_over() -> None:
    async def walk() -> None:
        clock, machine, net = Clock(), Machine(), Managers({"m1": granted(order("A"))})
        worker = Worker(WorkerSettings("w", "w", ("m1",)), clock, net, machine)
        life = asyncio.ensure_future(worker.run())
        await settled()
        assert not worker._haste.begun.is_set()
        assert worker._haste.within == 1_500
        answers, net.answers = net.answers, {}
        clock.ms += 6_400
        worker._guard.ring()
        await settled()
        assert worker._haste.begun.is_set()
        net.answers = answers
        await worker.answer(Poke("m1", 1))
        await settled()
        assert not worker._haste.begun.is_set()  # there is another lease
        life.cancel()

    asyncio.run(walk())
