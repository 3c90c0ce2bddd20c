"""How the coordinator of a cluster places tasks, names owners, and is rung up from other machines."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

from nadi.pipeline.coordinator.coordinator import Coordinator
from nadi.pipeline.coordinator.receipts import gather
from nadi.pipeline.coordinator.tasks import Work, one_stage, two_stages
from nadi.pipeline.cutting.cuts import Cut
from nadi.pipeline.executor import lanes
from nadi.pipeline.hosting import lane
from nadi.pipeline.hosting.doors import DoorClient, address_of
from nadi.pipeline.hosting.lane import LaneFailure, Op, Partition
from nadi.pipeline.hosting.seats import Seat
from nadi.pipeline.spec import AppSpec

HERE, THERE = Seat("executor_a_1", "a:1", 0), Seat("executor_b_2", "b:2", 0)


def work(name: str, seats: dict[int, Seat], told: bool = False, **more: Any) -> Work:
    spec = AppSpec(name, "", f"/state/{name}", hosts=2, cluster=True, token="t", **more)
    cuts = [Cut(n, 1, n, 0, {(0, 0): n * 100_000}) for n in range(2)]
    return Work(spec, *cuts, {}, told, seats)


def asked(partition: Partition) -> dict[str, Any]:
    return msgspec.msgpack.decode(partition.request)  # type: ignore[no-any-return]


def test_groups_are_asked_for_where_they_are_and_those_that_are_nowhere_each_by_itself():
    works = [work("A", {0: HERE}), work("B", {0: THERE}), work("C", {0: HERE}), work("D", {}), work("E", {})]
    tasks = one_stage(works, None, "wake")
    found = {(task.place, tuple(g["app"] for g in asked(task)["groups"])) for task in tasks}
    ids = [w.spec.id for w in works]
    assert found == {
        ("executor_a_1", (ids[0], ids[2])),
        ("executor_b_2", (ids[1],)),
        ("", (ids[3],)),
        ("", (ids[4],)),
    }
    assert {asked(task)["token"] for task in tasks} == {"t"}


def test_where_spark_is_local_groups_share_a_task_and_nothing_is_said_of_owners():
    spec = AppSpec("A", "", "/state/A")
    cuts = [Cut(n, 1, n, 0, {}) for n in range(2)]
    (task,) = one_stage([Work(spec, *cuts, {}, True), Work(spec, *cuts, {}, True)], None, "wake")
    assert task.place == ""
    assert "token" not in asked(task)
    assert all("owner" not in group for group in asked(task)["groups"])


def test_the_owner_is_named_also_to_who_is_told_all_but_not_where_the_group_is_to_have_other_hosts():
    for told in (False, True):
        (task,) = one_stage([work("A", {0: HERE}, told)], None, "wake")
        assert asked(task)["groups"][0]["owner"] == "a:1"
    (moved,) = one_stage([work("A", {0: HERE}, offset=2)], None, "wake")
    assert asked(moved)["groups"][0]["owner"] == ""


def test_reading_is_asked_for_where_buckets_are_and_each_has_its_owner():
    seats = {0: HERE, 1: Seat("executor_b_2", "b:3", 1)}
    tasks = two_stages(work("A", seats, buckets=3, parted=(0,)))
    assert [task.place for task in tasks] == ["executor_a_1", "executor_b_2"]
    assert [asked(task)["owners"] for task in tasks] == [{0: "a:1", 1: "b:3", 2: ""}] * 2


def test_who_has_taken_a_cut_or_is_at_it_is_noted_and_who_lacks_something_is_not():
    def receipt(state: str, seat: Seat, *buckets: int) -> bytes:
        told = {"app": "A", "epoch": 1, "n": 1, "state": state, "seat": list(seat)}
        return msgspec.msgpack.encode({"groups": [{**told, "buckets": [{"bucket": b} for b in buckets]}]})

    found = gather([receipt("done", HERE, 0, 2), receipt("done", THERE, 1), receipt("need", THERE)])["A", 1]
    assert found.seats == [(HERE, (0, 2)), (THERE, (1,))]
    assert gather([receipt("pending", THERE)])["A", 1].seats == [(THERE, ())]


def test_a_host_of_another_machine_rings_at_the_door_and_can_ask_for_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    rung, done = [], threading.Event()

    def wake(_coordinator: Coordinator, app: str) -> None:
        rung.append(app)
        done.set()

    monkeypatch.setattr(Coordinator, "_wake", wake)
    coordinator = Coordinator(tmp_path, ("127.0.0.1", "sesame"))
    try:
        bell = coordinator.begin_run("pool", False)._wake
        lanes.wake(bell, "A")
        assert done.wait(60)
        assert rung == ["A"]
        lanes.wake(bell.replace("sesame", "nothing"), "B")  # who does not know the token is not heard, and not told so
        door = address_of(bell)
        assert door is not None
        with DoorClient(*door) as client, pytest.raises(LaneFailure, match="not asked for LATEST"):
            client.ask(Op.LATEST, lane.encode_latest("1", 0))
        assert rung == ["A"]
    finally:
        coordinator.close()
    lanes.wake(bell, "A")  # nobody is there any more
