"""Bases for a store whose client does not survive a fork: the child writes beside the host, the host puts it into the store."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from pipeline_statelog import TinyKernel, loaded
from pyarrow import fs

from nadi.errors import error
from nadi.pipeline.executor import bases
from nadi.pipeline.executor.bases import BaseWork
from nadi.pipeline.statelog.chunks import Place
from nadi.pipeline.statelog.lines import Base, line_of
from nadi.pipeline.statelog.remote import RemoteStore


def eventually(holds: Callable[[], object]) -> None:
    """Return as soon as something holds."""
    end = time.monotonic() + 100
    while not holds():
        assert time.monotonic() < end, "still not so"
        time.sleep(0.005)


class Watched(RemoteStore):
    """Notes which processes put something; does what it is told before."""

    def __init__(self, folder: Path) -> None:
        super().__init__(fs.LocalFileSystem(), str(folder))
        self.putting: list[int] = []
        self.before: Callable[[], object] = lambda: None

    def put(self, name: str, pieces: Iterable[bytes]) -> None:
        self.putting.append(os.getpid())
        self.before()
        super().put(name, pieces)


@pytest.fixture
def store(tmp_path: Path) -> Watched:
    return Watched(tmp_path / "log")


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    made = tmp_path / "hosts"
    made.mkdir()
    return made


def kernel_of(count: int) -> TinyKernel:
    made = TinyKernel()
    for n in range(count):
        made.put(f"key{n}", n)
    return made


def begun(kernel: TinyKernel, store: Watched, scratch: Path) -> BaseWork:
    work = BaseWork.begin(kernel, store, scratch, Place(1, 5, 0), lambda: None)  # type: ignore[arg-type]  # as much of a kernel as is needed
    assert work is not None
    return work


def test_a_base_is_put_by_the_host_and_is_the_state_of_the_fork(store: Watched, scratch: Path):
    kernel = kernel_of(200)
    work, found = begun(kernel, store, scratch), list[Base]()
    kernel.put("key0", 77)  # the child does not see it

    def whole() -> bool:
        found.extend(filter(None, [work.look()]))
        return bool(found)

    eventually(whole)
    assert store.putting == [os.getpid()]
    assert loaded(store, line_of(found[0]), 0) == {f"key{n}": n for n in range(200)}
    assert work.look() is None  # told once
    eventually(lambda: [*scratch.iterdir()] == [scratch / "snapshot.lock"])


def test_a_base_that_cannot_be_put_counts_for_nothing(store: Watched, scratch: Path):
    def fail() -> None:
        raise error("STATE_LOG_FAILED", store="s", reason="it is away")

    store.before = fail
    work = begun(kernel_of(3), store, scratch)
    eventually(lambda: work.look() is None and work.failed)
    work.close()
    assert store.list() == []
    eventually(lambda: [*scratch.iterdir()] == [scratch / "snapshot.lock"])


def test_an_upload_that_nobody_wants_any_more_is_given_up(
    store: Watched, scratch: Path, monkeypatch: pytest.MonkeyPatch
):
    work, given_up = begun(kernel_of(3), store, scratch), threading.Event()
    store.before = lambda: given_up.wait(100)
    eventually(lambda: work.look() is None and bool(store.putting))
    work.close()
    given_up.set()
    eventually(lambda: [*scratch.iterdir()] == [scratch / "snapshot.lock"])
    assert store.list() == []


@pytest.fixture(params=["nobody has", "nobody has waited for"])
def gone(request: pytest.FixtureRequest) -> Iterator[int]:
    """The number of a process that is no more."""
    if request.param == "nobody has":
        yield 1 << 22
        return
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        yield process.pid


def test_what_a_killed_host_has_left_is_swept(scratch: Path, gone: int):
    (scratch / f"upload-{gone}-0").mkdir()
    (scratch / f"upload-{gone}-0" / "b-1").write_bytes(b"x")
    (scratch / f"base-{gone}-0").write_bytes(b"x")
    bases.sweep(scratch, os.getpid())
    assert [*scratch.iterdir()] == []
