"""Finding 8: what a node keeps is for its user only; what users get of their apps is made with the mask of the process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from nadi.io import durablefiles
from nadi.io.errorfile import FileErrorStore
from nadi.io.linefile import LineAppender, append_lines
from nadi.io.sinks import ledger
from nadi.io.sinks.appender import Appender, Output
from nadi.io.sinks.parts import Parts
from nadi.io.stagedlines import StagedLines


@pytest.fixture(autouse=True)
def no_mask() -> Iterator[None]:
    """A mask that takes nothing away: what is private then is so by itself."""
    before = os.umask(0)
    yield
    os.umask(before)


def open_to_others(folder: Path) -> list[str]:
    """What in a folder others could read or write."""
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.stat().st_mode & 0o077)


def test_what_is_staged_for_a_file_is_private_and_the_file_itself_is_not(tmp_path: Path):
    state, target = tmp_path / "state", tmp_path / "out" / "alerts.jsonl"
    made = Appender(state / "sinks" / "0", target, output=True)
    made.stage(1, 0, b"x\n")
    made.stage(2, 0, b"y\n")
    made.commit(1, [Output(0)])
    assert (state / "sinks" / "0" / "stage" / "2-0").exists()
    assert open_to_others(state) == []
    assert target.stat().st_mode & 0o777 == 0o666
    assert target.parent.stat().st_mode & 0o777 == 0o777


def test_the_mask_decides_who_reads_the_output_of_an_app(tmp_path: Path):
    os.umask(0o027)
    Appender(tmp_path / "state", tmp_path / "out", output=True).commit(1, [Output(0, data=b"x\n")])
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o640


def test_a_part_is_staged_out_of_sight_and_comes_out_with_the_mask_of_the_process(tmp_path: Path):
    made = Parts(ledger.FolderKept(tmp_path / "state"), lambda: "run", tmp_path / "out", "jsonl")
    name = str(made.stage(1, 0, b"x\n")["name"])
    assert (tmp_path / "out" / ".staged").stat().st_mode & 0o777 == 0o700
    made.commit(1, [name])
    assert (tmp_path / "out" / name).stat().st_mode & 0o777 == 0o666
    assert open_to_others(tmp_path / "state") == []


def test_an_error_store_is_private(tmp_path: Path):
    lines = StagedLines(tmp_path / "errors", tmp_path / "errors.jsonl")
    lines.stage(1, 0, [{"id": "1-0-0", "cut": 1, "stream": "S", "time": 1}])
    lines.commit(1, [0])
    store = FileErrorStore(tmp_path)
    assert store.purge() == 1
    store.commit(2, [])
    assert (tmp_path / "errors.jsonl").exists()
    assert open_to_others(tmp_path) == []


def test_files_that_are_replaced_or_added_to_are_private(tmp_path: Path):
    durablefiles.write_atomically(tmp_path / "atomic", b"x")
    durablefiles.append_durably(tmp_path / "durable", b"x")
    append_lines(tmp_path / "lines", lambda _content: [b"x"])
    LineAppender(tmp_path / "more lines").append(lambda _last: [b"x"])
    ledger.replace(tmp_path / "sinks" / "0" / "run.json", "x")
    durablefiles.make_folder(tmp_path / "deep" / "er")
    assert open_to_others(tmp_path) == []
