"""Executor hosts without Spark: this process plays the JVM, a dict the state store."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pipeline_bucket import Bucket, Within, close, hosts_of_this_process, kill
from pipeline_testlog import committed

from nadi.errors import NadiError
from nadi.pipeline.executor.kernels import IDLE, IDLE_FEEDING
from nadi.pipeline.hosting.hostclient import Hosts, hosts_folder, sweep
from nadi.pipeline.hosting.protocol import failure_head, raise_failure
from nadi.pipeline.inputs.fatrows import pack
from nadi.pipeline.kernelstage import StoredState
from nadi.pipeline.node import spread
from nadi.pipeline.spec import AppSpec


@pytest.fixture(scope="module")
def ask() -> Iterator[Hosts]:
    yield from hosts_of_this_process(2)


@pytest.fixture
def spec(tmp_path: Path) -> AppSpec:
    text = f"""@app:name('Sums')
        @source(type='test', file='{tmp_path}/in') define stream In (k string, n long);
        @sink(type='test', file='{tmp_path}/out') define stream Out (k string, s long);
        from In#window.length(3) select k, sum(n) as s group by k insert into Out;"""
    (tmp_path / "in").write_text("".join(f"{i * 10}\t{json.dumps(['ab'[i % 2], i])}\n" for i in range(60)))
    state = tmp_path / "state"
    state.mkdir()
    return AppSpec("Sums", text, str(state), outputs=("Out",), connectors="pipeline_testlog")


def rows(spec: AppSpec) -> list[tuple[object, ...]]:
    found = committed(Path(spec.state).parent / "out")
    return [(r["k"], r["s"], r["__number"], r["__ts"]) for r in found]


def expected(count: int) -> list[tuple[object, ...]]:
    held: list[int] = []
    found = []
    for i in range(count):
        held = [*held, i][-3:]
        found.append(("ab"[i % 2], sum(x for x in held if x % 2 == i % 2), i, i * 10))
    return found


def run_cuts(bucket: Bucket, between: Any = None) -> None:
    for n in range(1, 7):
        bucket.write(bucket.process(n, (n - 1) * 10, n * 10))
        if between is not None:
            between(n)


def test_cuts_through_a_host_give_what_the_kernel_gives(ask: Hosts, spec: AppSpec):
    run_cuts(Bucket(ask, spec))
    assert rows(spec) == expected(60)


def test_a_host_killed_between_cuts_is_started_again_and_fed_from_the_state(ask: Hosts, spec: AppSpec):
    run_cuts(Bucket(ask, spec), lambda _n: kill(ask, 0))
    assert rows(spec) == expected(60)


def test_a_host_killed_between_kernel_and_write_fails_the_task_and_its_repetition_succeeds(ask: Hosts, spec: AppSpec):
    bucket = Bucket(ask, spec)
    bucket.write(bucket.process(1, 0, 10))
    told = bucket.process(2, 10, 20, keep=False)
    kill(ask, 0)
    with pytest.raises(NadiError) as caught:
        bucket.write(told)
    assert caught.value.condition == "OUTPUTS_GONE"
    bucket.write(bucket.process(2, 10, 20))
    assert rows(spec) == expected(20)


def test_a_repeated_task_gets_the_same_answer_and_a_zombie_cannot_spoil_the_kernel(ask: Hosts, spec: AppSpec):
    bucket = Bucket(ask, spec)
    first = bucket.process(1, 0, 10, keep=False)
    again = bucket.process(1, 0, 10)
    assert first["token"] == again["token"]
    bucket.write(again)
    before = dict(bucket.state.values)
    bucket.write(bucket.process(2, 10, 20))
    after, bucket.state.values = bucket.state.values, before
    zombie = bucket.process(1, 0, 10, keep=False)  # an old attempt with an old token: it is fed its own old state
    bucket.state.values = after
    bucket.write(bucket.process(3, 20, 30))
    assert zombie["token"] != first["token"]
    assert rows(spec) == expected(30)


def test_another_kernel_than_that_of_the_token_is_never_used(ask: Hosts, spec: AppSpec, tmp_path: Path):
    one = Bucket(ask, spec)
    one.write(one.process(1, 0, 10))
    other = Bucket(ask, spec)  # same query and bucket, no state: another life of it
    assert StoredState(other.state, 0).directory.token == ""
    told = other.process(2, 10, 20)
    assert told["out"] == {"Out": 10}
    other.write(told)
    assert rows(spec)[10:] != expected(20)[10:]
    one.process(2, 10, 20, keep=False)  # fed again from its own state


