"""What a state log asks of a store, kept by a folder and by what `pyarrow.fs` reaches."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pipeline_statelog import Disk
from pyarrow import fs
from servers.sparkcluster import SECRET, object_store

from nadi.errors import NadiError
from nadi.io import durablefiles, remoteobjects
from nadi.io.remotefiles import inside
from nadi.io.sinks.notes import NoteFolder
from nadi.pipeline.statelog import folder
from nadi.pipeline.statelog.folder import FolderStore
from nadi.pipeline.statelog.remote import RemoteStore
from nadi.pipeline.statelog.store import ObjectStore
from nadi.pipeline.statelog.stores import open_store


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a folder in an S3-compatible server."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in SECRET.items():
            patch.setenv(name, value)
        with object_store(tmp_path_factory.mktemp("s3"), delay=0.0) as url:
            yield url


@pytest.fixture(params=["folder", "local", "subtree", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    if request.param == "s3":
        return open_store(inside(request.getfixturevalue("s3"), tmp_path.name))
    if request.param == "folder":
        return FolderStore(tmp_path / "a" / "log")
    if request.param == "local":
        return RemoteStore(fs.LocalFileSystem(), f"{tmp_path}/a/log")
    return RemoteStore(fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem()), "a/log")


def test_an_object_is_read_again_whole_and_in_parts(store: ObjectStore):
    store.put("b-1", [b"one", b"", b"two"])
    assert [store.get("b-1", *part) for part in ((0, 6), (2, 2), (4, 9), (9, 2))] == [b"onetwo", b"et", b"wo", b""]


def test_an_object_larger_than_a_step_is_whole(store: ObjectStore, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(folder, "STEP", 10)
    monkeypatch.setattr(remoteobjects, "BUFFER", 10)
    pieces = [bytes([n]) * (n % 23) for n in range(100)]
    store.put("large", pieces)
    assert store.get("large", 0, 10_000) == b"".join(pieces)


def test_names_are_listed_in_order_by_their_beginning(store: ObjectStore):
    assert store.list() == []
    for name in ("d-2", "b-1", "d-1"):
        store.put(name, [b"x"])
    assert (store.list(), store.list("d-"), store.list("x")) == (["b-1", "d-1", "d-2"], ["d-1", "d-2"], [])


def test_a_name_is_used_once(store: ObjectStore):
    store.put("d-1", [b"first"])
    with pytest.raises(FileExistsError):
        store.put("d-1", [b"second"])
    assert store.get("d-1", 0, 9) == b"first"


def test_what_is_deleted_is_gone_and_may_be_gone_already(store: ObjectStore):
    store.put("d-1", [b"x"])
    store.put("d-2", [b"x"])
    store.delete(["d-1", "never", "d-1"])
    assert store.list() == ["d-2"]
    with pytest.raises(FileNotFoundError):
        store.get("d-1", 0, 1)


def test_an_object_whose_pieces_end_in_an_error_is_not_there(store: ObjectStore, tmp_path: Path):
    def pieces() -> Iterator[bytes]:
        yield b"some"
        raise RuntimeError("the kernel failed")

    with pytest.raises(RuntimeError):
        store.put("b-1", pieces())
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_store_is_found_by_its_path_or_url(tmp_path: Path):
    for place in (tmp_path / "log", str(tmp_path / "log"), f"file://{tmp_path}/log"):
        found = open_store(place)
        assert isinstance(found, FolderStore)
        assert found.name == str(tmp_path / "log")
    assert not (tmp_path / "log").exists()


def test_a_url_that_nobody_knows_is_refused_without_its_password():
    with pytest.raises(NadiError) as caught:
        open_store("gopher://user:secret@host/log?key=secret")
    assert caught.value.condition == "INVALID_SETTING"
    assert "gopher://host/log" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_parameter_that_s3_does_not_know_is_named_without_the_values_of_others():
    with pytest.raises(NadiError, match="colour") as caught:
        open_store("s3://key:sesame@bucket/log?region=sesame&colour=red")
    assert "sesame" not in str(caught.value)


def test_a_store_that_is_away_is_named_without_its_password(monkeypatch: pytest.MonkeyPatch):
    for name, value in SECRET.items():
        monkeypatch.setenv(name, value)
    away = open_store("s3://bucket/log?endpoint_override=127.0.0.1:1&scheme=http&region=us-east-1")
    with pytest.raises(NadiError) as caught:
        away.list()
    assert caught.value.condition == "STATE_LOG_FAILED"
    assert SECRET["AWS_SECRET_ACCESS_KEY"] not in str(caught.value)


def test_a_note_is_replaced_as_a_whole_and_none_is_no_error(s3: str):
    note = NoteFolder(inside(s3, "sinks"), "1") / "run.json"
    assert note.read() is None
    for value in ({"cut": 3}, [1, 2]):
        note.replace(value)
        assert note.read() == value


# ---- folders


def test_a_folder_syncs_an_object_before_its_name_and_the_name_before_it_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    disk = Disk(monkeypatch, tmp_path)
    monkeypatch.setattr(folder, "STEP", 4)
    FolderStore(tmp_path).put("d-1", [b"1234", b"5"])
    assert disk.steps == ["write", "sync", "write", "sync", "rename", "sync"]


@pytest.mark.parametrize("step", ["write", "sync", "rename"])
def test_a_full_disk_is_named_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str):
    store = FolderStore(tmp_path)
    with monkeypatch.context() as full:
        full.setattr(durablefiles, step, _raising(errno.ENOSPC))
        with pytest.raises(NadiError) as caught:
            store.put("d-1", [b"x"])
    assert caught.value.condition == "DISK_FULL"
    assert list(tmp_path.iterdir()) == []
    store.put("d-1", [b"x"])
    assert store.get("d-1", 0, 1) == b"x"


@pytest.mark.parametrize("step", ["write", "sync", "rename"])
def test_a_broken_disk_is_named_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str):
    monkeypatch.setattr(durablefiles, step, _raising(errno.EIO))
    with pytest.raises(NadiError) as caught:
        FolderStore(tmp_path).put("d-1", [b"x"])
    assert caught.value.condition == "STATE_LOG_FAILED"
    assert str(tmp_path) in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_could_not_be_synced_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    store, real, left = FolderStore(tmp_path), durablefiles.sync, [None, OSError(errno.EIO, "broken")]

    def sync(descriptor: int) -> None:
        failure = left.pop(0)
        if failure is not None:
            raise failure
        real(descriptor)

    monkeypatch.setattr(durablefiles, "sync", sync)
    with pytest.raises(NadiError, match="STATE_LOG_FAILED"):
        store.put("d-1", [b"x"])
    assert store.list() == []


def test_a_sweep_removes_what_a_killed_writer_left_and_nothing_that_is_being_written(tmp_path: Path):
    dying = "import os, sys; from pathlib import Path; from nadi.pipeline.statelog.folder import FolderStore\n"
    dying += "def pieces():\n    yield b'half'\n    os.kill(os.getpid(), 9)\n"
    dying += "FolderStore(Path(sys.argv[1])).put('d-1', pieces())\n"
    subprocess.run([sys.executable, "-c", dying, str(tmp_path)], check=False, timeout=60)
    (left,) = tmp_path.iterdir()
    store = FolderStore(tmp_path)
    assert store.list() == []

    def pieces() -> Iterator[bytes]:
        yield b"one"
        store.sweep()
        assert not left.exists()
        yield b"two"

    store.put("d-2", pieces())
    assert store.get("d-2", 0, 9) == b"onetwo"


def test_a_writer_whose_file_was_removed_under_it_fails_by_name(tmp_path: Path):
    def pieces() -> Iterator[bytes]:
        yield b"one"
        for path in tmp_path.iterdir():
            path.unlink()

    with pytest.raises(NadiError, match="STATE_LOG_FAILED"):
        FolderStore(tmp_path).put("d-1", pieces())


def test_the_lock_of_a_writer_ends_with_it(tmp_path: Path):
    FolderStore(tmp_path).put("d-1", [b"x"])
    with (tmp_path / "d-1").open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


@pytest.mark.parametrize("name", ["", ".d-1", "../d-1", "a/b"])
def test_a_name_that_leaves_the_folder_is_refused(tmp_path: Path, name: str):
    with pytest.raises(ValueError, match="name of an object"):
        FolderStore(tmp_path).get(name, 0, 1)


def _raising(number: int) -> Any:
    def step(*_: Any) -> Any:
        raise OSError(number, os.strerror(number))

    return step


# ---- pyarrow.fs


class Faulty(fs.FileSystemHandler):  # type: ignore[misc]  # of pyarrow, which has no types
    """A file system that loses the ends of objects without a word, or fails at a wanted call."""

    def __init__(self, folder: Path) -> None:
        self._real = fs.SubTreeFileSystem(str(folder), fs.LocalFileSystem())
        self.failing = ""
        self.lost = 0

    def _step(self, name: str) -> None:
        if self.failing == name:
            raise OSError(errno.EIO, f"{name} failed")

    def get_type_name(self) -> str:
        return "faulty"

    def get_file_info(self, paths: list[str]) -> Any:
        self._step("get_file_info")
        return self._real.get_file_info(paths)

    def get_file_info_selector(self, selector: Any) -> Any:
        return self._real.get_file_info(selector)

    def open_output_stream(self, path: str, _metadata: Any) -> Any:
        self._step("open_output_stream")
        out = self._real.open_output_stream(path)
        return out if not self.lost else _losing(out, self.lost)

    def open_input_file(self, path: str) -> Any:
        self._step("open_input_file")
        return self._real.open_input_file(path)

    def delete_file(self, path: str) -> None:
        self._step("delete_file")
        self._real.delete_file(path)

    def create_dir(self, path: str, recursive: bool) -> None:
        self._real.create_dir(path, recursive=recursive)

    def normalize_path(self, path: str) -> str:
        return path

    def _unused(self, *_: Any) -> Any:
        raise NotImplementedError

    copy_file = delete_dir = delete_dir_contents = delete_root_dir_contents = _unused
    move = open_append_stream = open_input_stream = _unused


def _losing(out: Any, count: int) -> Any:
    """A stream that publishes all but the last bytes."""
    import pyarrow as pa

    class Stream:
        closed = False

        def __init__(self) -> None:
            self._held = b""

        def write(self, data: bytes) -> int:
            self._held += bytes(data)
            return len(data)

        def flush(self) -> None:
            """Everything waits for the close."""

        def writable(self) -> bool:
            return True

        def readable(self) -> bool:
            return False

        def seekable(self) -> bool:
            return False

        def tell(self) -> int:
            return len(self._held)

        def close(self) -> None:
            if not self.closed:
                self.closed = True
                out.write(self._held[:-count])
                out.close()

    return pa.PythonFile(Stream(), mode="w")


@pytest.fixture
def faulty(tmp_path: Path) -> tuple[Faulty, RemoteStore]:
    handler = Faulty(tmp_path)
    return handler, RemoteStore(fs.PyFileSystem(handler), "log", "faulty://log")


def test_an_object_that_was_published_torn_is_found_out_and_deleted(faulty: tuple[Faulty, RemoteStore]):
    handler, store = faulty
    store.put("d-0", [b"whole"])
    handler.lost = 3
    with pytest.raises(NadiError) as caught:
        store.put("d-1", [b"12345"])
    assert caught.value.condition == "STATE_LOG_FAILED"
    assert "2 bytes of 5" in str(caught.value)
    assert store.list() == ["d-0"]


def test_an_error_between_writes_does_not_leave_what_the_close_publishes(faulty: tuple[Faulty, RemoteStore]):
    handler, store = faulty
    store.put("d-0", [b"whole"])
    handler.lost = 1

    def pieces() -> Iterator[bytes]:
        yield b"x" * remoteobjects.BUFFER
        raise RuntimeError("the kernel failed")

    with pytest.raises(RuntimeError):
        store.put("d-1", pieces())
    assert store.list() == ["d-0"]


@pytest.mark.parametrize("step", ["get_file_info", "open_output_stream", "open_input_file", "delete_file"])
def test_a_system_that_fails_is_named(faulty: tuple[Faulty, RemoteStore], step: str):
    handler, store = faulty
    store.put("d-0", [b"whole"])
    handler.failing = step

    def all_steps() -> None:
        store.put("d-1", [b"x"])
        store.get("d-0", 0, 1)
        store.delete(["d-0"])

    with pytest.raises(NadiError) as caught:
        all_steps()
    assert caught.value.condition == "STATE_LOG_FAILED"
    assert "faulty://log" in str(caught.value)
    assert f"{step} failed" in str(caught.value)
