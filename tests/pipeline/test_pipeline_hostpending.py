"""A batch that does not wait for its slowest group: deadlines of hosts, what is pending, who is rung up."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pipeline_bucket import hosts_of_this_process
from pipeline_work import Process, Rig, Told, Within, ask_run, cuts_of, groups_of, sides, spec_of

from nadi.pipeline.executor.jobs import Jobs
from nadi.pipeline.hosting.lane import LaneServer, Op, Request
from nadi.pipeline.hosting.turns import Turns

APP = """@app:name('Work')
@source(type='test', file='{folder}/in') define stream In (k string, n long);
@sink(type='test', file='{folder}/out', hold='{folder}/hold') define stream Out (k string, s long);
from In#window.length(50) select k, sum(n) as s group by k insert into Out;"""
SOON, LATE = 0.05, 20.0  # seconds


@pytest.fixture
def two(tmp_path: Path) -> Iterator[list[Within]]:
    yield from sides(tmp_path, 2)


def made(folder: Path) -> Rig:
    spec = spec_of(folder, APP)
    (folder / "in").write_text("".join(f'{i * 10}\t["k{i % 7}", {i}]\n' for i in range(200)))
    return Rig(spec, cuts_of(folder / "in", range(20, 201, 20)))


def ask(host: Any, groups: list[Told], deadline: float | None, wake: str = "") -> list[Told]:
    (row,) = host.read(ask_run(groups, deadline, wake))
    return groups_of(row.body)


def test_a_slow_group_is_pending_and_the_others_are_done(tmp_path: Path, two: list[Within]):
    slow, quick = made(tmp_path / "slow"), made(tmp_path / "quick")
    (tmp_path / "slow" / "hold").touch()
    done: Told = {"state": "pending"}
    while done["state"] == "pending":  # it has to plan the apps first
        pending, done = ask(two[0], [slow.group(1), quick.group(1)], SOON, "coordinator")
        assert (pending["state"], pending["buckets"]) == ("pending", [])
    quick.commit(done)
    quick.step(two[0])
    (pending,) = ask(two[0], [slow.group(1)], SOON, "coordinator")
    assert pending["state"] == "pending"
    (tmp_path / "slow" / "hold").unlink()
    (told,) = ask(two[0], [slow.group(1)], LATE, "coordinator")
    slow.commit(told)
    for rig in (slow, quick):
        rig.step(two[1])
        rig.check()


def test_another_cut_of_a_group_that_is_at_work_is_pending_and_does_not_begin(tmp_path: Path, two: list[Within]):
    rig = made(tmp_path)
    (tmp_path / "hold").touch()
    ask(two[0], [rig.group(1)], SOON)
    rig.epoch = 2
    (told,) = ask(two[0], [rig.group(1)], None)  # does not wait either: it could be for ever
    assert (told["state"], told["epoch"]) == ("pending", 2)
    (tmp_path / "hold").unlink()
    while told["state"] == "pending":
        (told,) = ask(two[0], [rig.group(1)], SOON)
    rig.commit(told)
    rig.step(two[1])
    rig.check()


def test_a_result_that_was_told_once_is_made_again_for_who_lost_it(tmp_path: Path, two: list[Within]):
    rig = made(tmp_path)
    first = ask(two[0], [rig.group(1)], LATE)
    assert ask(two[0], [rig.group(1)], LATE) == first
    rig.commit(*first)
    rig.check()


def test_who_was_told_that_it_is_pending_is_rung_up_once(tmp_path: Path, two: list[Within]):
    rig = made(tmp_path)
    (tmp_path / "hold").touch()
    for address in ("one", "one", "other"):
        ask(two[0], [rig.group(1)], SOON, address)
    assert two[0].rung == []
    (tmp_path / "hold").unlink()
    rig.commit(*ask(two[0], [rig.group(1)], LATE, "one"))
    until = time.monotonic() + LATE
    while len(two[0].rung) < 2 and time.monotonic() < until:
        time.sleep(0.001)
    assert two[0].rung == [("one", rig.spec.id), ("other", rig.spec.id)]
    rig.commit(*ask(two[0], [rig.group(2)], LATE, "one"))
    assert len(two[0].rung) == 2


def test_an_app_is_forgotten_while_it_is_at_work_and_its_kernel_goes_when_that_ends(tmp_path: Path, two: list[Within]):
    rig = made(tmp_path)
    app = two[0].apps.define(rig.spec)
    (tmp_path / "hold").touch()
    while not (tmp_path / "hold-0").exists():
        ask(two[0], [rig.group(1)], SOON)
    job = two[0].apps.jobs(rig.spec).begin((1, 1), dict, True)
    assert job is not None
    two[0].apps.forget(rig.spec.id)
    (tmp_path / "hold").unlink()
    rig.commit(msgspec.msgpack.decode(msgspec.msgpack.encode(job.result.result(LATE))))
    with app.kernels.user(0) as live:
        assert live is None
    rig.step(two[0])
    rig.check()


def test_an_app_has_one_job_at_a_time_and_one_thread() -> None:
    go, threads = threading.Event(), set()
    at_work: list[int] = []

    def work(n: int) -> dict[str, Any]:
        threads.add(threading.get_ident())
        at_work.append(n)
        assert go.wait(LATE)
        return {"n": n}

    jobs = Jobs("A", lambda _address: None, Turns())
    one = jobs.begin((1, 1), lambda: work(1), True)
    assert one is not None
    assert jobs.begin((1, 2), lambda: work(2), True) is None
    assert jobs.begin((1, 1), lambda: work(3), True) is one
    assert jobs.wait(one, 0.0, "") is None
    go.set()
    assert jobs.wait(one, LATE, "") == {"n": 1}
    other = jobs.begin((1, 1), lambda: work(4), True)
    assert other is not None
    assert jobs.wait(other, None, "") == {"n": 4}
    assert (at_work, len(threads)) == ([1, 4], 1)
    jobs.close()


def test_a_host_process_rings_at_the_coordinators_socket(tmp_path: Path):
    rung = threading.Event()
    told: list[str] = []

    def answer(request: Request) -> bytes:
        assert request.op is Op.WAKE
        told.append(bytes(request.payload).decode())
        rung.set()
        return b""

    with LaneServer(tmp_path / "coordinator", answer) as server:
        for ask_hosts in hosts_of_this_process(1):
            host = Process(ask_hosts, 0)
            rig = made(tmp_path)
            (tmp_path / "hold").touch()
            (pending,) = ask(host, [rig.group(1)], SOON, str(server.path))
            assert pending["state"] == "pending"
            (tmp_path / "hold").unlink()
            assert rung.wait(LATE)
            rig.commit(*ask(host, [rig.group(1)], None, str(server.path)))
            rig.check()
    assert told == [rig.spec.id]


def test_a_coordinator_that_is_gone_is_not_rung(tmp_path: Path):
    for ask_hosts in hosts_of_this_process(1):
        rig = made(tmp_path)
        host = Process(ask_hosts, 0)
        (tmp_path / "hold").touch()
        ask(host, [rig.group(1)], SOON, str(tmp_path / "nobody"))
        (tmp_path / "hold").unlink()
        rig.commit(*ask(host, [rig.group(1)], LATE))
        rig.step(host)
        rig.check()
