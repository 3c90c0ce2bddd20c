"""That the kill test of a pair sees what it must: cuts that are others on one node, rows that stand twice, nodes that are both active; and that seeds give the
same faults and the same bodies."""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing, nullcontext
from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import haoracle
import httpx
import pytest
from hafaults import FAULTS, OFTEN, deck
from haload import SIZE, HttpLoad, Load
from haoracle import Oracle, cuts_of
from harevisions import Asking
from harows import Rows
from haworld import PairWorld, Watch
from reference import Made
from wires import Wires

from nadi.pipeline.cutting.cuts import Cut

CUTS = [Cut(n, 1, 1_000 * n, 900, {(0, 0): n}) for n in range(4)]


class World(PairWorld):
    """Two nodes that have nothing but a home."""

    def __init__(self, folder: Path) -> None:
        self.nodes = tuple(SimpleNamespace(id=f"node-{n}", home=folder / f"node-{n}") for n in (1, 2))  # type: ignore[assignment]
        self.wires = Wires()
        self.told: list[tuple[str, ...]] = []

    @property
    def url(self) -> str:
        return "sqlite://"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    for node in made.nodes:
        (node.home / "pair").mkdir(parents=True)
        keep(node, CUTS)
    yield made
    made.wires.close()


@pytest.fixture
def oracle(world: World) -> Iterator[Oracle]:
    made = Oracle(world, [Load("a", 1, 1)], Rows("127.0.0.1:1"))
    made._taken = {cut.n: cut for cut in CUTS}
    yield made
    made.close()


def keep(node: Any, cuts: list[Cut]) -> None:
    """Have a node have a cut log."""
    with closing(sqlite3.connect(node.home / "pair" / "logs.db")) as connection, connection:
        connection.execute("drop table if exists nadi_cuts")
        connection.execute("create table nadi_cuts (app text, n integer, epoch integer, cut text)")
        rows = [("Pair", cut.n, cut.epoch, json.dumps(cut.to_offset())) for cut in cuts]
        connection.executemany("insert into nadi_cuts values (?, ?, ?, ?)", rows)


def test_cut_logs_that_are_equal_and_go_on_are_right(world: World, oracle: Oracle):
    assert cuts_of(world.nodes[0]) == {cut.n: cut for cut in CUTS}
    assert oracle._in_cut_logs() == []


@pytest.mark.parametrize(
    ("cuts", "told"),
    [
        ([*CUTS[:3], replace(CUTS[3], ends={(0, 0): 9})], "cut 3 is"),
        ([*CUTS[:2], CUTS[3]], "cut 3, epoch 1 follows cut 1"),
        ([CUTS[0], replace(CUTS[1], epoch=2), *CUTS[2:]], "epoch 1 follows cut 1, epoch 2"),
        ([replace(cut, epoch=2) for cut in CUTS], "cut 0 is"),
    ],
)
def test_a_cut_log_of_one_node_with_another_cut_or_a_gap_or_an_older_epoch_is_told(
    world: World, oracle: Oracle, cuts: list[Cut], told: str
):
    keep(world.nodes[1], cuts)
    (found,) = [one for one in oracle._in_cut_logs() if told in one]
    assert found.startswith("node-2")


