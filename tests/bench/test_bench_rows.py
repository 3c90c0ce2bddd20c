"""The suite of the rows kernel, at a size that says nothing about speed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from bench import run
from bench.checks import WrongOutputError
from bench.report import markdown
from bench.rows import FEEDS, RowsSetting, measure_rows
from bench.rows_apps import ROWS_APPS

SMALL = RowsSetting(300, 1, False)


def _quiet(_line: str) -> None:
    """Nothing to show."""


def test_the_suite_leaves_a_whole_result_whose_outputs_were_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "rows.json"
    arguments = ["--suite", "rows", "--json", str(path), "--events", "300", "--repeat", "2", "--only", "filter"]
    monkeypatch.setattr("sys.argv", ["run.py", *arguments])
    with run.Screen() as screen:
        assert run.run_rows(run.arguments(), screen) == 0
    told = json.loads(path.read_bytes())
    assert told["complete"]
    assert list(told["apps"]) == ["filter, process", "filter, chunks"]
    checks = [figures["check"] for figures in told["apps"].values()]
    assert checks[0] == checks[1]
    assert checks[0]["rows"] > 100
    assert len(told["apps"]["filter, chunks"]["runs"]) == 2
    assert "| filter, chunks |" in markdown(told)


@pytest.mark.parametrize("app", ROWS_APPS)
def test_both_ways_of_feeding_give_the_same_rows(app: str) -> None:
    found = [measure_rows(ROWS_APPS[app], feed, SMALL, _quiet)["check"] for feed in FEEDS]
    assert found[0] == found[1]


def test_wrong_rows_fail_the_measure() -> None:
    wrong = replace(ROWS_APPS["filter"], expected=ROWS_APPS["window"].expected)
    with pytest.raises(WrongOutputError, match="filter, chunks"):
        measure_rows(wrong, "chunks", SMALL, _quiet)


def test_an_app_of_another_suite_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["run.py", "--suite", "rows", "--json", "x", "--only", "identity"])
    with pytest.raises(SystemExit):
        run.arguments()
    assert "the suite rows has no identity" in capsys.readouterr().err
