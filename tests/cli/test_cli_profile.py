"""`nadi profile` on what a state folder has; a node that writes it is in the tests of whole nodes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from nadi.cli.main import cli
from nadi.cli.profile import MEANING
from nadi.errors import NadiError
from nadi.pipeline.profile import FILE, PHASES, PartTime, Profile, Spent

PART = PartTime("query rises", 600.0, 0.6, 1_000, 600.0)
PROFILE = Profile(
    "A",
    0,
    60_000,
    400,
    300,
    Spent(100.0, 90.0, 200.0, 1.0),
    dict.fromkeys(PHASES, Spent(10.0, 9.0, 20.0, 0.1)),
    [PART],
    PART.name,
)


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("COLUMNS", "160")
    (tmp_path / "A" / "cuts").mkdir(parents=True)
    return tmp_path


def nadi(*words: object) -> str:
    answer = CliRunner().invoke(cli, [str(w) for w in words])
    if isinstance(answer.exception, NadiError):
        raise answer.exception
    assert answer.exit_code == 0, answer.output
    return answer.output


def test_phases_and_queries_are_shown_and_the_slowest_is_named(state: Path) -> None:
    (state / "A" / FILE).write_bytes(msgspec.json.encode(PROFILE))
    shown = nadi("profile", "A", "--state-dir", state)
    assert "slowest: query rises, 60% of the kernel's time" in shown
    assert "A: 400 batches since 1970-01-01 00:00:00 UTC (ended; last noted 1970-01-01 00:01:00 UTC)" in shown
    assert all(name in shown for name in PHASES)
    assert "the rest: rows in and out, routing" in shown
    assert nadi("profile", state / "A") == shown


def test_every_phase_has_a_meaning() -> None:
    assert set(MEANING) == set(PHASES)


def test_a_tool_gets_json(state: Path) -> None:
    (state / "A" / FILE).write_bytes(msgspec.json.encode(PROFILE))
    told = json.loads(nadi("profile", "A", "--state-dir", state, "--json"))
    assert (told["slowest"], told["running"], told["parts"][0]["us_per_event"]) == ("query rises", False, 600.0)


def test_an_app_that_is_not_profiled_or_not_there_is_named(state: Path) -> None:
    with pytest.raises(NadiError, match="NOT_PROFILED"):
        nadi("profile", "A", "--state-dir", state)
    with pytest.raises(NadiError, match="NO_STATE"):
        nadi("profile", "B", "--state-dir", state)


def test_the_documentation_explains_every_phase() -> None:
    page = Path(__file__).parents[2] / "docs" / "operations" / "profile.md"
    cells = re.findall(r"^\| ([a-z ,]+?) \| \w.* \|", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert set(", ".join(cells).split(", ")) >= set(PHASES)
