"""Objects in two folders, and app texts: what was put is at both nodes, and a copy becomes equal whatever fails."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import msgspec
import pytest
from eventsync.pair_recording import Recorder, recorder_in
from hypothesis import given, settings
from hypothesis import strategies as st

from nadi.errors import NadiError
from nadi.eventsync.appscopy import AppsCopy
from nadi.eventsync.contract import Copy, Surplus
from nadi.eventsync.objectscopy import ObjectsCopy
from nadi.pipeline.statelog.copied import remove_objects
from nadi.pipeline.statelog.store import ObjectStore
from nadi.pipeline.statelog.stores import open_store
from nadi.replica.contract import AppFile, ObjectPut, ObjectsGone


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    return recorder_in(monkeypatch)


def store_of(folder: Path, recorder: Recorder) -> ObjectStore:
    return open_store(f"file://{folder}/A/log?replica={recorder.socket}")


def files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def none(found: Sequence[Surplus]) -> None:
    """Nothing is lost with an object that only one node has: the logs tell of its cut."""
    assert not found


def caught_up(active: Copy, passive: Copy) -> None:
    async def run() -> None:
        await passive.restore(active.missing(await passive.standing()), none)

    asyncio.run(run())


def test_an_object_is_whole_here_before_the_partner_is_asked_for_it(tmp_path: Path, recorder: Recorder):
    seen: list[dict[str, bytes]] = []
    recorder.before = lambda _record: seen.append(files(tmp_path))
    store_of(tmp_path, recorder).put("d-1", [b"ab", b"c"])
    assert seen == [{"A/log/d-1": b"abc"}]
    assert recorder.done() == [ObjectPut("A/log/d-1", 3)]


def test_an_object_that_the_partner_does_not_have_is_none(tmp_path: Path, recorder: Recorder):
    recorder.fails = lambda _record: True
    store = store_of(tmp_path, recorder)
    with pytest.raises(NadiError, match="the test says so"):
        store.put("d-1", [b"abc"])
    assert store.list() == []
    recorder.fails = lambda _record: False
    store.put("d-1", [b"abc"])
    assert store.get("d-1", 0, 9) == b"abc"


def test_removals_go_along_and_a_partner_that_is_away_gets_them_later(tmp_path: Path, recorder: Recorder):
    store = store_of(tmp_path, recorder)
    for name in ("a-1", "a-2", "a-3"):
        store.put(name, [b"x"])
    refused, gone = threading.Event(), threading.Event()

    def refuse(_record: object) -> bool:
        refused.set()
        return True

    recorder.fails = refuse
    store.delete(["a-1"])
    assert refused.wait(60)
    recorder.fails = lambda _record: False
    recorder.told = lambda _ticket: gone.set()
    store.delete(["a-2"])
    assert gone.wait(60)
    assert recorder.done()[-1] == ObjectsGone(["A/log/a-1", "A/log/a-2"])
    assert store.list() == ["a-3"]


def test_a_file_that_was_received_and_is_dropped_all_the_same_closes_nothing_that_has_been_opened_since(tmp_path: Path):
    received = ObjectsCopy(tmp_path / "1").receive("A/log/d-1", 3)
    received.write(b"abc")
    received.done()
    opened = [os.open(tmp_path, os.O_RDONLY) for _ in range(20)]
    received.drop()
    for descriptor in opened:
        os.close(descriptor)  # fails where it has been closed
    assert files(tmp_path / "1") == {"A/log/d-1": b"abc"}


def test_many_removals_go_in_several_records(
    tmp_path: Path, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nadi.pipeline.statelog.copied.AT_ONCE", 3)
    store = store_of(tmp_path, recorder)
    names = [f"a-{n}" for n in range(7)]
    for name in names:
        store.put(name, [b"x"])
    gone = threading.Event()
    recorder.told = lambda ticket: gone.set() if recorder.records[ticket] == ObjectsGone(["A/log/a-6"]) else None
    store.delete(names)
    assert gone.wait(60)
    assert [len(r.paths) for r in recorder.done() if isinstance(r, ObjectsGone)] == [3, 3, 1]


def test_files_for_a_copy_are_not_read_in_the_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that is slow, or hangs, must not keep the node from saying that it is there."""
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "d-1").write_bytes(b"abc")
    read, readers = ObjectsCopy._pieces, []

    def noted(copy: ObjectsCopy, path: str) -> Iterator[bytes]:
        readers.append(threading.current_thread())
        yield from read(copy, path)

    monkeypatch.setattr(ObjectsCopy, "_pieces", noted)
    passive = ObjectsCopy(tmp_path / "2")
    caught_up(ObjectsCopy(tmp_path / "1"), passive)
    assert files(tmp_path / "2") == {"d-1": b"abc"}
    assert threading.main_thread() not in readers


def test_the_folder_of_an_app_goes_at_both_nodes(tmp_path: Path, recorder: Recorder):
    store_of(tmp_path / "1", recorder).put("d-1", [b"abc"])
    passive = ObjectsCopy(tmp_path / "2")
    caught_up(ObjectsCopy(tmp_path / "1"), passive)
    remove_objects(tmp_path / "1" / "A", recorder.socket)
    asyncio.run(passive.apply(recorder.done()[-1]))
    assert files(tmp_path / "1") == files(tmp_path / "2") == {}


