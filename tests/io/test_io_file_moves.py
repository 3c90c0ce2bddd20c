"""A file sink, and a file source, of an app that another node goes on with: the files are on a mount, the homes of the nodes are not."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from eventually import eventually
from log_contract import contents
from sample import connector, delivery

from nadi.errors import NadiError
from nadi.io.appnotes import AppNotes
from nadi.io.contract import Connector, Place, Sink
from nadi.io.registry import open_log, open_sink
from nadi.io.sinks import ledger
from nadi.lang.tree import Type
from nadi.plan.nodes import Column, Schema


class Nodes:
    """Nodes that have nothing in common but a database, a store and a mount, and run the same app one after the other."""

    def __init__(self, folder: Path, connectors: list[Connector]) -> None:
        self._folder, self._connectors, self._count = folder, connectors, 0

    def next(self) -> Place:
        """What the app is told on a node that has just taken it over, with an empty home."""
        self._count += 1
        shared = f"sqlite:///{self._folder}/shared.db"
        home = self._folder / f"home{self._count}"
        place = Place("App", home, notes=str(self._folder / "store"), shared=shared, epoch=self._count)
        AppNotes(shared, "App", self._count).begin()
        for one in self._connectors:
            ledger.give_run(one, place)
        return place


def cut(target: Sink, number: int, names: list[str], first: int) -> None:
    target.commit(number, [target.write(delivery(number, names, first=first))])


@pytest.mark.parametrize("option", ["file.uri", "dir.uri"])
def test_the_next_node_writes_no_cut_a_second_time_and_leaves_none_out(tmp_path: Path, option: str) -> None:
    path = tmp_path / "mount" / "out.txt"
    mine = connector("file", {option: str(path)}, "text")
    nodes = Nodes(tmp_path, [mine])
    dead = open_sink(mine, nodes.next())
    cut(dead, 1, ["a", "b"], 0)
    cut(dead, 2, ["c"], 2)
    heir = open_sink(mine, nodes.next())
    cut(heir, 2, ["c"], 2)
    cut(heir, 3, ["d"], 3)
    files = sorted(path.glob("part-*")) if option == "dir.uri" else [path]
    assert [line for file in files for line in file.read_text().splitlines()] == ["a", "b", "c", "d"]


@pytest.mark.parametrize("option", ["file.uri", "dir.uri"])
def test_a_run_that_was_replaced_is_refused_before_it_touches_the_file(tmp_path: Path, option: str) -> None:
    path = tmp_path / "mount" / "out.txt"
    mine = connector("file", {option: str(path)}, "text")
    nodes = Nodes(tmp_path, [mine])
    sleeper = open_sink(mine, nodes.next())
    cut(sleeper, 1, ["a"], 0)
    receipt = sleeper.write(delivery(2, ["b"], first=1))
    heir = open_sink(mine, nodes.next())
    with pytest.raises(NadiError) as failure:
        sleeper.commit(2, [receipt])
    assert failure.value.condition == "FENCED"
    cut(heir, 2, ["b"], 1)
    cut(heir, 3, ["c"], 2)
    with pytest.raises(NadiError):
        sleeper.commit(2, [receipt])
    files = sorted(path.glob("part-*")) if option == "dir.uri" else [path]
    assert [line for file in files for line in file.read_text().splitlines()] == ["a", "b", "c"]


def test_a_file_that_the_next_node_does_not_have_is_an_error_and_not_the_beginning_of_another_one(
    tmp_path: Path,
) -> None:
    path = tmp_path / "disk" / "out.txt"
    mine = connector("file", {"file.uri": str(path)}, "text")
    nodes = Nodes(tmp_path, [mine])
    cut(open_sink(mine, nodes.next()), 1, ["a"], 0)
    os.rename(path, tmp_path / "on-another-machine.txt")
    heir = open_sink(mine, nodes.next())
    with pytest.raises(NadiError) as failure:
        cut(heir, 2, ["b"], 1)
    assert failure.value.condition == "TARGET_CHANGED"
    assert not path.exists()
    os.rename(tmp_path / "on-another-machine.txt", path)
    cut(heir, 2, ["b"], 1)
    assert path.read_text() == "a\nb\n"


def rows(source: Connector, place: Place, start: int = 0) -> list[tuple[int, int, bytes]]:
    log = open_log(source, place)
    try:
        return [(at, time, bytes(row)) for at, time, row in contents(log, 0, start, log.end(0))]
    finally:
        log.close()


@pytest.mark.parametrize("timed", [False, True])
def test_the_next_node_numbers_the_rows_of_files_as_the_first_one_did(tmp_path: Path, timed: bool) -> None:
    mount = tmp_path / "mount"
    mount.mkdir()
    options = {"dir.uri": str(mount), "file.settle": "0", **({"event.time": "size"} if timed else {})}
    source = connector("file", options, "csv")
    if timed:
        schema = Schema((Column("name", Type.STRING), Column("size", Type.LONG)))
        source = replace(source, schema=schema)
    nodes = Nodes(tmp_path, [])
    (mount / "m.csv").write_text("a,5\nb,3\n")
    dead = nodes.next()
    found = rows(source, dead)
    (mount / "a.csv").write_text("c,4\n")  # before the first one by its name
    found += rows(source, dead, 2)
    heir = nodes.next()
    (mount / "b.csv").write_text("d,9\n")
    assert rows(source, heir)[:3] == found
    assert [row for _, _, row in rows(source, heir)] == [b"a,5", b"b,3", b"c,4", b"d,9"]
    assert rows(source, dead) == rows(source, heir), "one that wakes up sees the same"


def test_two_nodes_that_find_different_files_at_the_same_time_give_each_its_own_place(tmp_path: Path) -> None:
    mount = tmp_path / "mount"
    mount.mkdir()
    source = connector("file", {"dir.uri": str(mount), "file.settle": "0"}, "csv")
    nodes = Nodes(tmp_path, [])
    logs = [open_log(source, nodes.next()) for _ in range(2)]
    (mount / "x.csv").write_text("x,1\n")
    assert logs[0].end(0) == 1
    (mount / "w.csv").write_text("w,1\n")
    eventually(lambda: logs[1].end(0) == 2)
    found = [[bytes(row) for _, _, row in contents(log, 0, 0, 2)] for log in logs]
    assert found == [[b"x,1", b"w,1"]] * 2
