"""`nadi check`, `nadi explain` and what `nadi run` says before anything is started."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from flights import DEMO
from nodes import TRACE, nadi

from nadi.cli.main import main

PLACES = ["--env", "FLIGHTS=a", "--env", "WEATHER=b", "--env", "ALERTS=c"]
VARIABLES = [
    "SOURCE_PORT=8006",
    "DATABASE=jdbc:postgresql://d/x",
    "DATABASE_USER=u",
    "DATABASE_PASSWORD=p",
    "WEST=w",
    "EAST=e",
    "OUTPUT=o",
]
WRONG = """@app:name('Wrong')
define stream Readings (machine string, degrees double);
from Readings[degree > 10.0]
select machine, degrees
insert into Hot;
from Reading select machine insert into Cold;
"""


@pytest.fixture
def wrong(tmp_path: Path) -> Path:
    path = tmp_path / "wrong.siddhi"
    path.write_text(WRONG)
    return path


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """What a command says that ends with status 1, in this process: one of its own takes a second or two until it says the same."""

    def said(*words: object) -> str:
        monkeypatch.setattr(sys, "argv", ["nadi", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 1
        return "".join(capsys.readouterr())

    return said


def test_check_says_that_the_examples_have_no_errors():
    examples = sorted(DEMO.parents[1].glob("*/*.siddhi"))
    assert len(examples) >= 3
    done = nadi("check", *examples, *PLACES, *[word for one in VARIABLES for word in ("--env", one)])
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{len(examples)} apps checked, no errors\n"


def test_check_prints_all_errors_of_all_apps_with_place_and_nearest_name(wrong: Path):
    done = nadi("check", wrong, DEMO, *PLACES)
    assert done.returncode == 1
    assert "2 errors in 1 of 2 apps" in done.stdout
    for part in (f"{wrong}:3:15", f"{wrong}:6:6", "'degrees'", "'Readings'"):
        assert part in done.stdout, done.stdout
    assert TRACE not in done.stdout + done.stderr


def test_check_gives_tools_a_json_list(wrong: Path):
    done = nadi("check", "--json", wrong)
    assert done.returncode == 1
    found = json.loads(done.stdout)
    assert [(e["line"], e["column"], e["condition"], e["severity"]) for e in found] == [
        (3, 15, "ATTRIBUTE_NOT_FOUND", "error"),
        (6, 6, "STREAM_NOT_DEFINED", "error"),
    ]


def test_explain_says_why_an_app_is_not_sharded_and_what_its_sinks_promise():
    done = nadi("explain", DEMO, *PLACES)
    assert (done.returncode, done.stderr) == (0, "")
    assert "group (default): one bucket" in done.stdout
    assert "the table 'Sky' is shared by all keys" in done.stdout
    assert "Alerts → file, map json: exactly once" in done.stdout
    assert "Alerts → log, map text: at least once" in done.stdout
    explained = json.loads(nadi("explain", "--json", DEMO, *PLACES).stdout)
    (group,) = explained["groups"]
    assert (explained["app"], group["sharding"], len(group["reasons"])) == ("Delays", "single", 5)


def test_explain_and_run_refuse_a_wrong_app_with_its_errors_and_start_nothing(wrong: Path, tmp_path: Path):
    state = tmp_path / "state"
    for command in (["explain", wrong], ["run", wrong, "--state-dir", state]):
        done = nadi(*command)
        assert done.returncode == 1
        assert "degree" in done.stdout + done.stderr
        assert TRACE not in done.stdout + done.stderr
    assert not state.exists()


def test_run_names_what_is_wrong_with_its_arguments(tmp_path: Path, refused: Callable[..., str]):
    app = tmp_path / "a.siddhi"
    app.write_text("@app:name('A') @source(type='file', file.uri='x', @map(type='json')) define stream S (a int);")
    cases = {
        ("run", app, "--conf", "nonsense"): "'nonsense' is not a setting",
        ("run", app, app): "two apps are named 'A'",
        ("run", DEMO): "${",
        ("run", app, "--conf", "nadi.batch.events=many"): "'nadi.batch.events' is 'many'",
    }
    for arguments, sentence in cases.items():
        assert sentence in refused(*arguments, "--state-dir", tmp_path / "state")
    missing = nadi("run", tmp_path / "nothing.siddhi")
    assert missing.returncode == 2
    assert TRACE not in missing.stderr


def test_an_unknown_connector_or_a_missing_option_is_named_before_anything_starts(
    tmp_path: Path, refused: Callable[..., str]
):
    cases = {
        "type='flie', file.uri='x'": "'flie' is not a type of source",
        "type='kafka', bootstrap.servers='x:1'": "needs the option 'topic.list'",
    }
    for options, sentence in cases.items():
        app = tmp_path / "a.siddhi"
        app.write_text(f"@app:name('A') @source({options}, @map(type='json')) define stream S (a int);")
        assert sentence in refused("run", app, "--state-dir", tmp_path / "state")
    assert not (tmp_path / "state").exists()
