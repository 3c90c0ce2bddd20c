"""`nadi backtest`: what is refused before Spark starts, and how differences are shown. Runs are in tests/endtoend."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from nadi.cli.backtest import told
from nadi.cli.main import cli
from nadi.errors import NadiError
from nadi.pipeline.history.backtest import Difference

APP = "define stream In (k string, n long); from In select k, sum(n) as total group by k insert into Totals;"


@pytest.fixture
def app(tmp_path: Path) -> Path:
    path = tmp_path / "sums.siddhi"
    path.write_text(APP)
    return path


def backtest(app: Path, *options: str) -> Result:
    return CliRunner().invoke(cli, ["backtest", str(app), *options])


@pytest.mark.parametrize(
    ("options", "told_of"),
    [
        ((), "--input"),
        (("--input", "In"), "STREAM=FILE"),
        (("--input", "In=x.csv"), "--timestamp"),
    ],
    ids=["no input", "no file", "no time"],
)
def test_what_is_wrong_with_the_command_is_told(app: Path, options: tuple[str, ...], told_of: str):
    answer = backtest(app, *options)
    assert answer.exit_code == 2
    assert told_of in answer.output


@pytest.mark.parametrize(
    "options",
    [("--input", "in=x.csv"), ("--input", "In=x.csv", "--timestamp", "n", "--stream", "Total")],
    ids=["input", "output"],
)
def test_a_stream_that_the_app_does_not_have_is_named(app: Path, options: tuple[str, ...]):
    failure = backtest(app, *options).exception
    assert isinstance(failure, NadiError)
    assert failure.condition == "STREAM_NOT_DEFINED"
    assert any(hint in str(failure) for hint in ("did you mean", "known: In"))


def test_both_versions_must_have_the_streams(app: Path, tmp_path: Path):
    other = tmp_path / "other.siddhi"
    other.write_text(APP.replace("Totals", "Sums"))
    failure = backtest(app, "--input", "In=x.csv", "--timestamp", "n", "--against", str(other)).exception
    assert isinstance(failure, NadiError)
    assert "'Totals'" in str(failure)


def test_refs_stand_for_what_the_deployment_has(app: Path, tmp_path: Path):
    """Both versions get past their text; what is wrong is the column of the time, which only the ref could name."""
    app.write_text(f"@source(ref='in', @map(type='json')) {APP}")
    config = tmp_path / "deployment.yaml"
    config.write_text("siddhi.refs: [{ref: {name: in, type: inMemory, properties: {topic: t, event.time: n}}}]")
    options = ("--input", f"In={tmp_path}/none.csv", "--stream", "Nothing", "--against", str(app))
    failures = [backtest(app, *options, *more).exception for more in ((), ("--config", str(config)))]
    assert [f.condition for f in failures if isinstance(f, NadiError)] == ["REF_UNKNOWN", "STREAM_NOT_DEFINED"]


def test_differences_stand_side_by_side():
    rows = ((1_000, '{"n": 1}', ""), (2_000, '{"n": 20000}', '{"n": 3}'), (2_000, "", '{"n": 4}'))
    found = {"A": Difference(5, 2, 2, rows), "B": Difference(7), "C": Difference(columns="n int and n bigint")}
    assert told(found, "old.siddhi", "new.siddhi") == [
        "A: 5 rows in both, 2 only from old.siddhi, 2 only from new.siddhi",
        "  time                      old.siddhi    new.siddhi",
        '  1970-01-01T00:00:01.000Z  {"n": 1}      -',
        '  1970-01-01T00:00:02.000Z  {"n": 20000}  {"n": 3}',
        '  1970-01-01T00:00:02.000Z  -             {"n": 4}',
        "B: 7 rows, the same in both",
        "C: other columns: n int and n bigint",
    ]
