"""The error store in the state folder: rows once, ids that stay, purges beside commits, and what a crash or a full disk leaves."""

from __future__ import annotations

import contextlib
import errno
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from io_sabotage import Crash, Saboteur

from nadi.errors import NadiError, error
from nadi.io import durablefiles, errorstore, linefile
from nadi.io.errorfile import FileErrorStore
from nadi.io.errorstore import Wanted, payload_of, row_of


def row(cut: int, time: int = 0, kind: str = "source", stream: str = "S", payload: bytes = b"p") -> dict[str, Any]:
    about = {"time": time, "app": "A", "kind": kind, "origin": f"{kind} of {stream}", "stream": stream, "reason": "ü"}
    return about | {"partition": 0, "position": 1} | errorstore.payload_fields(payload) | {"cut": cut}


def put(state: Path, cut: int, *rows: dict[str, Any], bucket: int = 0) -> FileErrorStore:
    errorstore.stage(state, cut, bucket, rows)
    store = FileErrorStore(state)
    store.commit(cut, [bucket])
    return store


def ids(store: FileErrorStore, *wanted: Any, **more: Any) -> list[str]:
    return [found["id"] for found in store.rows(*wanted, **more)]


def test_every_row_is_kept_once_with_an_id_of_its_place_and_gives_its_payload_back(tmp_path: Path):
    store = FileErrorStore(tmp_path)
    assert ids(store) == []
    rows = [row(1, payload=p) for p in (b"text", b"\xff\x00")]
    for _ in range(2):  # the batch is made again
        assert errorstore.stage(tmp_path, 1, 0, rows) == 2
        assert errorstore.stage(tmp_path, 1, 1, []) == 0
        store.commit(1, [0])
    assert errorstore.stage(tmp_path, 2, 1, rows[:1]) == 1
    store.commit(2, [1])
    store.commit(3, [])
    found = list(store.rows())
    assert found == [{"id": "1-0-0", **rows[0]}, {"id": "1-0-1", **rows[1]}, {"id": "2-1-0", **rows[0]}]
    assert [payload_of(each) for each in found] == [b"text", b"\xff\x00", b"text"]
    with (tmp_path / "errors.jsonl").open("ab") as f:
        f.write(b'{"torn')
    assert list(store.rows()) == found
    assert row_of(store, "A", "1-0-1") == found[1]
    with pytest.raises(NadiError) as unknown:
        row_of(store, "A", "7-0-0")
    assert unknown.value.condition == "ERROR_NOT_FOUND"


def test_what_a_commit_that_died_has_written_is_not_there_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    store = put(tmp_path, 1, row(1))
    errorstore.stage(tmp_path, 2, 0, [row(2), row(2)])
    with monkeypatch.context() as dying:
        dying.setattr(durablefiles, "rename", _crash)  # before the ledger is replaced
        with pytest.raises(Crash):
            store.commit(2, [0])
    assert len((tmp_path / "errors.jsonl").read_bytes().splitlines()) == 3
    assert ids(store) == ["1-0-0"]
    put(tmp_path, 2, row(2))
    assert ids(store) == ["1-0-0", "2-0-0"]


def _crash(*_: object) -> None:
    raise Crash


def test_rows_are_chosen_by_kind_stream_time_and_id_and_a_limit_takes_the_newest(tmp_path: Path):
    store = put(tmp_path, 1, row(1, 10), row(1, 20, "query"), row(1, 30, "sink", "T"))
    assert ids(store, Wanted(kind="query")) == ["1-0-1"]
    assert ids(store, Wanted(stream="T")) == ["1-0-2"]
    assert ids(store, Wanted(since=20)) == ["1-0-1", "1-0-2"]
    assert ids(store, Wanted(until=20)) == ["1-0-0"]
    assert ids(store, Wanted(ids=frozenset(("1-0-0", "1-0-2", "9-9-9")))) == ["1-0-0", "1-0-2"]
    assert ids(store, limit=2) == ["1-0-1", "1-0-2"]


def test_rows_of_a_nadi_that_had_no_ids_are_listed_and_purged(tmp_path: Path):
    store = put(tmp_path, 1, row(1), row(1))
    path = tmp_path / "errors.jsonl"
    old = [json.loads(line) for line in path.read_text().splitlines()]
    for each in old:
        del each["id"]
    path.write_text("".join(json.dumps(each, separators=(",", ":"), ensure_ascii=False) + "\n" for each in old))
    assert ids(store) == ["1-0-0", "1-0-1"]
    assert store.purge(Wanted(ids=frozenset(("1-0-0",)))) == 1
    assert ids(store) == ["1-0-1"]


