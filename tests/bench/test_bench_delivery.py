"""The suite of delivery: two modes of one app, whose rows are checked in both."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench import delivery
from bench.checks import Rows, WrongOutputError, pattern_rows
from bench.children import ROOT
from bench.delivery import MODES, DeliverySetting, app_text
from bench.events import make_events
from bench.report import markdown
from nadi.io.registry import connectors
from nadi.pipeline.engine import plan_app

Number = tuple[bytes, bytes, bytes]
SETTING = DeliverySetting(Path(), "127.0.0.1:1", 50, 3_000, 1, "local[2]")


def messages(rows: Rows) -> list[tuple[bytes, Number | None]]:
    """The rows as an exactly-once sink writes them."""
    found: list[tuple[bytes, Number | None]] = []
    for n in range(len(rows["ts"])):
        row = {name: column[n].item() for name, column in rows.items()}
        told = {"ts": row["ts"], "sym": f"S{row['key']}", "since": row["since"]}
        event = told | {"low": row["low"] / 100, "high": row["high"] / 100}
        found.append((json.dumps({"event": event}).encode(), (b"p", b"0", str(n).encode())))
    return found


def ended(**changes: Any) -> dict[str, Any]:
    return {"state": "stopped", "errors": 0, "restarts": 0, "in": SETTING.events, "error": "", **changes}


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> list[tuple[bytes, Number | None]]:
    """What the output topic holds: the rows that must come; a test may change it."""
    held = messages(pattern_rows(make_events(0, SETTING.events, SETTING.keys)))
    monkeypatch.setattr(delivery, "payloads", lambda _setting, _run: iter(held))
    return held


def checked(mode: str = "exactly once", **changes: Any) -> dict[str, int | float]:
    wanted = pattern_rows(make_events(0, SETTING.events, SETTING.keys))
    return delivery._checked(SETTING, 0, mode, ended(**changes), wanted)


def test_each_run_has_an_app_and_an_output_of_its_own() -> None:
    apps = [plan_app(app_text(SETTING, run)) for run in (0, 1)]
    assert apps[0].name != apps[1].name
    assert connectors(apps[0], "sink")[0].options["topic"] != connectors(apps[1], "sink")[0].options["topic"]
    assert connectors(apps[0], "source")[0].options == connectors(apps[1], "source")[0].options


def test_rows_that_are_all_there_pass_in_both_modes(topic: list[tuple[bytes, Number | None]]) -> None:
    assert checked()["rows"] == len(topic) > 50
    topic[:] = [(payload, None) for payload, _ in topic]
    assert checked("no guarantees")["rows"] == len(topic)


def test_a_row_that_comes_twice_or_not_at_all_fails_the_run(topic: list[tuple[bytes, Number | None]]) -> None:
    topic.append((topic[-1][0], (b"p", b"0", b"-")))
    with pytest.raises(WrongOutputError):
        checked()
    del topic[-2:]
    with pytest.raises(WrongOutputError):
        checked()


def test_rows_without_numbers_of_their_own_fail_an_exactly_once_run(topic: list[tuple[bytes, Number | None]]) -> None:
    topic[3] = (topic[3][0], topic[2][1])
    with pytest.raises(WrongOutputError, match="numbers"):
        checked()
    topic[3] = (topic[3][0], None)
    with pytest.raises(WrongOutputError, match="numbers"):
        checked()


@pytest.mark.parametrize("trouble", [{"restarts": 1}, {"errors": 2}, {"in": 5}, {"state": "failed"}])
def test_an_app_that_had_trouble_gives_no_figure(
    topic: list[tuple[bytes, Number | None]], trouble: dict[str, Any]
) -> None:
    with pytest.raises(WrongOutputError):
        checked(**trouble)


def test_the_ratio_is_that_of_the_medians() -> None:
    speeds = {"exactly once": (8.0, 60.0, 90.0), "no guarantees": (100.0, 80.0, 1.0)}
    runs = {mode: [{"events_per_s": speed} for speed in speeds[mode]] for mode in MODES}
    assert delivery._ratio(runs)["ratio"] == 60.0 / 80.0


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.timeout(900)
def test_the_suite_runs_with_a_broker_and_its_report_has_both_modes(tmp_path: Path) -> None:
    path = tmp_path / "delivery.json"
    command = [sys.executable, str(ROOT / "bench" / "run.py"), "--suite", "delivery", "--json", str(path)]
    done = subprocess.run([*command, "--events", "60000", "--repeat", "1"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(path.read_bytes())
    assert result["complete"]
    assert set(result["apps"]) == {"1,000 keys", "100,000 keys"}
    text = markdown(result)
    assert all(f"1,000 keys, {mode}" in text for mode in MODES)


def test_settings_of_a_run_do_not_change_its_input() -> None:
    assert delivery.topic_in(SETTING) == delivery.topic_in(replace(SETTING, repeat=9)) != delivery.topic_out(SETTING, 0)
