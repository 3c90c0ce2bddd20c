"""The apps that simulations send to, as a node has them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from nadi.errors import NadiError
from nadi.io.controllog import Record, control_path
from nadi.pipeline.live import Live
from nadi.pipeline.spec import AppSpec
from nadi.server.simulation.events import Event
from nadi.server.simulation.targets import AppOutlet, AppTargets, schema_of, send_single

TEXT = (
    "@app:name('A') define stream In (k string, d double); define stream Other (n int); define trigger T at 'start';"
    "define table Kept (k string); from In select k insert into Made;"
)


class Apps:
    """One app, which may be active."""

    def __init__(self, spec: AppSpec) -> None:
        self.spec = spec
        self.active = True
        self.on_its_way: list[str] = []

    def is_active(self, name: str) -> bool:
        return self.active and name == "A"

    def starting(self) -> list[str]:
        return self.on_its_way

    def live(self, name: str) -> Live:
        return Live(self.spec, 0)


@pytest.fixture
def apps(tmp_path: Path) -> Apps:
    return Apps(AppSpec("A", TEXT, str(tmp_path)))


def test_all_streams_take_events_and_nothing_else_does(apps: Apps):
    targets = AppTargets(apps)
    assert sorted(targets.of("A").streams) == ["In", "Made", "Other"]
    assert schema_of(targets, "A", "In").names == ("k", "d")
    for name in ("T", "Kept", "!In", "#In", ""):
        with pytest.raises(NadiError, match="SIMULATION_INVALID"):
            schema_of(targets, "A", name)


def test_an_app_is_looked_into_again_when_it_runs_with_another_text(apps: Apps):
    targets = AppTargets(apps)
    first = targets.of("A")
    assert targets.of("A") is first
    apps.spec = replace(apps.spec, text=TEXT.replace("Other", "Another"))
    assert sorted(targets.of("A").streams) == ["Another", "In", "Made"]


def test_only_active_apps_are_sent_to(apps: Apps):
    targets = AppTargets(apps)
    apps.active = False
    assert targets.state("A") == "away"
    with pytest.raises(NadiError, match="no active Siddhi App 'A'"):
        send_single(targets, "A", "In", 5, ["a", "1"])
    apps.on_its_way = ["A"]
    assert targets.state("A") == "starting"
    outlet = AppOutlet(targets, ["A"], lambda: None)
    assert outlet.is_full()
    assert not outlet.send([Event(5, "A", "In", ("a", 1.0))])
    apps.active = True
    assert outlet.send([Event(5, "A", "In", ("a", 1.0))])


def test_events_of_a_stream_that_follow_each_other_are_one_record_and_numbers_that_json_lacks_texts(
    apps: Apps, tmp_path: Path
):
    outlet = AppOutlet(AppTargets(apps), ["A", "A"], lambda: None)
    outlet.send(
        [
            Event(1, "A", "In", ("a", float("inf"))),
            Event(2, "A", "In", ("b", float("nan"))),
            Event(3, "A", "Other", (1,)),
            Event(4, "A", "In", (None, None)),
        ]
    )
    send_single(AppTargets(apps), "A", "In", 5, ["c", "-Infinity"])
    lines = control_path(tmp_path).read_bytes().splitlines()
    records = [msgspec.json.decode(line, type=Record).simulated for line in lines]
    assert [(r.stream, r.stamps, r.columns) for r in records if r is not None] == [
        ("In", [1, 2], [["a", "b"], ["Infinity", "NaN"]]),
        ("Other", [3], [[1]]),
        ("In", [4], [[None], [None]]),
        ("In", [5], [["c"], ["-Infinity"]]),
    ]
