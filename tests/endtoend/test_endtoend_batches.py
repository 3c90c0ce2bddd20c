"""What a node finds does not depend on how its input is cut into batches, nor on being killed: it is what the runtime in one process finds.

Two apps run side by side: the demo (one bucket, playback, a table) and one that is kept by key (several buckets).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from flights import DEMO, SHARDED, Stretch, by_key, in_process, stretch, year
from nodes import Node, events, run, running

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

STORMY = 148_000  # the weeks around this flight, of June and July, have a third of the year's alerts


@dataclass(frozen=True, slots=True)
class Case:
    """An input and what must be found in it."""

    given: Stretch
    alerts: list[dict[str, Any]]
    found: list[dict[str, Any]]
    lines: Path  # the sharded app


@pytest.fixture(scope="module")
def whole_year(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return year(tmp_path_factory.mktemp("year"))


def case(whole: tuple[Path, Path], folder: Path, first: int = 0, size: int = 1 << 30) -> Case:
    given = stretch(whole, folder / "input", first, size)
    (folder / "lines.siddhi").write_text(SHARDED)
    alerts = in_process(DEMO.read_text(), given, ("Departures", "Weather"), "Alerts")
    return Case(given, alerts, in_process(SHARDED, given, ("Departures",), "Found"), folder / "lines.siddhi")


@pytest.fixture(scope="module")
def weeks(whole_year: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Case:
    made = case(whole_year, tmp_path_factory.mktemp("weeks"), STORMY, 40_000)
    assert len(made.alerts) > 80
    assert len(made.found) > 1_000
    return made


def variables(given: Case, folder: Path) -> dict[str, str]:
    return {**given.given.files, "ALERTS": str(folder / "alerts.jsonl"), "FOUND": str(folder / "found.jsonl")}


def check(given: Case, folder: Path) -> None:
    assert events(folder / "alerts.jsonl") == given.alerts
    found = events(folder / "found.jsonl")
    assert len(found) == len(given.found)
    assert by_key(found, "line") == by_key(given.found, "line")


def go(given: Case, folder: Path, limit: int) -> None:
    """Both apps to the end of the input, in batches of at most `limit` events."""
    conf = {"batch.events": limit, "buckets": 4}
    run(DEMO, given.lines, state=folder / "state", conf=conf, **variables(given, folder))
    check(given, folder)


def go_killed(given: Case, folder: Path, limit: int) -> None:
    """The same with a `kill -9` of everything after a third of the input."""
    conf = {"batch.events": limit, "buckets": 4}
    wanted = {"Delays": given.given.size // 3, "Lines": len(given.given.rows["Departures"]) // 3}

    def far_enough(node: Node) -> bool:
        return all(node.taken(app) >= n for app, n in wanted.items())

    apps, options = (DEMO, given.lines), {"state": folder / "state", "conf": conf, **variables(given, folder)}
    with running(*apps, **options, until_end=True) as node:
        node.until(lambda: far_enough(node))
        node.kill_tree()
        assert node.processes() == set()
        assert node.taken("Delays") < given.given.size
    before = len(events(folder / "alerts.jsonl"))
    assert 0 < before < len(given.alerts)
    run(*apps, **options)
    check(given, folder)


def test_one_batch_for_everything_finds_what_one_process_finds(weeks: Case, tmp_path: Path):
    go(weeks, tmp_path, 0)


@pytest.mark.slow
def test_batches_of_5000_events_and_a_kill_of_all_processes_change_nothing(weeks: Case, tmp_path: Path):
    go_killed(weeks, tmp_path, 5_000)


@pytest.mark.slow
def test_batches_of_100_events_find_what_one_process_finds(whole_year: tuple[Path, Path], tmp_path: Path):
    # 6,000 flights: a batch costs the same whatever is in it
    go(case(whole_year, tmp_path, STORMY + 9_500, 6_000), tmp_path, 100)


@pytest.mark.long
def test_a_whole_year_in_one_batch_finds_what_one_process_finds(whole_year: tuple[Path, Path], tmp_path: Path):
    go(case(whole_year, tmp_path), tmp_path, 0)


@pytest.mark.long
def test_a_whole_year_with_a_kill_of_all_processes_finds_what_one_process_finds(
    whole_year: tuple[Path, Path], tmp_path: Path
):
    go_killed(case(whole_year, tmp_path), tmp_path, 20_000)
