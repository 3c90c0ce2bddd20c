"""A revision that is written and comes to grief at any step: the disk is full there, or the writer is killed. The last good one is used, nothing is lost."""

from __future__ import annotations

import errno
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from nadi.errors import NadiError
from nadi.io.remoteobjects import RemoteObjects
from nadi.persistence.contract import Store
from nadi.persistence.database import DatabaseStore
from nadi.persistence.files import FileStore
from nadi.persistence.remote import RemoteRevisions
from nadi.persistence.revisions import newest_good, read_revision, write_revision
from tests.persistence.conftest import KINDS, Place
from tests.persistence.test_persistence_stores import STATE, meta, parts, segment

CHANGED = [[segment("q/window", 0, "a", seed=1), *STATE[0][1:]], STATE[1]]
THIRD = [STATE[0], [segment("q/window", 100, "z", seed=2)]]
BY_NUMBER = {1: STATE, 2: CHANGED, 3: THIRD}
STEPS = ("open", "write", "fsync", "replace", "mkdir", "unlink")


class Steps:
    """Calls `act` before the step `at` of what is done on the disk."""

    def __init__(self, patch: pytest.MonkeyPatch, at: int, act: Callable[[str], None]) -> None:
        self.count, self._at, self._act = 0, at, act
        for name in STEPS:
            patch.setattr(os, name, self._stepping(name, getattr(os, name)))

    def _stepping(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def step(*given: Any, **more: Any) -> Any:
            if name != "open" or given[1] & os.O_CREAT:
                self.count += 1
                if self.count == self._at:
                    self._act(name)
            return real(*given, **more)

        return step


class Requests:
    """Calls `act` before the request `at` that changes something in what `pyarrow.fs` reaches."""

    def __init__(self, patch: pytest.MonkeyPatch, at: int, act: Callable[[], None]) -> None:
        self.count, self._at, self._act = 0, at, act
        for name in ("put", "delete", "move"):
            patch.setattr(RemoteObjects, name, self._stepping(getattr(RemoteObjects, name)))

    def _stepping(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def step(*given: Any) -> Any:
            if not given[1].endswith(".beat"):
                self.count += 1
                if self.count == self._at:
                    self._act()
            return real(*given)

        return step


def newest(store: Store, app: str) -> int:
    """The number of the newest revision, which is whole and holds what it should."""
    found, problems = newest_good(store, app)
    assert found is not None
    assert problems == []
    number = int(found.revision.meta.cut["n"])
    assert parts(store, found.revision.name, app) == BY_NUMBER[number]
    return number


def goes_on(store: Store, app: str) -> None:
    """The next revision is written, is whole, and leaves nothing behind that no revision needs."""
    name = write_revision(store, meta(app, n=3), THIRD, 3, keep=1)
    assert newest(store, app) == 3
    assert store.names(app) == [name]
    assert blobs(store, app) == read_revision(store, app, name).revision.addresses


def blobs(store: Store, app: str) -> set[str]:
    if isinstance(store, FileStore | RemoteRevisions):
        if isinstance(store, FileStore):
            found = {path.name for path in (store._folder(app) / "segments").iterdir()}
        else:
            found = set(store.objects.names(f"{store.folder(app)}/segments"))
            assert store.objects.names(f"{store.folder(app)}/turns") == []
        assert all(name.endswith(".zst") for name in found)
        return {name.removesuffix(".zst") for name in found}
    assert isinstance(store, DatabaseStore)
    rows = store.tables.segments.c
    with store._engine.connect() as connection:
        return set(connection.execute(sa.select(rows.address).where(rows.app == app)).scalars())


def test_a_disk_that_is_full_at_any_step_has_a_name_and_costs_no_revision(tmp_path: Path) -> None:
    def full(name: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    met = []
    for at in itertools.count(1):
        app = f"Full {at}"
        store = FileStore(tmp_path)
        write_revision(store, meta(app, n=1), STATE, 1)
        with pytest.MonkeyPatch.context() as patch:
            steps = Steps(patch, at, full)
            try:
                write_revision(store, meta(app, n=2), CHANGED, 2, keep=1)
            except NadiError as problem:
                met.append(problem.condition)
        assert newest(store, app) in (1, 2)
        goes_on(store, app)
        if steps.count < at:
            break
        assert len(met) == at, f"the disk was full at step {at}, and nobody heard of it"
    assert set(met) == {"DISK_FULL"}
    assert len(met) > 10


KILLED = """
import os, signal, sys, traceback
from itertools import count
import pytest
import sqlalchemy as sa
from nadi.persistence.database import DatabaseStore
from nadi.persistence.remote import RemoteRevisions
from nadi.persistence.revisions import write_revision
from tests.persistence.conftest import reopened
from tests.persistence.test_persistence_steps import CHANGED, Requests, Steps, goes_on, newest
from tests.persistence.test_persistence_stores import STATE, meta

def opened():
    return reopened(sys.argv[1:])

def die(_name=""):
    os.kill(os.getpid(), signal.SIGKILL)

def counted(engine, at):
    '''Die before the statement, or the commit, of this number.'''
    seen = count(1)
    def step(*_given):
        if next(seen) == at:
            die()
    sa.event.listen(engine, "before_cursor_execute", step)
    sa.event.listen(engine, "commit", step)

def write(at):
    store, app = opened(), f"Killed {at}"
    write_revision(store, meta(app, n=1), STATE, 1)
    if isinstance(store, DatabaseStore):
        counted(store._engine, at)
    elif isinstance(store, RemoteRevisions):
        Requests(pytest.MonkeyPatch(), at, die)
    else:
        Steps(pytest.MonkeyPatch(), at, die)
    write_revision(store, meta(app, n=2), CHANGED, 2, keep=1)

def check(at):
    store, app = opened(), f"Killed {at}"
    number = newest(store, app)
    goes_on(store, app)
    print(at, number, flush=True)

def child(what, at):
    pid = os.fork()
    if not pid:
        try:
            what(at)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

for at in count(1):
    ended = child(write, at)
    assert ended in (0, -signal.SIGKILL), ended
    assert child(check, at) == 0, at
    if ended == 0:
        break
"""


@pytest.mark.parametrize(
    "place", [kind if kind != "s3" else pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS], indirect=True
)
def test_a_writer_that_is_killed_at_any_step_leaves_a_whole_revision(place: Place) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, *place.where], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    numbers = [int(line.split()[1]) for line in done.stdout.splitlines()]
    assert len(numbers) > 5
    assert numbers == sorted(numbers), "once it is there, it stays"
    assert set(numbers) == {1, 2}


def test_the_revision_that_is_used_when_the_clock_was_set_back_is_the_one_that_was_written_last(place: Place) -> None:
    store, app, now = place.open(), "Clock", 1_700_000_000_000
    write_revision(store, meta(app, n=1), STATE, now, keep=2)
    write_revision(store, meta(app, n=2), CHANGED, now - 3_600_000, keep=2)
    assert newest(store, app) == 2
    write_revision(store, meta(app, n=3), THIRD, now - 3_500_000, keep=2)
    assert newest(store, app) == 3
    assert [json.loads(n.split("__")[0]) for n in store.names(app)] == [now + 1, now + 2]