def test_cuts_that_the_log_let_go_of_before_they_were_compared_are_told(
    world: World, oracle: Oracle, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(world, "active", lambda: world.nodes[1])
    monkeypatch.setattr(haoracle, "spec_of", lambda _node: None)
    monkeypatch.setattr(oracle, "_replayer", SimpleNamespace(at=0))
    monkeypatch.setattr(haoracle, "Inputs", lambda _spec: nullcontext())
    keep(world.nodes[1], CUTS[2:])
    with pytest.raises(AssertionError, match="node-2 has cuts from 2 on, and cut 1 was not compared yet"):
        oracle.follow()


def test_a_cut_log_that_is_shorter_than_the_oldest_revision_needs_and_a_damaged_revision_are_told(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    known: list[dict[str, Any]] = [{"revision": "7__Pair", "cut": 2}, {"revision": "8__Pair", "cut": 3}]
    monkeypatch.setattr(world, "active", lambda: world.nodes[0])
    asked = httpx.Request("GET", "http://node-1")
    monkeypatch.setattr(
        world.nodes[0], "ask", lambda _way, _path: httpx.Response(200, json=known, request=asked), raising=False
    )
    asking = Asking(world)
    keep(world.nodes[0], CUTS[1:])
    assert asking.wrong() == []
    keep(world.nodes[1], CUTS[2:])
    assert asking.wrong() == ["node-2: its cut log begins with cut 2, and the oldest revision is of cut 2"]
    known[1] = {"revision": "8__Pair", "damaged": "half of it is there"}
    assert asking.wrong() == ["revision 8__Pair cannot be read: half of it is there"]


def test_bodies_that_are_lost_or_come_twice_or_in_part_or_from_nowhere_are_told(oracle: Oracle):
    (load,) = oracle._loads
    load.sent.update(("a.1", "a.2", "a.3", "mqtt.1"))
    load.acknowledged.update(("a.1", "a.2"))
    oracle.events.update({"a.1": SIZE, "a.2": SIZE, "mqtt.1": 2 * SIZE})
    assert (oracle._in_logs(), oracle.again) == ([], 1)
    oracle.events.update({"a.1": SIZE, "a.3": 1, "b.1": SIZE})
    del oracle.events["a.2"]
    told = [one.partition(":")[0] for one in oracle._in_logs()]
    assert told == [
        "acknowledged and not taken",
        "taken, and nobody has sent it",
        "taken more than once",
        "taken in part",
    ]


def test_a_node_is_waited_for_that_does_not_have_all_cuts_yet(
    world: World, oracle: Oracle, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(oracle, "_replayer", SimpleNamespace(at=3))
    assert oracle._behind() == []
    keep(world.nodes[1], CUTS[:3])
    assert oracle._behind() == ["node-2: cuts up to 2 of 3"]
    assert oracle._in_cut_logs() == []


@pytest.mark.parametrize(
    ("cut", "told"), [(4, []), (3, ["table: row 0 is missing: (1,) of cut 3, which is committed"])]
)
def test_a_row_may_be_missing_only_of_a_cut_that_was_made_after_all_had_come(
    oracle: Oracle, monkeypatch: pytest.MonkeyPatch, cut: int, told: list[str]
):
    monkeypatch.setattr(oracle, "_replayer", SimpleNamespace(at=3))
    monkeypatch.setattr(oracle, "_table", list)

    def follow() -> None:
        monkeypatch.setattr(oracle, "_replayer", SimpleNamespace(at=4))
        oracle._sums.append(Made(cut, (1,)))

    monkeypatch.setattr(oracle, "follow", follow)
    assert oracle.wrong() == told


def test_two_nodes_that_are_active_under_one_token_are_told(world: World):
    watch = Watch(world)
    watch.active = {3: {"node-1"}, 4: {"node-2"}}
    assert watch.wrong() == []
    watch.active[4].add("node-1")
    assert "4" in watch.wrong()[0]


def test_the_longest_time_without_rows_is_that_since_a_moment():
    rows = Rows("127.0.0.1:1")
    rows._seen = [0.0, 5.0, 6.0, 9.0, 9.5]
    assert (rows.longest_after(5.5), rows.longest_after(9.5), rows.first_after(6.0)) == (3.0, 0.0, 9.0)


def test_a_way_between_nodes_is_lost_where_it_comes_to_one_and_where_the_other_one_answers(world: World):
    world.wires.lose = lambda *said: world.told.append(said)  # type: ignore[method-assign, assignment]
    first, second = world.nodes
    world.lose_between((first, second))
    assert world.told == [("node-1 sync", "out"), ("node-2 sync", "in")]
    world.told.clear()
    world.lose_between()
    assert world.told == [("node-1 sync",), ("node-2 sync",)]


def test_a_seed_gives_the_same_faults_again_and_each_kind_in_each_deck():
    size = len(FAULTS) + len(OFTEN)
    kinds = list(islice(deck(random.Random(7)), 2 * size))
    assert kinds == list(islice(deck(random.Random(7)), 2 * size))
    assert set(kinds[:size]) == set(kinds[size:]) == set(FAULTS)


def test_a_client_with_keys_sends_the_same_body_again_and_one_without_gives_it_another_name(
    monkeypatch: pytest.MonkeyPatch,
):
    for keyed, names in ((True, ["c.1", "c.1"]), (False, ["c.1.0", "c.1.1"])):
        load = HttpLoad("c", 1, 0.0, ["127.0.0.1"], 1, keyed)
        posted: list[tuple[str, bytes]] = []

        def post(name: str, body: bytes, posted: list[tuple[str, bytes]] = posted) -> int:
            posted.append((name, body))
            return 202 if len(posted) == 2 else 0

        monkeypatch.setattr(load, "_post", post)
        load.send(1)
        assert [name for name, _body in posted] == names
        assert load.acknowledged == {names[1]}
        first, second = (
            [(e["event"]["k"], e["event"]["v"], e["event"]["i"]) for e in json.loads(b)] for _n, b in posted
        )
        assert first == second
        assert [i for _k, _v, i in first] == list(range(SIZE))
