"""Host processes, and kernels of queries over DataFrames in them, without Spark: this process plays the JVM, a dict the state store."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from descriptors import is_readable
from pipeline_bucket import Bucket, Within, close, hosts_of_this_process, kill

from nadi.errors import NadiError
from nadi.pipeline.executor.kernels import IDLE, IDLE_FEEDING
from nadi.pipeline.executor.statefeed import Feeding
from nadi.pipeline.hosting.hostclient import Hosts, hosts_folder, sweep
from nadi.pipeline.hosting.protocol import failure_head, raise_failure
from nadi.pipeline.node import spread
from nadi.pipeline.spec import AppSpec


@pytest.fixture(scope="module")
def ask() -> Iterator[Hosts]:
    yield from hosts_of_this_process(2)


EVENTS = [("ab"[i % 2], i) for i in range(60)]


@pytest.fixture
def spec() -> AppSpec:
    text = """@app:name('Sums') define stream In (k string, n long); define stream Out (k string, s long);
        from In#window.length(3) select k, sum(n) as s group by k insert into Out;"""
    return AppSpec("Sums", text, "", outputs=("Out",), hosts=2)


def expected(count: int, begin: int = 0) -> list[tuple[str, int, int]]:
    held: list[int] = []
    found = []
    for i in range(begin, count):
        held = [*held, i][-3:]
        found.append(("ab"[i % 2], sum(x for x in held if x % 2 == i % 2), i * 10))
    return found


def run_batches(bucket: Bucket, between: Callable[[], None] = lambda: None) -> None:
    for n in range(6):
        bucket.process(n * 10, n * 10 + 10)
        between()


def test_batches_through_a_host_give_what_the_kernel_gives(ask: Hosts, spec: AppSpec):
    bucket = Bucket(ask, spec, EVENTS)
    run_batches(bucket)
    assert bucket.found == expected(60)


def test_a_host_killed_between_batches_is_started_again_and_fed_from_the_state(ask: Hosts, spec: AppSpec):
    bucket = Bucket(ask, spec, EVENTS)
    run_batches(bucket, lambda: kill(ask, 0))
    assert bucket.found == expected(60)


@pytest.mark.parametrize("killed", [False, True])
def test_a_batch_whose_task_came_to_nothing_gives_the_same_again(ask: Hosts, spec: AppSpec, killed: bool):
    bucket = Bucket(ask, spec, EVENTS)
    for n in range(3):
        before = bucket.now()
        bucket.process(n * 10, n * 10 + 10)
        bucket.lose(before)
        if killed:
            kill(ask, 0)
        bucket.process(n * 10, n * 10 + 10)
    assert bucket.found == expected(30)


def test_a_zombie_cannot_spoil_the_kernel(ask: Hosts, spec: AppSpec):
    bucket = Bucket(ask, spec, EVENTS)
    bucket.process(0, 10)
    before = bucket.now()
    bucket.process(10, 20)
    after = bucket.now()
    bucket.lose(before)
    bucket.process(10, 20)  # an old attempt with an old token: it is fed its own old state
    bucket.lose(after)
    bucket.process(20, 30)
    assert bucket.found == expected(30)


def test_another_kernel_than_that_of_the_token_is_never_used(ask: Hosts, spec: AppSpec):
    one = Bucket(ask, spec, EVENTS)
    one.process(0, 10)
    other = Bucket(ask, spec, EVENTS)  # same query and bucket, no state: another life of it
    other.process(10, 20)
    assert other.found == expected(20, 10)
    one.process(10, 20)  # fed again from its own state
    assert one.found == expected(20)


def test_queries_of_one_app_have_kernels_of_their_own(spec: AppSpec, tmp_path: Path):
    within = Within(tmp_path)
    one, other = Bucket(within, spec, EVENTS, "one"), Bucket(within, spec, EVENTS, "other")
    one.process(0, 10)
    other.process(10, 20)
    one.process(10, 20)
    assert (one.found, other.found) == (expected(20), expected(20, 10))
    assert len(within.apps._apps) == 1


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


def test_a_host_goes_when_its_jvm_is_gone():
    pid = os.fork()
    if pid == 0:
        signal.pause()
    ask = Hosts(pid, 1)
    assert ask.call(0, {"op": "ping"}).head["ok"]
    host = os.pidfd_open(int((hosts_folder(pid) / "0.alive").read_text()))
    with ask._connect(0) as connection:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        connection.settimeout(20)
        with contextlib.suppress(ConnectionResetError):  # or closed before it was accepted
            assert connection.recv(1) == b""  # closed by its end
    assert is_readable(host, 20)
    os.close(host)
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
    assert is_readable(host, 20)
    os.close(host)
    close(ask)
    shutil.rmtree(folder)