def test_a_purge_hides_what_is_there_and_says_how_many_and_nothing_that_comes_later(tmp_path: Path):
    store = FileErrorStore(tmp_path)
    assert store.purge() == 0
    put(tmp_path, 1, row(1, 10), row(1, 20))
    assert store.purge(Wanted(since=15)) == 1
    assert store.purge(Wanted(since=15)) == 0
    put(tmp_path, 2, row(2, 30))
    assert ids(store) == ["1-0-0", "2-0-0"]
    assert store.purge() == 2
    assert ids(store) == []


def test_when_half_of_it_is_purged_the_next_commit_gives_the_bytes_back(tmp_path: Path):
    store = FileErrorStore(tmp_path)
    for cut in range(1, 5):
        put(tmp_path, cut, row(cut, cut))
    size = (tmp_path / "errors.jsonl").stat().st_size
    assert store.purge(Wanted(until=2)) == 1
    store.commit(5, [])
    assert (tmp_path / "errors.jsonl").stat().st_size == size
    assert store.purge(Wanted(until=3)) == 1
    store.commit(6, [])
    assert (tmp_path / "errors.jsonl").stat().st_size == size // 2
    assert ids(store) == ["3-0-0", "4-0-0"]
    put(tmp_path, 7, row(7))
    assert ids(store) == ["3-0-0", "4-0-0", "7-0-0"]


@pytest.mark.parametrize("how", ["before", "half", "after", "full"])
def test_a_death_at_any_step_of_a_compaction_loses_no_row_and_brings_none_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
):
    step = 0
    while True:
        step += 1
        state = tmp_path / str(step)
        state.mkdir()
        for cut in range(1, 5):
            put(state, cut, row(cut, cut))
        assert FileErrorStore(state).purge(Wanted(until=4)) == 3
        errorstore.stage(state, 5, 0, [row(5)])
        with monkeypatch.context() as dying:
            sabotage = Saboteur(dying, step, how)
            with contextlib.suppress(Crash, type(error("DISK_FULL", path=""))):
                FileErrorStore(state).commit(5, [0])
        store = FileErrorStore(state)
        found = ids(store)
        assert found in (["4-0-0"], ["4-0-0", "5-0-0"])
        assert store.purge(Wanted(ids=frozenset(("4-0-0",)))) == 1
        put(state, 5, row(5))
        put(state, 6, row(6))
        assert ids(store) == ["5-0-0", "6-0-0"]
        if sabotage.count < step:
            break
    assert step > 15


def test_a_full_disk_has_a_name_and_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    store = put(tmp_path, 1, row(1), row(1))
    assert store.purge(Wanted(ids=frozenset(("1-0-0",)))) == 1
    purges = (tmp_path / "errors" / "purged.jsonl").read_bytes()
    with monkeypatch.context() as full:
        full.setattr(linefile.os, "fsync", _full)
        with pytest.raises(NadiError) as said:
            store.purge()
        assert said.value.condition == "DISK_FULL"
    assert (tmp_path / "errors" / "purged.jsonl").read_bytes() == purges
    assert ids(store) == ["1-0-1"]
    with (tmp_path / "errors" / "purged.jsonl").open("ab") as torn:
        torn.write(b'{"through": [9, 9')
    assert ids(store) == ["1-0-1"]
    assert store.purge() == 1
    assert ids(store) == []


def _full(_descriptor: int) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


COMMITTER = """
import sys
from pathlib import Path
from nadi.io import errorstore
from nadi.io.errorfile import FileErrorStore
state = Path(sys.argv[1])
for cut in range(1, 301):
    errorstore.stage(state, cut, 0, [{"time": cut, "kind": "query", "stream": "S", "cut": cut, "payload": "p"}])
    FileErrorStore(state).commit(cut, [0])
"""
PURGER = """
import sys
from pathlib import Path
from nadi.io.errorfile import FileErrorStore
from nadi.io.errorstore import Wanted
store, gone = FileErrorStore(Path(sys.argv[1])), 0
while True:
    found = [row["time"] for row in store.rows()]
    assert found == sorted(set(found)), found
    odd = [f"{t}-0-0" for t in found if t % 2]
    if odd:
        gone += store.purge(Wanted(ids=frozenset(odd)))
    if 300 in found:
        break
print(gone)
"""


def test_purges_beside_commits_lose_nothing_and_two_of_them_count_together_what_is_gone(tmp_path: Path):
    def start(program: str) -> subprocess.Popen[str]:
        return subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, text=True)

    started: Sequence[subprocess.Popen[str]] = [start(COMMITTER), start(PURGER), start(PURGER)]
    told = [process.communicate(timeout=120)[0] for process in started]
    assert [process.returncode for process in started] == [0, 0, 0]
    store = FileErrorStore(tmp_path)
    left = [found["time"] for found in store.rows()]
    assert [t for t in left if t % 2 == 0] == [*range(2, 301, 2)]
    assert [t for t in left if t % 2] == []
    gone = sum(int(text) for text in told[1:])
    assert gone == 150
    assert store.purge() == 150
    store.commit(301, [])
    assert (tmp_path / "errors.jsonl").stat().st_size == 0
