"""`nadi functions`."""

from __future__ import annotations

import json

from typer.testing import CliRunner

from nadi.cli.functions import explained
from nadi.cli.main import cli
from nadi.errors import NadiError
from nadi.functions.registry import default_registry


def _run(*arguments: str) -> str:
    result = CliRunner().invoke(cli, ["functions", *arguments])
    assert result.exit_code == 0, result.output
    return result.output


def test_all_entries_are_listed_by_namespace_and_kind() -> None:
    text = _run()
    assert "\nstr: functions\n" in text
    assert "\nstr: stream functions\n  str:tokenize" in text
    assert text.startswith("without a namespace: functions\n")
    registry = default_registry()
    for kind in ("function", "aggregator", "window", "stream_function"):
        assert all(f"  {name} " in text for name in registry.names(kind))


def test_one_entry_is_explained() -> None:
    text = _run("str:substr")
    assert text.startswith("str:substr, a function\n")
    assert "str:substr(<string> input.string, <int> begin.index, <int> length)" in text
    assert "str:substr('AbCDefghiJ KLMN', 2, 4) → 'CDef'" in text


def test_a_namespace_alone_lists_it() -> None:
    text = _run("regex")
    assert [line.split()[0] for line in text.splitlines()[1:]] == [
        "regex:find",
        "regex:group",
        "regex:lookingAt",
        "regex:matches",
    ]


def test_tools_get_json() -> None:
    [record] = json.loads(_run("math:log", "--json"))
    assert record["kind"] == "function"
    assert record["takes"] == ["(<int|long|float|double> p1, <int|long|float|double> p2)"]
    assert len(json.loads(_run("--json"))) == len(list(explained(default_registry())))


def test_a_misspelt_name_names_the_nearest() -> None:
    result = CliRunner().invoke(cli, ["functions", "str:substrng"])
    assert isinstance(result.exception, NadiError)
    assert "str:substr" in str(result.exception)


def test_every_entry_tells_what_it_takes() -> None:
    for entry in explained(default_registry()):
        assert all(takes.startswith("(") for takes in entry.takes), entry.name
        assert entry.takes, entry.name
