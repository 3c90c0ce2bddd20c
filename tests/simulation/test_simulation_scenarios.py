"""What happens in a cluster when one thing goes wrong: the times that are promised, and what goes on meanwhile. In virtual time, on the production modules."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from simloop import Loop
from simmachine import Machine
from simnet import BROKER, DATABASE
from simworld import TIMING, World

from nadi.cluster import leader
from nadi.cluster.messages import (
    Delete,
    Deploy,
    Done,
    Drain,
    Granted,
    Heartbeat,
    Message,
    Nobody,
    Order,
    PartState,
    PartText,
    Record,
    Restart,
    Restore,
    Unknown,
    Write,
)
from nadi.cluster.rows import Actual, App, Beat, Event, Failure, Lease, ManagerRow, Part, Placement, Waiting, WorkerRow
from nadi.cluster.sockets import Socket, written

SEEDS = range(1, 6)


class Cluster(World):
    """A cluster in which only that goes wrong what a test does."""

    def __init__(self, seed: int, managers: int, workers: int) -> None:
        super().__init__(seed * 4 + 1)
        self.manager_names = [f"m{n}" for n in range(1, managers + 1)]
        self.worker_names = [f"w{n}" for n in range(1, workers + 1)]
        self.build()
        self.go(4_000)

    def go(self, ms: float) -> None:
        self.loop.run_until(self.loop.ms + ms, self.watch.check)

    def until(self, holds: Callable[[], object], most: float) -> float:
        """How long (ms) it takes until something holds."""
        began = self.loop.ms
        while not holds():
            assert self.loop.ms - began < most, f"not within {most} ms"
            self.go(20)
        return self.loop.ms - began

    def asked(self, write: Write, of: str | None = None) -> Message:
        """The answer of a manager."""
        said: list[Message] = []
        if isinstance(write, Delete):
            self.watch.deletable.add(write.name)

        async def ask() -> None:
            said.append(await self.net.at("user").ask(of or self.manager_names[0], write, 30_000))

        self.user_process.context.run(self.loop.spawn, self.user_process, ask())
        self.until(lambda: said, 31_000)
        return said[0]

    @property
    def leader(self) -> str:
        found = [
            name for name, m in self.managers.items() if m.term is not None and not self.machines[name].process.dead
        ]
        return found[0] if len(found) == 1 else ""

    def rows(self, kind: type) -> list[object]:
        return self.database.read([kind]).all(kind)

    def runs(self) -> dict[str, str]:
        """Instances that run, and where."""
        return {name: next(iter(where)) for name, where in self.watch.running.items() if where}


@contextmanager
def cluster(seed: int = 1, managers: int = 2, workers: int = 3) -> Iterator[Cluster]:
    found = Cluster(seed, managers, workers)
    try:
        yield found
    finally:
        loop: Loop = found.loop
        loop.finish()


def app(name: str = "A", groups: int = 2, parallel: int = 2, text: str = "1", receiver: bool = False) -> Deploy:
    parts = [
        PartText(f"{name}-g{g}-{n}", f"{name}-g{g}", f"text {g} {text}", receiver and g == 1)
        for g in range(1, groups + 1)
        for n in range(1, parallel + 1)
    ]
    return Deploy(name, f"app {name} {text}", tuple(parts))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_new_leader_leads_within_4_s_and_nothing_stops(seed: int) -> None:
    with cluster(seed) as found:
        found.asked(app())
        found.until(lambda: len(found.runs()) == 4, 5_000)
        before, old = found.runs(), found.leader
        epochs = {row.instance: row.epoch for row in found.rows(Placement)}  # type: ignore[attr-defined]
        found.kill(old)
        assert found.until(lambda: found.leader not in ("", old), 5_000) <= 4_000
        found.go(20_000)
        assert found.runs() == before
        assert {row.instance: row.epoch for row in found.rows(Placement)} == epochs  # type: ignore[attr-defined]


@pytest.mark.parametrize("seed", SEEDS)
def test_workers_whose_calendars_are_wrong_date_what_they_do_by_the_time_of_the_database(seed: int) -> None:
    with cluster(seed) as found:
        machines = [found.machines[name] for name in found.worker_names]
        assert max(machine.wall for machine in machines) > 10_000
        found.kill(found.leader)
        found.go(30_000)
        for machine in machines:
            assert abs(machine.calendar.now() - found.database.now()) < 1_000


@pytest.mark.parametrize("seed", SEEDS)
def test_what_a_dead_worker_ran_runs_elsewhere_within_12_s(seed: int) -> None:
    with cluster(seed) as found:
        found.asked(app())
        found.until(lambda: len(found.runs()) == 4, 5_000)
        found.go(1_000 + 370 * seed)
        found.kill("w1")
        assert found.until(lambda: len(found.runs()) == 4, 15_000) <= 12_000
        assert "w1" not in found.runs().values()


def test_a_worker_that_reaches_no_manager_stops_before_anyone_else_starts() -> None:
    with cluster() as found:
        found.asked(app())
        found.until(lambda: len(found.runs()) == 4, 5_000)
        ran = {name for name, where in found.runs().items() if where == "w1"}
        for manager in found.manager_names:
            found.wires.cuts.update(found.reach("w1", manager))
        found.until(lambda: not found.machines["w1"].runs, 9_000)
        assert not ran & set(found.runs())  # the watch would have said if one had started before
        found.until(lambda: len(found.runs()) == 4, 5_000)
        found.wires.cuts.clear()
        found.until(lambda: any(row.id == "w1" and not row.gone for row in found.rows(WorkerRow)), 15_000)  # type: ignore[attr-defined]


def test_apps_go_on_while_the_broker_is_away_from_one_worker() -> None:
    with cluster() as found:
        found.asked(app())
        found.until(lambda: len(found.runs()) == 4, 5_000)
        before = found.runs()
        found.wires.cuts.update(found.reach("w1", BROKER))
        found.go(20_000)
        assert found.runs() == before


def test_a_database_away_for_3_s_stops_nothing() -> None:
    with cluster() as found:
        found.asked(app())
        found.until(lambda: len(found.runs()) == 4, 5_000)
        before = found.runs()
        found.wires.weather.store_away = True
        found.go(3_000)
        found.wires.weather.store_away = False
        found.go(10_000)
        assert found.runs() == before


def test_a_database_away_for_30_s_stops_all_and_all_comes_back() -> None:
    with cluster() as found:
        found.asked(app())
        found.until(lambda: len(found.runs()) == 4, 5_000)
        found.wires.weather.store_away = True
        found.go(30_000)
        assert found.runs() == {}
        found.wires.weather.store_away = False
        found.until(lambda: len(found.runs()) == 4, 12_000)


def test_a_write_to_any_manager_is_made_by_the_leader() -> None:
    with cluster(managers=3) as found:
        follower = next(name for name in found.manager_names if name != found.leader)
        assert found.asked(app(), follower) == Done("created", version=1)
        assert found.asked(app(), found.leader) == Done("unchanged", version=1)
        assert found.asked(Delete("A"), follower) == Done("deleted", version=2)
        assert found.asked(Delete("A"), follower) == Done("absent", version=2)


def test_a_write_without_a_leader_is_answered_unknown() -> None:
    with cluster(managers=2) as found:
        follower = next(name for name in found.manager_names if name != found.leader)
        found.wires.cuts.update(found.reach(follower, DATABASE))
        found.go(4_000)
        assert isinstance(found.asked(app(), follower), Unknown)


def test_a_write_that_comes_late_does_not_undo_a_later_one() -> None:
    with cluster() as found:
        found.asked(app())
        found.asked(app(text="2"))
        late = Delete("A", after=1)
        assert found.asked(late) == Done("stale", version=2)
        assert [row.version for row in found.rows(App)] == [2]  # type: ignore[attr-defined]


def test_an_app_without_enough_workers_waits_whole_and_says_why() -> None:
    with cluster(workers=2) as found:
        found.placing = type(found.placing)(least=3)
        for name in found.manager_names:
            found.kill(name)
            found.boot(name)
        found.go(8_000)
        answer = found.asked(app())
        assert answer == Done("created", "2 of 3 workers are there (minResourceCount)", 1)
        assert [row.reason for row in found.rows(Waiting)] == ["2 of 3 workers are there (minResourceCount)"]  # type: ignore[attr-defined]
        assert found.runs() == {}


def test_a_changed_app_starts_only_what_changed_again() -> None:
    with cluster() as found:
        found.asked(app())
        found.until(lambda: len(found.runs()) == 4, 5_000)
        one, changed = app(), app(text="2")
        found.asked(Deploy("A", "app A 2", (*one.parts[:2], *changed.parts[2:])))
        found.go(5_000)
        epochs = {row.instance: row.epoch for row in found.rows(Placement)}  # type: ignore[attr-defined]
        assert epochs == {"A-g1-1": 1, "A-g1-2": 1, "A-g2-1": 2, "A-g2-2": 2}
        assert len(found.runs()) == 4


def test_an_app_that_is_deployed_again_has_higher_epochs() -> None:
    with cluster() as found:
        found.asked(app())
        found.until(lambda: len(found.runs()) == 4, 5_000)
        found.asked(Delete("A"))
        found.asked(app())
        found.until(lambda: len(found.runs()) == 4, 8_000)
        found.go(7_000)  # an instance of before may take its time to end
        assert {row.epoch for row in found.rows(Placement)} == {2}  # type: ignore[attr-defined]
        assert len(found.runs()) == 4


def test_a_worker_that_joins_is_given_its_share_and_no_more_moves() -> None:
    with cluster(workers=2) as found:
        found.asked(app(groups=3, parallel=2))
        found.until(lambda: len(found.runs()) == 6, 5_000)
        found.worker_names.append("w3")
        found.machines["w3"] = type(found.machines["w1"])("w3", found.loop, found.dice, found.wires, found.watch)
        found.boot("w3")
        found.go(30_000)
        assert sorted(list(found.runs().values()).count(w) for w in found.worker_names) == [2, 2, 2]
        moved = [row for row in found.rows(Placement) if row.epoch > 1]  # type: ignore[attr-defined]
        assert len(moved) == 2


def test_a_drained_worker_is_left_and_not_used() -> None:
    with cluster() as found:
        found.asked(app())
        found.until(lambda: len(found.runs()) == 4, 5_000)
        assert found.asked(Drain("w1")) == Done("updated")
        found.go(6_000)
        assert "w1" not in found.runs().values()
        assert len(found.runs()) == 4


def left(found: Cluster, name: str, within: int = 20_000) -> list[bool]:
    """Have a worker leave in order; whether the leader has said that it may go, once it has."""
    said: list[bool] = []
    found.leave(name, within, said.append)
    return said


@pytest.mark.parametrize("seed", SEEDS)
def test_what_a_worker_ran_that_leaves_runs_elsewhere_before_its_lease_ends(seed: int) -> None:
    with cluster(seed) as found:
        found.asked(app())
        found.until(lambda: len(found.runs()) == 4, 5_000)
        found.go(1_000 + 370 * seed)
        gone = found.runs()["A-g1-1"]
        said = left(found, gone)
        assert found.until(lambda: said, 9_000) <= TIMING.lease
        assert said == [True]
        assert found.until(lambda: len(found.runs()) == 4, 5_000) <= 2_500
        assert gone not in found.runs().values()
        assert [row.gone for row in found.rows(WorkerRow) if row.id == gone] == [True]  # type: ignore[attr-defined]
        kinds = [row.kind for row in found.rows(Event) if row.subject == gone]  # type: ignore[attr-defined]
        assert kinds[-2:] == ["worker leaves", "worker left"]


def test_a_worker_that_has_left_is_taken_again_when_it_comes_back() -> None:
    with cluster() as found:
        found.asked(app())
        said = left(found, "w1")
        found.until(lambda: said, 9_000)
        found.boot("w1")
        found.until(lambda: "w1" in found.runs().values() and len(found.runs()) == 4, 20_000)


def test_a_worker_that_nobody_can_replace_leaves_all_the_same_and_its_app_waits() -> None:
    with cluster(workers=1) as found:
        found.asked(app())
        found.until(lambda: len(found.runs()) == 4, 5_000)
        said = left(found, "w1")
        found.until(lambda: said, 9_000)
        assert said == [True]
        assert found.runs() == {}
        assert [row.app for row in found.rows(Waiting)] == ["A"]  # type: ignore[attr-defined]
        found.boot("w1")
        found.until(lambda: len(found.runs()) == 4, 9_000)


def test_a_worker_that_reaches_no_manager_ends_when_it_has_stopped_all() -> None:
    with cluster() as found:
        found.asked(app())
        found.until(lambda: len(found.runs()) == 4, 5_000)
        for manager in found.manager_names:
            found.wires.cuts.update(found.reach("w1", manager))
        said = left(found, "w1")
        assert found.until(lambda: said, 20_000) <= TIMING.lease + 2_000
        assert said == [False]


def test_a_worker_that_leaves_goes_on_leaving_under_another_leader() -> None:
    with cluster() as found:
        found.asked(app())
        found.until(lambda: len(found.runs()) == 4, 5_000)
        old = found.leader
        found.kill(old)
        said = left(found, "w1")
        found.until(lambda: said, 15_000)
        assert said == [True]
        found.until(lambda: len(found.runs()) == 4, 5_000)
        assert "w1" not in found.runs().values()


def test_a_leader_that_does_not_know_a_worker_yet_hears_nothing_of_its_life_before() -> None:
    with cluster() as found:
        found.asked(app())
        found.until(lambda: len(found.runs()) == 4, 5_000)
        before = found.machines["w1"].incarnation
        found.kill("w1")
        found.boot("w1")
        found.go(5_000)
        (row,) = [row for row in found.rows(WorkerRow) if row.id == "w1"]  # type: ignore[attr-defined]
        assert row.incarnation > before
        for manager in found.manager_names:
            found.wires.cuts.update(found.reach("w1", manager))
        old = found.leader
        found.kill(old)
        found.until(lambda: found.leader not in ("", old), 5_000)
        found.go(1_000)
        term = found.managers[found.leader].term
        assert term is not None
        late = Heartbeat("w1", "w1", before, 999, "EXISTS", False, (), (1, 1), 1, leaving=True)
        assert term.heartbeat(late) == Nobody()
        assert isinstance(term.heartbeat(replace(late, incarnation=row.incarnation, leaving=False)), Granted)


def test_all_workers_leave_one_after_the_other_and_nothing_waits_for_a_lease() -> None:
    with cluster() as found:
        found.asked(app())
        found.until(lambda: len(found.runs()) == 4, 5_000)
        for name in found.worker_names:
            said = left(found, name)
            assert found.until(lambda: said, 9_000) <= TIMING.lease  # noqa: B023 - it is asked at once
            found.boot(name)
            assert found.until(lambda: len(found.runs()) == 4, 5_000) <= 3_000
        assert "worker gone" not in {row.kind for row in found.rows(Event)}  # type: ignore[attr-defined]


def test_an_app_that_is_restarted_starts_where_it_is_with_higher_epochs() -> None:
    with cluster() as found:
        found.asked(app())
        found.until(lambda: len(found.runs()) == 4, 5_000)
        before = {row.instance: row for row in found.rows(Placement)}  # type: ignore[attr-defined]
        assert found.asked(Restart("A")) == Done("restarting", version=1)
        found.go(6_000)
        assert len(found.runs()) == 4
        for row in found.rows(Placement):
            was = before[row.instance]  # type: ignore[attr-defined]
            assert row == replace(was, epoch=was.epoch + 1)
        assert found.asked(Restart("B")) == Done("absent")


@pytest.mark.parametrize("seed", SEEDS)
def test_an_app_that_is_restored_begins_with_its_revision_wherever_it_is_placed_and_whoever_leads(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with cluster(seed) as found:
        found.asked(app())
        found.until(lambda: len(found.runs()) == 4, 5_000)
        began: dict[str, list[Order]] = {}
        start = Machine.start

        async def noted(machine: Machine, order: Order) -> None:
            began.setdefault(order.instance, []).append(order)
            await start(machine, order)

        monkeypatch.setattr(Machine, "start", noted)
        parts = found.rows(Part)
        states = tuple(PartState(p.instance, f"7__{p.instance}", p.digest, 3) for p in parts)  # type: ignore[attr-defined]
        assert found.asked(Record("7__A", "A", 1, states)) == Done("recorded", version=1)
        assert found.asked(Restore("A", "7__A")) == Done("restoring")
        found.kill(found.leader)  # it is in the database: the next leader tells the workers
        found.until(lambda: len(began) == 4, 20_000)
        found.until(lambda: len(found.runs()) == 4, 20_000)
        lost = next(iter(found.runs().values()))
        found.kill(lost)
        found.until(lambda: len(found.runs()) == 4 and lost not in found.runs().values(), 40_000)
        for instance, orders in began.items():
            assert {(order.revision, order.since) for order in orders} == {(f"7__{instance}", orders[0].since)}
            assert all(order.epoch >= order.since for order in orders)
        assert len([order for orders in began.values() for order in orders]) > 4


def test_an_instance_that_waits_for_its_next_try_is_tried_at_once_when_its_app_is_restarted() -> None:
    with cluster(workers=1) as found:
        found.machines["w1"].fails = 1.0
        found.asked(app(groups=1, parallel=1))
        found.go(40_000)
        (failure,) = found.rows(Failure)
        assert failure.count > 4  # type: ignore[attr-defined]
        found.machines["w1"].fails = 0.0
        found.asked(Restart("A"))
        found.until(lambda: len(found.runs()) == 1, 3_000)
        found.go(1_000)
        assert found.rows(Failure) == []


def test_an_instance_that_cannot_be_started_is_tried_again_more_and_more_seldom() -> None:
    with cluster(workers=1) as found:
        found.machines["w1"].fails = 1.0
        found.asked(app(groups=1, parallel=1))
        found.go(60_000)
        tries = max(row.epoch for row in found.rows(Placement))  # type: ignore[attr-defined]
        assert 8 <= tries <= 14  # 1 s, 2 s, 4 s, then every 8 s
        assert [row.state for row in found.rows(Actual)] == ["failed"]  # type: ignore[attr-defined]
        found.machines["w1"].fails = 0.0
        found.until(lambda: len(found.runs()) == 1, 12_000)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_database_from_an_old_copy_stops_the_cluster_with_a_named_alarm(seed: int) -> None:
    with cluster(seed) as found:
        copy = dict(found.database.rows)
        found.asked(app())
        found.until(lambda: len(found.runs()) == 4, 5_000)
        found.kill(found.leader)
        found.until(lambda: bool(found.leader), 5_000)
        found.database.rows = copy
        found.go(3_000)
        alarms = [m.elector.alarm for name, m in found.managers.items() if not found.machines[name].process.dead]
        assert [alarm.condition for alarm in alarms if alarm] == ["COORDINATION_WENT_BACK"]
        found.go(10_000)
        assert found.runs() == {}
        assert (
            "has forgotten"
            in found.asked(app(), next(n for n in found.manager_names if not found.machines[n].process.dead)).reason
        )  # type: ignore[union-attr]


def test_a_token_that_only_workers_saw_stops_the_cluster_too() -> None:
    with cluster(managers=1) as found:
        found.asked(app())
        found.until(lambda: len(found.runs()) == 4, 5_000)
        first = dict(found.database.rows)
        found.kill("m1")
        found.boot("m1")
        found.go(6_000)  # the workers know token 2
        found.kill("m1")
        found.database.rows = first
        found.boot("m1")
        found.go(10_000)
        alarm = found.managers["m1"].elector.alarm
        assert alarm is not None
        assert alarm.condition == "COORDINATION_WENT_BACK"


def test_a_second_worker_of_an_id_is_rejected_while_the_first_lives() -> None:
    with cluster(workers=1) as found:
        from dataclasses import replace

        from nadi.cluster.messages import Heartbeat, Rejected

        beat = Heartbeat("w1", "elsewhere", "9999999999999-1-1", 1, "NEW", False, (), (0, 0), 0)
        term = found.managers[found.leader].term
        assert term is not None
        assert term.heartbeat(beat) == Rejected("w1")
        assert term.heartbeat(replace(beat, address="w1", incarnation="0-1-1")) == Rejected("w1")
        found.kill("w1")
        found.go(12_000)
        assert term.heartbeat(beat).joined == "NEW"  # type: ignore[union-attr]


def test_old_events_are_dropped_and_the_newest_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader, "EVENTS_KEPT", 3)
    with cluster() as found:
        for n in range(8):
            found.asked(app(text=str(n)))
        found.go(5_000)
        kept = found.rows(Event)
        assert len(kept) == 3
        assert [row.kind for row in kept] == ["app updated"] * 3  # type: ignore[attr-defined]


def test_the_tables_say_who_is_there_and_what_happened() -> None:
    with cluster() as found:
        found.asked(app())
        found.go(3_000)
        assert {row.id for row in found.rows(ManagerRow)} == {"m1", "m2"}  # type: ignore[attr-defined]
        assert not any(row.new for row in found.rows(ManagerRow))  # type: ignore[attr-defined]
        assert [row.owner for row in found.rows(Lease)] == [found.leader]  # type: ignore[attr-defined]
        assert {(row.worker, row.cpu) for row in found.rows(Beat)} == {("w1", 0.1), ("w2", 0.1), ("w3", 0.1)}  # type: ignore[attr-defined]
        assert {row.kind for row in found.rows(Event)} == {"worker joined", "app created"}  # type: ignore[attr-defined]
        follower = next(name for name in found.manager_names if name != found.leader)
        found.kill(follower)
        found.go(5_000)
        assert {row.id for row in found.rows(ManagerRow)} == {found.leader}  # type: ignore[attr-defined]
        assert ("MEMBER_REMOVED", follower) in {(e.change, e.member) for e in found.managers[found.leader].events}


def listening(name: str, port: int) -> Deploy:
    """An app of one instance whose source listens."""
    part = PartText(f"{name}-g", f"{name}-g", f"text {name} {port}", True, 1.0, written([Socket("S", port, "/in")]))
    return Deploy(name, f"app {name} {port}", (part,))


def test_apps_that_listen_on_one_port_lie_on_different_workers_and_one_too_many_waits() -> None:
    with cluster(workers=2) as found:
        for name in ("A", "B", "C"):
            found.asked(listening(name, 8006))
        found.until(lambda: len(found.runs()) == 2, 5_000)
        assert set(found.runs().values()) == {"w1", "w2"}
        assert [(row.app, row.reason) for row in found.rows(Waiting)] == [("C", "no worker has port 8006 free")]  # type: ignore[attr-defined]
        found.asked(Drain(found.runs()["A-g"]))
        found.go(5_000)
        assert len(found.runs()) == 2  # there is nowhere to go
        found.asked(Delete("B"))
        found.until(lambda: set(found.runs()) & {"A-g", "C-g"} == {"A-g", "C-g"}, 10_000)


def test_an_app_whose_new_text_listens_where_another_one_does_moves() -> None:
    with cluster(workers=2) as found:
        found.asked(listening("A", 1))
        found.asked(listening("B", 1))
        found.until(lambda: len(found.runs()) == 2, 5_000)
        where = found.runs()
        found.asked(listening("C", 2))
        found.until(lambda: len(found.runs()) == 3, 5_000)
        other = next(name for name in ("A", "B") if where[f"{name}-g"] == found.runs()["C-g"])
        found.asked(listening(other, 2))
        found.until(lambda: found.runs().get(f"{other}-g") not in (None, found.runs()["C-g"]), 15_000)