DYING = """
import os, signal, sys
from pathlib import Path
import msgspec
from nadi.pipeline.statelog.stores import open_store
from nadi.replica import client

class Dying:
    def prepare(self, record):
        Path(sys.argv[2]).write_bytes(msgspec.msgpack.encode(record))
        if sys.argv[3] == "prepared":
            os.kill(os.getpid(), signal.SIGKILL)
        return 0
    def confirm(self, ticket):
        os.kill(os.getpid(), signal.SIGKILL)

dying = Dying()
client.blocking_replica = lambda _socket: dying
open_store(sys.argv[1]).put("d-1", [b"abc"])
"""


@pytest.mark.parametrize("at", ["prepared", "confirmed"])
def test_an_object_of_a_writer_that_was_killed_is_there(tmp_path: Path, at: str):
    told = tmp_path / "record"
    url = f"file://{tmp_path}/state/A/log?replica=/the/socket"
    died = subprocess.run([sys.executable, "-c", DYING, url, str(told), at], check=False)
    assert died.returncode == -signal.SIGKILL
    record = msgspec.msgpack.decode(told.read_bytes(), type=ObjectPut)
    assert asyncio.run(ObjectsCopy(tmp_path / "state").holds(record))
    assert not asyncio.run(ObjectsCopy(tmp_path / "state").holds(ObjectPut(record.path, 4)))


@pytest.mark.parametrize("path", ["../x", "/x", "a/../../x", "", "a/\0"])
def test_a_path_that_leaves_the_folder_is_refused(tmp_path: Path, path: str):
    with pytest.raises(NadiError) as caught:
        ObjectsCopy(tmp_path / "state").receive(path, 1)
    assert caught.value.condition == "COPY_DIFFERS"


def test_a_file_that_comes_short_does_not_get_its_name(tmp_path: Path):
    copy = ObjectsCopy(tmp_path)
    made = copy.receive("A/log/d-1", 3)
    made.write(b"ab")
    with pytest.raises(NadiError):
        made.done()
    made.drop()
    assert files(tmp_path) == {}


def test_what_comes_while_a_copy_catches_up_stays(tmp_path: Path):
    active, passive = ObjectsCopy(tmp_path / "1"), ObjectsCopy(tmp_path / "2")
    _put(active, "A/log/d-1", b"one")
    _put(passive, "A/log/left", b"left")

    async def run() -> None:
        standing = await passive.standing()
        _put(passive, "A/log/d-2", b"two")  # on its own connection, before the active node looks

        async def pieces() -> AsyncIterator[bytes]:
            async for piece in active.missing(standing):
                yield piece

        await passive.restore(pieces(), none)

    asyncio.run(run())
    assert files(tmp_path / "2") == {"A/log/d-1": b"one", "A/log/d-2": b"two"}


def _put(copy: ObjectsCopy, path: str, data: bytes) -> None:
    made = copy.receive(path, len(data))
    made.write(data)
    made.done()


NAMES = st.sampled_from(["a-1", "a-2", "b-1", "b-2"])


@given(steps=st.lists(st.tuples(st.sampled_from(["put", "fail", "delete", "apply", "catch"]), NAMES), max_size=20))
@settings(max_examples=60)
def test_active_and_copy_are_equal_after_any_puts_failures_and_catch_ups(
    steps: list[tuple[str, str]], tmp_path_factory: pytest.TempPathFactory
):
    folder, patch = tmp_path_factory.mktemp("pair"), pytest.MonkeyPatch()
    recorder = recorder_in(patch)
    active, passive = ObjectsCopy(folder / "1"), ObjectsCopy(folder / "2")
    store, used = store_of(folder / "1", recorder), set()
    for at, (step, name) in enumerate(steps):
        recorder.fails = lambda _record, step=step: step == "fail"
        if step in ("put", "fail"):
            try:
                store.put(f"{name}-{at}", [name.encode() * at])
                used.add(f"{name}-{at}")
            except NadiError:
                continue
            if at % 2:  # else the partner is away
                _put(passive, f"A/log/{name}-{at}", name.encode() * at)
        elif step == "delete":
            store.delete(used)
            used = set()
        elif step == "catch":
            caught_up(active, passive)
    caught_up(active, passive)
    patch.undo()
    assert files(folder / "1") == files(folder / "2")


class Texts:
    """Implements `AppTexts` in memory."""

    def __init__(self) -> None:
        self.kept: dict[str, str] = {}

    def names(self) -> list[str]:
        return list(self.kept)

    def read(self, name: str) -> str | None:
        return self.kept.get(name)

    def write(self, name: str, text: str) -> None:
        self.kept[name] = text

    def remove(self, name: str) -> None:
        self.kept.pop(name, None)


def test_app_texts_are_copied_and_those_of_the_active_node_count():
    mine, theirs = Texts(), Texts()
    active, passive = AppsCopy(mine), AppsCopy(theirs)
    mine.kept, theirs.kept = {"A": "a", "B": "b2", "C": "c"}, {"A": "a", "B": "b1", "D": "d"}
    caught_up(active, passive)
    assert theirs.kept == mine.kept
    for record in (AppFile("A", None), AppFile("E", "e"), AppFile("F", None)):
        asyncio.run(passive.apply(record))
        assert asyncio.run(passive.holds(record))
    assert theirs.kept == {"B": "b2", "C": "c", "E": "e"}
    assert not asyncio.run(passive.holds(AppFile("E", "other")))