def test_several_callers_at_once_start_one_host(ask: Hosts, spec: AppSpec):
    kill(ask, 1)
    found = []
    clients = [Hosts(os.getpid(), 2) for _ in range(6)]
    threads = [threading.Thread(target=lambda c=c: found.append(c.call(1, {"op": "ping"}).head["ok"])) for c in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 6
    kill(ask, 1)
    for client in clients:
        close(client)


def test_a_host_goes_when_its_jvm_is_gone(tmp_path: Path):
    pid = os.fork()
    if pid == 0:
        signal.pause()
    ask = Hosts(pid, 1)
    assert ask.call(0, {"op": "ping"}).head["ok"]
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    connection = ask._connect(0) if (hosts_folder(pid) / "0.sock").exists() else None
    if connection is not None:
        connection.settimeout(20)
        with contextlib.suppress(ConnectionResetError):  # or closed before it was accepted
            assert connection.recv(1) == b""  # closed by its end
        connection.close()
    close(ask)


def test_a_host_whose_files_cannot_be_tidied_goes_all_the_same():
    pid = os.fork()
    if pid == 0:
        signal.pause()
    ask = Hosts(pid, 1)
    assert ask.call(0, {"op": "ping"}).head["ok"]
    folder = hosts_folder(pid)
    host = os.pidfd_open(int((folder / "0.alive").read_text()))
    (folder / "0.sock").unlink()
    (folder / "0.sock").mkdir()  # what cannot be unlinked
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    assert select.select([host], [], [], 20)[0] == [host]
    os.close(host)
    close(ask)
    shutil.rmtree(folder)


def test_failures_keep_their_names_on_the_way(ask: Hosts, spec: AppSpec):
    broken = replace(spec, text="define stream In (n int); from Inn select n insert into Out;", state=spec.state + "x")
    with pytest.raises(NadiError) as caught:
        ask.call_app(broken, 0, {"op": "know"})
    assert caught.value.condition == "STREAM_NOT_DEFINED"
    with pytest.raises(NadiError) as caught:
        raise_failure(failure_head(ZeroDivisionError("x")), "process")
    assert caught.value.condition == "HOST_FAILED"


def test_frames_that_are_missing_are_named(ask: Hosts, spec: AppSpec):
    bucket = Bucket(ask, spec)
    bucket.process(1, 0, 10)
    del bucket.state.values[next(key for key in bucket.state.values if key != (-1,))]
    kill(ask, 0)
    with pytest.raises(NadiError) as caught:
        bucket.process(2, 10, 20)
    assert caught.value.condition == "STATE_FRAMES_DAMAGED"


def test_a_fat_row_of_an_unknown_app_makes_the_host_ask_for_it(ask: Hosts, spec: AppSpec):
    assert ask.call(0, {"op": "process", "app": "unknown", "heads": [pack({})]}).head == {"need": "app"}


def test_folders_of_processes_that_are_gone_are_swept_away_and_others_stay():
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    gone, alive = hosts_folder(pid), hosts_folder(os.getppid())
    (gone / "0.log").touch()
    (alive / "0.log").touch()
    sweep()
    assert (gone.exists(), alive.exists()) == (False, True)
    (alive / "0.log").unlink()
    alive.rmdir()


def test_a_host_forgets_an_app_that_has_ended_and_a_task_that_comes_late_defines_it_again(ask: Hosts, spec: AppSpec):
    bucket = Bucket(ask, spec)
    bucket.write(bucket.process(1, 0, 10))
    before = ask.call(0, {"op": "ping"}).head["apps"]
    ask.forget(spec.id)
    assert ask.call(0, {"op": "ping"}).head["apps"] == before - 1
    bucket.write(bucket.process(2, 10, 20))
    assert rows(spec) == expected(20)


def test_forgetting_starts_no_host(spec: AppSpec):
    alone = Hosts(os.getppid(), 2)
    alone.forget(spec.id)
    assert alone._started == []
    hosts_folder(os.getppid()).rmdir()


def test_kernels_and_fed_frames_that_nobody_asks_for_are_let_go_and_come_back_from_the_state(
    spec: AppSpec, tmp_path: Path
):
    within = Within(tmp_path)
    bucket = Bucket(within, spec)
    bucket.write(bucket.process(1, 0, 10))
    kernels = within.apps._apps[spec.id].kernels
    lost = {"bucket": 0, "feeding": "of a task that died"}
    assert kernels.feed({**lost, "first": True}, [b"x"]).head == {"ok": True}
    assert kernels.let_go_idle(time.monotonic() + IDLE_FEEDING + 1) == 0
    assert kernels.feed({**lost, "first": False}, [b"y"]).head == {"need": "state"}
    assert kernels.let_go_idle(time.monotonic() + IDLE + 1) == 1
    told = bucket.process(2, 10, 20)
    assert told["loading"] > 0
    bucket.write(told)
    assert rows(spec) == expected(20)


def test_a_kernel_of_a_checkpoint_that_is_gone_is_let_go_when_another_takes_its_place(spec: AppSpec, tmp_path: Path):
    within = Within(tmp_path)
    for query in ("old", "new"):
        bucket = Bucket(within, spec, query)
        bucket.process(1, 0, 10)
    assert list(within.apps._apps[spec.id].kernels._held) == [("new", 0)]


def test_an_answer_tells_how_much_memory_its_host_holds(spec: AppSpec, tmp_path: Path):
    told = Bucket(Within(tmp_path), spec).process(1, 0, 10)
    ours = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    assert 0.5 * ours < told["memory"] <= 1.5 * ours


def test_apps_of_one_bucket_live_in_different_hosts_and_their_write_finds_them(ask: Hosts, spec: AppSpec):
    other = replace(spec, app="Other", state=f"{spec.state}-other")
    Path(other.state).mkdir()

    def known() -> list[int]:
        return [ask.call(index, {"op": "ping"}).head["apps"] for index in (0, 1)]

    before, steps = known(), []
    for one in spread([spec, other]):
        bucket = Bucket(ask, one)
        bucket.write(bucket.process(1, 0, 10))
        steps.append(tuple(now - then for now, then in zip(known(), before, strict=True)))
        ask.forget(one.id)
    assert steps == [(1, 0), (0, 1)]
