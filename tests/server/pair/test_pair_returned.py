"""What only a returning node had is in the error stores of its apps, once, from where it can be sent again; or it waits in a file."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nadi.errors import NadiError, error
from nadi.eventsync.contract import Surplus, SurplusKind
from nadi.io.controllog import Again, Record, control_connector
from nadi.io.errorstore import Place, Row, payload_of
from nadi.io.errortable import TableErrorStore
from nadi.io.mappers.unreadable import UNREADABLE
from nadi.io.seen import MARK
from nadi.kernel.control import CONTROL
from nadi.pipeline.inputs.again import control_take
from nadi.pipeline.ondemand import control_ordinal
from nadi.pipeline.repeats import again_of
from nadi.pipeline.spec import AppSpec
from nadi.server.pair.returned import Returned

TEXT = """@App:name('Orders of shops')
@source(type='http', receiver.url='http://127.0.0.1:8006/in', @map(type='json'))
define stream In (id string);
@source(type='http', receiver.url='http://127.0.0.1:8006/too', @map(type='json'))
define stream Too (id string);
define table Seen (id string);
from In insert into Seen;
from Too insert into Seen;
"""
APP = "Orders of shops"
TOKEN = "Orders_of_shops-6ae58e12"  # as the journal names it
NOW = 1_764_000_000_000


class World:
    """An app of a pair, and what runs."""

    def __init__(self, folder: Path) -> None:
        self.spec = AppSpec(
            APP, TEXT, str(folder / "state"), owner=7, store=f"file://{folder}/objects", cuts=f"sqlite:///{folder}/logs.db",
            journal="nats://127.0.0.1:1",
        )  # fmt: skip
        self.file = folder / "returned.jsonl"
        self.runs = True
        self.begin()

    def begin(self) -> None:
        """The node is started, or started again."""
        self.returned = Returned(self.file, self.running)

    def running(self) -> Iterator[AppSpec]:
        if self.runs:
            yield self.spec

    def rows(self) -> list[Row]:
        return list(self.spec.open_errors().rows())

    def lines(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.file.read_text().splitlines()] if self.file.exists() else []

    def checked(self, row: Row) -> Again:
        """What sends a row again, as the app can take it."""
        app = self.spec.plan()
        again = again_of(row)
        control_take(self.spec, app, control_connector(control_ordinal(self.spec, app))).check(again)
        return again


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def event(number: int, body: bytes = b'{"event": {"id": "a"}}', part: str = "0", time: int = NOW) -> Surplus:
    return Surplus(
        TOKEN, part, f"event {number} of input {part}", time, body, SurplusKind.EVENT, number, {"trp:a": "b"}
    )


def test_an_event_is_a_row_of_its_app_that_can_be_sent_again(world: World):
    world.returned.keep([event(4), event(0, b"\xff", "1")])
    first, second = world.rows()
    assert (first["id"], first["origin"], first["position"]) == (f"{NOW}-0-4", "source http of In", 4)
    assert first["reason"] == "only the node that returned had this event"
    again = world.checked(first)
    assert (again.kind, again.stream, again.payload) == ("source", "In", b'{"event": {"id": "a"}}')
    assert again.properties == {"trp:a": "b"}
    assert (second["stream"], payload_of(second), world.checked(second).ordinal) == ("Too", b"\xff", 1)
    assert world.lines() == []


def test_what_is_given_again_is_there_once(world: World):
    found = [event(n) for n in range(5)]
    world.returned.keep(found[:3])  # the node was killed before it could say that it has them
    world.begin()
    world.returned.keep(found)
    assert [row["position"] for row in world.rows()] == [0, 1, 2, 3, 4]


def test_another_event_of_the_same_place_is_another_row(world: World):
    other = replace(event(4), payload=b"other")
    for _ in range(2):
        world.returned.keep([event(4), other, event(5)])
    assert [(row["id"], payload_of(row)) for row in world.rows()] == [
        (f"{NOW}-0-4", event(4).payload),
        (f"{NOW}-0-5", b"other"),
        (f"{NOW}-0-6", event(5).payload),
    ]


def test_a_change_can_be_made_again_and_what_was_sent_again_is_not_told_twice(world: World):
    change = msgspec.json.encode(Record(NOW, "c1", "delete Seen on Seen.id == 'a'"))
    repeat = msgspec.json.encode(Record(NOW, "again-1-0-0", "", Again("1-0-0", "source", "In")))
    world.returned.keep([event(0, change, "control"), event(1, repeat, "control")])
    (row,) = world.rows()
    assert (row["stream"], row["kind"]) == (CONTROL, "query")
    assert world.checked(row).kind == "control"
    assert [line["position"] for line in world.lines()] == [1]


def test_an_error_row_keeps_all_but_its_id(world: World):
    there: Row = {
        "id": "7-1-3", "time": 5, "app": APP, "kind": "source", "origin": "source http of In", "stream": "In", "partition": 0,
        "position": 9, "reason": "no JSON", "payload": "x", "cut": 7, "again": {"ordinal": 0},
    }  # fmt: skip
    told = Surplus(APP, "In", "an error of cut 7", 5, json.dumps(there).encode(), SurplusKind.ERROR)
    for _ in range(2):
        world.returned.keep([told])
    (row,) = world.rows()
    assert row == {
        **there,
        "id": "1000000000005-1-3",
        "cut": 1_000_000_000_005,
        "reason": "no JSON (only the node that returned had this row)",
    }
    assert world.checked(row).payload == b"x"


def test_what_is_no_message_is_a_row_that_says_so(world: World):
    gap = replace(event(3), properties={UNREADABLE: "number 7 is missing", MARK: "m"})
    keyed = replace(event(4), properties={MARK: "m"})
    world.returned.keep([gap, keyed])
    first, second = world.rows()
    assert first["final"] == "it is no message: number 7 is missing"
    assert second["again"] == {"ordinal": 0}  # its key says that it was taken; a person says that it is to be


def test_what_no_error_store_can_take_is_in_the_file_once(world: World):
    found = [
        Surplus(APP, "", "cuts 5 to 9", NOW, b"[]"),
        event(0, part="faults"),
        event(0, part="7"),
        replace(event(0), app=".topics"),
        replace(event(1), app="Gone"),
    ]
    for _ in range(2):
        world.returned.keep(found)
        world.begin()
    assert [(line["app"], line["what"]) for line in world.lines()] == [(one.app, one.what) for one in found]
    assert world.rows() == []


def test_events_wait_in_the_file_until_their_app_runs(world: World):
    world.runs = False
    world.returned.keep([event(0), Surplus(APP, "", "cuts 5 to 9", NOW, b"[]"), event(1, b"\xff")])
    assert (len(world.lines()), world.rows()) == (3, [])
    world.begin()
    assert not world.returned.is_due("Another")
    assert world.returned.is_due(APP)
    assert not world.returned.is_due(APP)  # not at each progress
    world.runs = True
    world.returned.settle()
    assert [payload_of(row) for row in world.rows()] == [event(0).payload, b"\xff"]
    assert [line["what"] for line in world.lines()] == ["cuts 5 to 9"]
    world.begin()
    assert not world.returned.is_due(APP)


def test_events_wait_in_the_file_while_the_error_store_is_away(world: World, monkeypatch: pytest.MonkeyPatch):
    def away(_store: object, _rows: object) -> int:
        raise error("CONNECTION_UNAVAILABLE", connector="the error store", reason="the test says so")

    with monkeypatch.context() as patch:
        patch.setattr(TableErrorStore, "enter", away)
        world.returned.keep([event(0)])
    assert (len(world.lines()), world.rows()) == (1, [])
    world.returned.settle()
    assert (world.lines(), len(world.rows())) == ([], 1)


def test_a_catch_up_does_not_wait_for_an_error_store(world: World, monkeypatch: pytest.MonkeyPatch):
    """Its rows go to the partner, too, which takes none before the catch-up is over."""
    entered, free = threading.Event(), threading.Event()
    enter = TableErrorStore.enter

    def slow(store: TableErrorStore, rows: list[tuple[Place, Row]]) -> int:
        entered.set()
        free.wait(60)
        return enter(store, rows)

    monkeypatch.setattr(TableErrorStore, "enter", slow)
    asyncio.run(world.returned([event(0)]))
    assert [line["position"] for line in world.lines()] == [0]
    assert world.returned.is_due(APP)
    settling = threading.Thread(target=world.returned.settle)
    settling.start()
    entered.wait(60)
    asyncio.run(
        world.returned([event(1), Surplus(APP, "", "cuts 5 to 9", NOW, b"[]")])
    )  # while the error store is asked
    free.set()
    settling.join()
    assert [line["what"] for line in world.lines()] == ["event 1 of input 0", "cuts 5 to 9"]
    assert world.returned.is_due(APP)  # it came after the last attempt
    world.returned.settle()
    assert ([row["position"] for row in world.rows()], len(world.lines())) == ([0, 1], 1)


def test_what_cannot_be_made_a_row_stays_in_the_file_and_ends_nothing(world: World):
    world.returned.keep([Surplus(APP, "In", "an error of cut 7", 5, b"[]", SurplusKind.ERROR)])
    assert (len(world.lines()), world.rows()) == (1, [])


def test_a_node_that_is_killed_after_it_stored_a_row_and_before_it_forgot_the_line_has_the_row_once(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    world.runs = False
    world.returned.keep([event(0)])
    world.runs = True
    with monkeypatch.context() as patch:
        patch.setattr("nadi.server.pair.returned.write_atomically", _killed)
        with pytest.raises(KeyboardInterrupt):
            world.returned.settle()
    assert (len(world.lines()), len(world.rows())) == (1, 1)
    world.begin()
    world.returned.settle()
    assert (world.lines(), len(world.rows())) == ([], 1)


def _killed(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_file_that_somebody_has_damaged_is_an_error_that_names_it(world: World):
    world.file.write_text("{\n")
    with pytest.raises(NadiError) as caught:
        world.begin()
    assert caught.value.condition == "STATE_FILE_NOT_READABLE"


@given(numbers=st.lists(st.integers(0, 6)), cuts=st.lists(st.integers(0, 20), max_size=4))
@settings(max_examples=25, deadline=None)
def test_rows_are_the_same_whatever_comes_again_and_however_it_is_divided(
    numbers: list[int], cuts: list[int], tmp_path_factory: pytest.TempPathFactory
):
    world = World(tmp_path_factory.mktemp("world"))
    found = [event(n, b"%d" % (n % 3)) for n in numbers]
    at = 0
    for cut in [*sorted(cuts), len(found)]:
        world.returned.keep(found[at:cut])
        at = max(at, cut)
    assert [row["position"] for row in world.rows()] == sorted(set(numbers))
