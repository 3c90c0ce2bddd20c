"""Security finding 10: panel, plain lines and the tables of `nadi query` show what events and other machines say, and do nothing else with it."""

from __future__ import annotations

import io
import json
from collections.abc import Callable

import pytest
from rich.console import Console

from nadi.cli import query
from nadi.cli.panel import Lines, LivePanel, Screen, panel, plain
from nadi.metrics import AppProgress, Circuit, Said
from nadi.pipeline.ondemand import Found

EVIL = "\x1b[31m\u009b2J \u202e [/red] "
PROGRESS = AppProgress(
    "A",
    away={f"sink {EVIL}": f"503 {EVIL}"},
    circuits=(Circuit("sink http of Out", "open", 1_000, 3, EVIL),),
    warnings=(EVIL,),
    last_error=EVIL,
    said=(Said(f"INFO {EVIL}\nINFO a second line"),),
)
SHOWN = "\\u001b[31m\\u009b2J \\u202e [/red]"


def harmless(text: str) -> bool:
    return not {"\x1b", "\u009b", "\u202e"} & set(text)


def test_finding_10_the_panel_shows_what_others_say_as_it_is_written() -> None:
    console = Console(width=150, record=True, file=io.StringIO())
    console.print(panel(PROGRESS))
    shown = console.export_text()
    assert harmless(shown)
    assert shown.count(SHOWN) == 5


def test_finding_10_a_plain_line_is_one_line() -> None:
    assert harmless(plain(PROGRESS))
    assert len(plain(PROGRESS).splitlines()) == 1


@pytest.mark.parametrize("make", [Lines, LivePanel])
def test_finding_10_a_line_that_an_app_says_is_one_line(make: Callable[[Console], Screen]) -> None:
    out = io.StringIO()
    with make(Console(file=out, width=200)) as screen:
        screen.show(PROGRESS)
    assert harmless(out.getvalue())
    assert f"INFO {SHOWN} \\nINFO a second line" in out.getvalue()


@pytest.mark.parametrize("terminal", [True, False])
def test_finding_10_rows_of_a_query_are_lines_of_a_table(
    terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERM", "dumb")  # rich has escape sequences of its own
    query.show(Found(("a", "b"), [(EVIL + "\t\n", 1)], ("string", "int")))
    said = capsys.readouterr().out
    assert harmless(said)
    assert SHOWN + " \\t\\n" in said


def test_finding_10_json_for_tools_has_the_value_itself() -> None:
    text = query.as_objects(Found(("a",), [(EVIL,)], ("string",)))
    assert harmless(text)
    assert json.loads(text) == [{"a": EVIL}]