def test_failures_keep_their_names_on_the_way(ask: Hosts, spec: AppSpec):
    broken = replace(spec, text="define stream In (n int); from Inn select n insert into Out;")
    with pytest.raises(NadiError) as caught:
        ask.call_app(broken, 0, {"op": "find"})
    assert caught.value.condition == "STREAM_NOT_DEFINED"
    with pytest.raises(NadiError) as caught:
        raise_failure(failure_head(ZeroDivisionError("x")), "process")
    assert caught.value.condition == "HOST_FAILED"


def test_what_a_kind_of_app_has_no_operation_for_is_refused(ask: Hosts, spec: AppSpec, tmp_path: Path):
    for app, operation in ((spec, "find"), (replace(spec, state=str(tmp_path)), "process"), (spec, "dance")):
        with pytest.raises(NadiError, match=operation) as caught:
            ask.call_app(app, 0, {"op": operation})
        assert caught.value.condition == "HOST_FAILED"


def test_frames_that_are_missing_are_named(ask: Hosts, spec: AppSpec):
    bucket = Bucket(ask, spec, EVENTS)
    bucket.process(0, 10)
    del bucket.state.values[next(key for key in bucket.state.values if key != (-1,))]
    kill(ask, 0)
    with pytest.raises(NadiError) as caught:
        bucket.process(10, 20)
    assert caught.value.condition == "STATE_FRAMES_DAMAGED"


def test_a_batch_of_an_unknown_app_makes_the_host_ask_for_it(ask: Hosts, spec: AppSpec):
    assert ask.call(0, {"op": "process", "app": "unknown"}).head == {"need": "app"}


@pytest.fixture
def process() -> Iterator[int]:
    """One of this test alone: tests that run at the same time share their parent."""
    with subprocess.Popen(["sleep", "600"]) as made:
        yield made.pid
        made.kill()


def test_folders_of_processes_that_are_gone_are_swept_away_and_others_stay(process: int):
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    gone, alive = hosts_folder(pid), hosts_folder(process)
    (gone / "0.log").touch()
    (alive / "0.log").touch()
    sweep()
    assert (gone.exists(), alive.exists()) == (False, True)
    (alive / "0.log").unlink()
    alive.rmdir()


def test_a_host_forgets_an_app_that_has_ended_and_a_task_that_comes_late_defines_it_again(ask: Hosts, spec: AppSpec):
    bucket = Bucket(ask, spec, EVENTS)
    bucket.process(0, 10)
    before = ask.call(0, {"op": "ping"}).head["apps"]
    ask.forget(spec.id)
    assert ask.call(0, {"op": "ping"}).head["apps"] == before - 1
    bucket.process(10, 20)
    assert bucket.found == expected(20)


def test_forgetting_starts_no_host(spec: AppSpec, process: int):
    alone = Hosts(process, 2)
    alone.forget(spec.id)
    assert alone._started == []
    hosts_folder(process).rmdir()


def test_kernels_and_fed_frames_that_nobody_asks_for_are_let_go_and_come_back_from_the_state(
    spec: AppSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    within = Within(tmp_path)
    bucket = Bucket(within, spec, EVENTS)
    bucket.process(0, 10)
    kernels = within.apps.define(spec)
    lost = {"op": "feed", "bucket": 0, "feeding": "of a task that died"}
    assert kernels.answer({**lost, "first": True}, [b"x"]).head == {"ok": True}
    assert kernels.let_go_idle(time.monotonic() + IDLE_FEEDING + 1) == 0
    assert kernels.answer({**lost, "first": False}, [b"y"]).head == {"need": "state"}
    fed: list[int] = []
    finish = Feeding.finish
    monkeypatch.setattr(Feeding, "finish", lambda feeding, frames: (fed.append(frames), finish(feeding, frames))[1])
    bucket.process(10, 20)
    assert fed == []
    assert kernels.let_go_idle(time.monotonic() + IDLE + 1) == 1
    bucket.process(20, 30)
    assert len(fed) == 1
    assert bucket.found == expected(30)


def test_apps_of_one_bucket_live_in_different_hosts_and_who_asks_for_one_finds_it(
    ask: Hosts, spec: AppSpec, tmp_path: Path
):
    apps = [replace(spec, app=name, state=str(tmp_path / name)) for name in ("One", "Other")]

    def known() -> list[int]:
        return [ask.call(index, {"op": "ping"}).head["apps"] for index in (0, 1)]

    before, steps = known(), []
    for one in spread(apps):
        ask.call_app(one, 0, {"op": "find", "bucket": 0, "text": "from T select k"})
        steps.append(tuple(now - then for now, then in zip(known(), before, strict=True)))
        ask.forget(one.id)
    assert steps == [(1, 0), (0, 1)]
