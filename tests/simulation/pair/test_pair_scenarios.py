"""One thing at a time, in a pair of which nothing else goes wrong."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator

import pytest
from pairdisk import Slot, content_of, slot_of
from pairlink import Peer, Pipe, SimSession
from pairmachine import PairMachine, SimDuties
from pairstorm import _restored
from pairworld import PairWorld
from simcheck import Broken
from simnet import DATABASE, NOBODY

from nadi.cluster.pair import PairSettings, Role
from nadi.cluster.pair.companions import SLOWEST
from nadi.cluster.rows import Key, Row
from nadi.errors import NadiError
from nadi.replica.contract import JournalAppend, ObjectPut, Record


class Pair:
    """A pair in order: n1 is active, n2 is passive and in sync."""

    def __init__(self, settings: PairSettings | None = None) -> None:
        self.world = PairWorld(1)
        self.n1, self.n2 = self.world.machines.values()
        for machine in (self.n1, self.n2):
            machine.settings = settings or machine.settings
        NOBODY.run(self.world.boot, self.n1)
        NOBODY.run(self.world.send)
        self.until(lambda: self.n1.serves)
        NOBODY.run(self.world.boot, self.n2)
        self.until(lambda: self.n1.node.status.in_sync and self.n2.node.status.in_sync)

    @property
    def now(self) -> float:
        return self.world.loop.ms

    def pass_time(self, ms: float) -> None:
        self.world.loop.run_until(self.now + ms, self.world.watch.check)

    def until(self, holds: Callable[[], bool], within: float = 20_000) -> float:
        """How long it took (ms)."""
        began = self.now
        while not holds():
            assert self.now - began < within, [m.node.status for m in self.world.machines.values() if m.starts]
            self.pass_time(20)
        return self.now - began

    def cut(self, one: str, other: str) -> None:
        self.world.wires.cuts.update({(one, other), (other, one)})

    def asks(self, machine: PairMachine, what: Callable[[], object]) -> Callable[[], BaseException | None]:
        task = self.world.loop.create_task(what(), context=machine.process.context.copy())
        self.until(task.done)
        return task.exception  # type: ignore[no-any-return]


@pytest.fixture
def pair() -> Iterator[Pair]:
    found = Pair()
    yield found
    found.world.loop.finish()


def conditions(machine: PairMachine) -> list[str]:
    return [alarm.condition for alarm in machine.node.status.alarms]


def test_both_nodes_say_who_is_active_and_that_they_are_in_sync(pair: Pair) -> None:
    one, other = pair.n1.node.status, pair.n2.node.status
    assert (one.role, other.role) == (Role.ACTIVE, Role.PASSIVE)
    assert one.active == other.active == "n1"
    assert (pair.n1.node.is_leader, pair.n2.node.is_leader) == (True, False)
    assert one.partner is not None
    assert one.partner.id == "n2"
    assert (conditions(pair.n1), conditions(pair.n2)) == ([], [])


def test_a_killed_node_is_replaced_within_two_leases(pair: Pair) -> None:
    pair.world.kill(pair.n1, loses_disk=True)
    assert pair.until(lambda: pair.n2.serves) < 5_000
    assert conditions(pair.n2) == ["PAIR_ALONE"]


def test_a_switch_is_refused_until_the_partner_could_go_on_at_once(pair: Pair) -> None:
    pair.until(lambda: not pair.n1.node.status.unready)
    pair.n2.duties.warm_at = pair.now + 5_000  # its Spark has died, and starts again
    pair.until(lambda: pair.n1.node.status.unready == "Spark starts")
    assert pair.n2.node.status.unready == "Spark starts"
    refused = pair.asks(pair.n1, pair.n1.node.switch)()
    assert isinstance(refused, NadiError)
    assert refused.condition == "PAIR_NOT_SWITCHED"
    assert "Spark starts" in str(refused)
    assert pair.n1.serves
    pair.until(lambda: not pair.n1.node.status.unready)
    assert pair.asks(pair.n1, pair.n1.node.switch)() is None
    pair.until(lambda: pair.n2.serves)


def test_a_planned_switch_takes_no_timeout(pair: Pair) -> None:
    pair.until(lambda: not pair.n1.node.status.unready)
    began = pair.now
    assert pair.asks(pair.n1, pair.n1.node.switch)() is None
    assert pair.until(lambda: pair.n2.node.is_leader) < 200  # ms: it does not look first whether the lease is free
    pair.until(lambda: pair.n2.serves)
    assert pair.now - began < 2_000
    pair.until(lambda: pair.n1.node.status.in_sync and pair.n2.node.status.in_sync)
    assert pair.n1.node.role is Role.PASSIVE


def test_an_active_node_that_is_stopped_in_order_leaves_no_gap(pair: Pair) -> None:
    assert pair.asks(pair.n1, pair.n1.node.leave)() is None
    assert pair.until(lambda: pair.n2.serves) < 2_000


@pytest.mark.parametrize("why", ["it is stopped", "its lease ends"])
def test_a_node_that_begins_does_not_wait_for_its_apps_where_it_is_to_end(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    hurried = asyncio.Event()

    async def slow(duties: SimDuties, token: int) -> None:
        await begin(duties, token)
        await hurried.wait()  # an app that takes five minutes to start

    begin = SimDuties.activate
    monkeypatch.setattr(SimDuties, "activate", slow)
    monkeypatch.setattr(SimDuties, "hurry", lambda _duties: hurried.set())
    pair.world.kill(pair.n1, loses_disk=False)
    pair.until(lambda: pair.n2.node.role is Role.STARTING)
    pair.pass_time(3_000)
    assert pair.n2.node.role is Role.STARTING
    if why == "it is stopped":
        leaving = pair.world.loop.create_task(pair.n2.node.leave(), context=pair.n2.process.context.copy())
        pair.until(leaving.done, within=5_000)
    else:
        pair.world.wires.weather.store_away = True
        pair.until(lambda: pair.n2.node.role is Role.PASSIVE, within=5_000)
    assert hurried.is_set()


def test_the_pair_runs_on_while_the_database_is_away(pair: Pair) -> None:
    pair.world.wires.weather.store_away = True
    pair.pass_time(15_000)
    assert pair.n1.node.role is Role.ACTIVE
    assert pair.now - pair.world.watch.last_acknowledged < 2_000


def test_a_node_without_database_and_partner_acknowledges_nothing_and_ends(pair: Pair) -> None:
    pair.world.wires.weather.store_away = True
    pair.world.kill(pair.n2, loses_disk=False)
    pair.until(lambda: pair.n1.node.role is Role.SUSPENDED)
    before = set(pair.world.watch.acknowledged)
    pair.until(lambda: pair.n1.node.role is Role.PASSIVE, within=4_000)
    assert set(pair.world.watch.acknowledged) == before


def test_a_node_without_a_partner_goes_on_alone_and_says_so(pair: Pair) -> None:
    pair.world.kill(pair.n2, loses_disk=False)
    pair.until(lambda: conditions(pair.n1) == ["PAIR_ALONE"])
    pair.pass_time(3_000)
    assert pair.now - pair.world.watch.last_acknowledged < 2_000


def test_a_node_without_a_partner_bears_a_database_that_takes_a_quarter_of_a_lease(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair.world.kill(pair.n2, loses_disk=False)
    pair.until(lambda: conditions(pair.n1) == ["PAIR_ALONE"])
    pair.world.wires.weather.store_slowest = 250.0  # each way
    carried = type(pair.world.wires).delay
    monkeypatch.setattr(
        type(pair.world.wires),
        "delay",
        lambda wires, slowest: slowest if slowest == wires.weather.store_slowest else carried(wires, slowest),
    )
    for _ in range(40):
        pair.pass_time(500)
        assert pair.n1.node.role is Role.ACTIVE


@pytest.mark.parametrize("loses_disk", [False, True])
def test_a_node_that_comes_back_is_in_sync_after_one_session_and_alarms_nobody(pair: Pair, loses_disk: bool) -> None:
    pair.world.kill(pair.n2, loses_disk)
    pair.until(lambda: conditions(pair.n1) == ["PAIR_ALONE"])
    NOBODY.run(pair.world.boot, pair.n2)
    told: set[str] = set()

    def in_sync() -> bool:
        told.update(conditions(pair.n1), conditions(pair.n2))
        return pair.n1.node.status.in_sync and pair.n2.node.status.in_sync

    before = pair.world.sessions
    pair.until(in_sync)
    assert pair.world.sessions == before + 1
    assert told == {"PAIR_ALONE"}


@pytest.mark.parametrize("after", [0, 500, 1_000, 1_500, 2_000, 3_000])
@pytest.mark.parametrize("loses_disk", [False, True])
def test_an_active_node_that_comes_back_while_its_partner_takes_over_says_nothing_of_nobody(
    pair: Pair, loses_disk: bool, after: int
) -> None:
    pair.world.kill(pair.n1, loses_disk)
    pair.pass_time(after)
    NOBODY.run(pair.world.boot, pair.n1)
    told: set[str] = set()

    def in_sync() -> bool:
        told.update(found for machine in (pair.n1, pair.n2) if machine.starts for found in conditions(machine))
        return pair.n1.node.status.in_sync and pair.n2.node.status.in_sync

    pair.until(in_sync)
    assert "PAIR_NO_ONE" not in told


def test_a_node_alone_with_a_longer_lease_bears_a_database_that_takes_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = Pair(PairSettings(interval=5_000))
    pair.world.kill(pair.n2, loses_disk=False)
    pair.until(lambda: conditions(pair.n1) == ["PAIR_ALONE"], within=30_000)
    pair.world.wires.weather.store_slowest = 1_500.0  # each way
    carried = type(pair.world.wires).delay
    monkeypatch.setattr(
        type(pair.world.wires),
        "delay",
        lambda wires, slowest: slowest if slowest == wires.weather.store_slowest else carried(wires, slowest),
    )
    for _ in range(120):
        pair.pass_time(500)
        assert pair.n1.node.role is Role.ACTIVE
    pair.world.loop.finish()


async def given_up(pair: Pair) -> None:
    """A record that n1 prepares, and does not write."""
    pair.n1.node.abandon(await pair.n1.node.prepare(JournalAppend("S", b"", "s9", 1, {}, b"x")))


def test_a_write_ends_within_a_lease_where_the_partner_stands_still_and_the_database_is_away(pair: Pair) -> None:
    pair.world.wires.weather.store_away = True
    pair.n2.pause(all_of_it=True)
    began = pair.now
    failed = pair.asks(pair.n1, lambda: given_up(pair))()
    assert isinstance(failed, NadiError)
    assert failed.condition == "CONNECTION_UNAVAILABLE"  # it may be at the partner
    assert pair.now - began <= PairSettings().lease
    refused = pair.asks(pair.n1, lambda: given_up(pair))()
    assert isinstance(refused, NadiError)
    assert refused.condition == "NOT_ACTIVE"
    pair.world.wires.weather.store_away = False
    pair.n2.resume()
    pair.until(lambda: any(m.serves for m in (pair.n1, pair.n2)))


def test_a_write_waits_for_the_set_where_the_partner_stands_still_and_goes_on_alone(pair: Pair) -> None:
    pair.n2.pause(all_of_it=True)
    began = pair.now
    assert pair.asks(pair.n1, lambda: given_up(pair))() is None
    assert pair.now - began <= PairSettings().lease + 2 * PairSettings().beat
    assert conditions(pair.n1) == ["PAIR_ALONE"]


def test_a_partner_that_promises_and_takes_no_record_any_more_is_left_behind(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hangs(peer: Peer, _number: int, _record: object) -> None:
        await peer.world.loop.create_future()  # its disk

    monkeypatch.setattr(Peer, "log", hangs)
    began = pair.now
    assert pair.asks(pair.n1, lambda: given_up(pair))() is None
    assert PairSettings().stalls <= pair.now - began <= PairSettings().stalls + 3 * PairSettings().beat
    assert "a record waits for it" in pair.n1.node.status.reason
    monkeypatch.undo()
    pair.until(lambda: pair.n1.node.status.in_sync)


def test_a_partner_that_promises_and_stores_no_object_any_more_is_left_behind(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = 20_000_000  # bytes, which may take their time

    async def hangs(session: SimSession, record: Record) -> int:
        if isinstance(record, ObjectPut):
            await session.world.loop.create_future()  # the disk that has the objects
        return await send(session, record)

    async def put() -> None:
        pair.n1.node.abandon(await pair.n1.node.prepare(ObjectPut("A/log/d-1", size)))

    send = SimSession.send
    monkeypatch.setattr(SimSession, "send", hangs)
    began, stalls = pair.now, PairSettings().stalls + size // SLOWEST
    task = pair.world.loop.create_task(put(), context=pair.n1.process.context.copy())
    pair.until(task.done, within=stalls + 20_000)
    assert stalls <= pair.now - began <= stalls + 3 * PairSettings().beat
    assert "no object has come there" in pair.n1.node.status.reason
    monkeypatch.undo()
    pair.until(lambda: pair.n1.node.status.in_sync)


def test_who_is_not_in_the_set_waits_and_says_for_whom(pair: Pair) -> None:
    pair.world.kill(pair.n2, loses_disk=False)
    pair.pass_time(4_000)
    pair.world.kill(pair.n1, loses_disk=False)
    NOBODY.run(pair.world.boot, pair.n2)
    pair.pass_time(15_000)
    status = pair.n2.node.status
    assert status.role is Role.PASSIVE
    assert "only n1 has everything" in status.reason
    assert conditions(pair.n2) == ["PAIR_NO_ONE"]
    NOBODY.run(pair.world.boot, pair.n1)
    pair.until(lambda: pair.n1.serves and pair.n2.node.status.in_sync)


def test_a_promotion_says_what_it_would_lose_and_then_does_it(pair: Pair) -> None:
    pair.world.kill(pair.n2, loses_disk=False)
    pair.pass_time(4_000)
    pair.world.kill(pair.n1, loses_disk=True)
    NOBODY.run(pair.world.boot, pair.n2)
    pair.until(lambda: conditions(pair.n2) == ["PAIR_NO_ONE"])
    task = pair.world.loop.create_task(pair.n2.node.promote(accept_loss=False))
    pair.until(task.done)
    assert task.result().others == ("n1",)
    assert task.result().since is not None
    pair.world.promote(pair.n2)
    pair.until(lambda: pair.n2.serves)


def test_a_node_whose_copy_has_begun_meanwhile_is_not_promoted_any_more(pair: Pair) -> None:
    """Somebody promotes n2, which waits for the database; n1 comes back, takes over, begins to copy, and dies."""
    pair.world.kill(pair.n2, loses_disk=False)
    pair.until(lambda: conditions(pair.n1) == ["PAIR_ALONE"])
    pair.world.kill(pair.n1, loses_disk=False)
    pair.pass_time(PairSettings().lease)
    NOBODY.run(pair.world.boot, pair.n1)
    NOBODY.run(pair.world.boot, pair.n2)
    pair.until(lambda: pair.n2.node.beats.found is not None)
    promoting = pair.world.loop.create_task(
        pair.n2.node.promote(accept_loss=True), context=pair.n2.process.context.copy()
    )
    pair.until(lambda: pair.n2.node.forced is not None)
    pair.cut("n2", DATABASE)
    pair.until(lambda: not pair.n2.disk.whole)
    pair.world.kill(pair.n1, loses_disk=False)
    pair.world.wires.cuts.clear()
    pair.until(promoting.done)
    assert "begun to make this one's copy" in str(promoting.exception())
    pair.pass_time(5_000)
    assert not pair.n2.serves
    NOBODY.run(pair.world.boot, pair.n1)
    pair.until(lambda: pair.n1.serves and pair.n2.node.status.in_sync)


def told_in_vain(pair: Pair) -> tuple[dict[Slot, str], dict[Key, Row]]:
    """n2 holds back what n1 never wrote, as n2's answers did not come; n1 goes on alone, and has written something else there. Then it dies. -> what n2 holds
    back, and the database from before n1 went on."""
    pair.world.wires.cuts.add(("n2", "n1"))
    pair.cut("n1", DATABASE)
    pair.cut("n2", DATABASE)
    pair.until(lambda: pair.n1.node.role is Role.PASSIVE)
    pair.cut("n1", "n2")  # before a new session takes from n2 what it holds back
    held = {slot_of(record): content_of(record) for record in pair.n2.disk.held.values()}
    copy = dict(pair.world.database.rows)
    pair.world.wires.cuts -= {("n1", DATABASE), (DATABASE, "n1")}
    pair.until(lambda: any(pair.n1.disk.services.get(slot, content) != content for slot, content in held.items()))
    pair.world.kill(pair.n1, loses_disk=False)
    pair.pass_time(10_000)  # its lease ends, and what it still sent to n2 is given up
    return held, copy


def promoted_in_the_end(pair: Pair) -> None:
    pair.world.wires.cuts.clear()
    pair.until(lambda: conditions(pair.n2) == ["PAIR_NO_ONE"])
    pair.world.promote(pair.n2)
    pair.until(lambda: pair.n2.serves)


def test_a_promoted_node_writes_what_it_held_back_and_the_other_one_takes_it(pair: Pair) -> None:
    held, _copy = told_in_vain(pair)
    promoted_in_the_end(pair)
    assert held.items() <= pair.n2.disk.services.items()
    NOBODY.run(pair.world.boot, pair.n1)
    pair.until(lambda: pair.n1.node.status.in_sync and pair.n2.node.status.in_sync)
    assert held.items() <= pair.n1.disk.services.items()


def test_a_node_that_takes_over_out_of_an_old_copy_of_the_database_writes_what_it_held_back(pair: Pair) -> None:
    """Nobody who knows that the database has gone back is there: n2 has not seen it between the copy and the restore. What n1 did meanwhile is lost."""
    held, copy = told_in_vain(pair)
    _restored(pair.world, copy)
    pair.world.wires.cuts.clear()
    pair.until(lambda: pair.n2.serves)
    assert held.items() <= pair.n2.disk.services.items()


def test_what_a_promoted_node_held_back_is_compared_with_what_it_has_itself(pair: Pair) -> None:
    """A promotion excuses what differs from the other node, and nothing else."""
    held, _copy = told_in_vain(pair)
    slot = next(iter(held))
    pair.n2.disk.services[slot] = "something else"
    with pytest.raises(Broken, match=f"at {re.escape(str(slot))}, where something else was written before"):
        promoted_in_the_end(pair)


def test_a_node_is_not_promoted_beside_an_active_one(pair: Pair) -> None:
    refusal = pair.asks(pair.n2, lambda: pair.n2.node.promote(accept_loss=True))()
    assert isinstance(refusal, NadiError)
    assert refusal.condition == "PAIR_NOT_PROMOTED"


def test_a_database_that_has_gone_back_stops_the_pair(pair: Pair) -> None:
    copy = dict(pair.world.database.rows)
    pair.pass_time(3_000)
    pair.world.database.rows = copy
    pair.until(lambda: pair.n1.node.role is Role.PASSIVE)
    pair.pass_time(10_000)
    assert not pair.n1.serves
    assert not pair.n2.serves
    assert "COORDINATION_WENT_BACK" in conditions(pair.n1) + conditions(pair.n2)


def test_a_partner_of_another_version_stays_out_of_the_set(pair: Pair) -> None:
    pair.world.kill(pair.n2, loses_disk=False)
    pair.n2.version = "2"
    NOBODY.run(pair.world.boot, pair.n2)
    pair.pass_time(12_000)
    assert "PAIR_MISFIT" in conditions(pair.n1)
    pair.world.kill(pair.n1, loses_disk=False)
    pair.pass_time(12_000)
    assert not pair.n2.serves


def test_a_node_whose_clock_is_wrong_by_hours_takes_no_work_over(pair: Pair) -> None:
    pair.n2.wall_error = 7_200_000
    pair.until(lambda: "PAIR_CLOCK_WRONG" in conditions(pair.n2))
    pair.world.kill(pair.n1, loses_disk=False)
    pair.pass_time(12_000)
    assert not pair.n2.serves
    pair.n2.wall_error = -60_000
    pair.until(lambda: pair.n2.serves)
    assert pair.n2.node.ahead is not None
    assert abs(pair.n2.node.ahead[0] - 60_000) < 100


def test_an_isolated_node_ends_and_its_partner_goes_on(pair: Pair) -> None:
    pair.cut("n1", "n2")
    pair.cut("n1", DATABASE)
    pair.until(lambda: pair.n2.serves, within=8_000)
    assert not pair.n1.serves


def test_a_node_that_was_paused_takes_what_came_meanwhile_in_its_order(pair: Pair) -> None:
    pipe, heard = Pipe(pair.world, pair.n1, pair.n2), []
    pair.n2.process.paused = True
    for n in range(20):
        pipe.carry(0, lambda n=n: heard.append(n))
    pair.pass_time(1_000)
    assert heard == []
    pair.n2.resume()
    pair.pass_time(1)
    assert heard == list(range(20))


def test_what_a_cut_held_up_comes_before_what_was_sent_later(pair: Pair) -> None:
    pipe, heard = Pipe(pair.world, pair.n1, pair.n2), []
    pair.cut("n1", "n2")
    for n in range(10):
        pipe.carry(0, lambda n=n: heard.append(n))
        pair.pass_time(30)
    pair.world.wires.cuts.clear()
    pair.until(lambda: len(heard) == 10)
    assert heard == list(range(10))
