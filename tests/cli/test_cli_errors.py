"""`nadi errors` on what a state folder or a database has; sending again needs a node and is in the tests of whole nodes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from nadi.cli.main import cli
from nadi.config import DataSource, ErrorStoring
from nadi.errors import NadiError
from nadi.errors.readable import readable
from nadi.io import errorstore
from nadi.io.controllog import Again, append_again, control_path
from nadi.io.errorstores import error_store, note_store

LONG = "x" * 500
CONFIG = """
error.store: {{enabled: true, config: {{datasource: E}}}}
wso2.datasources:
  dataSources: [{{name: E, definition: {{type: RDBMS, configuration: {{jdbcUrl: 'jdbc:sqlite:{path}'}}}}}}]
"""


def row(time: int, kind: str, stream: str, payload: bytes, **more: Any) -> dict[str, Any]:
    origin = {"source": f"source file of {stream}", "query": f"query of {stream}", "sink": f"sink http of {stream}"}[
        kind
    ]
    about = {"time": time, "app": "A", "kind": kind, "origin": origin, "stream": stream, "reason": "no good"}
    place: dict[str, Any] = (
        {"partition": None, "position": None} if kind == "query" else {"partition": 0, "position": 7}
    )
    return about | place | errorstore.payload_fields(payload) | {"cut": 1} | (more or {"again": {"ordinal": 0}})


ROWS = (
    row(60_000, "source", "In", b"[broken"),
    row(120_000, "query", "In", b'["a", 1]'),
    row(180_000, "sink", "Out", LONG.encode()),
    row(240_000, "source", "In", b"\xff", final="it is so"),
)


def filled(state: Path, settings: ErrorStoring) -> None:
    (state / "A" / "cuts").mkdir(parents=True)
    store = error_store(state / "A", "A", settings)
    note_store(state / "A", store)
    errorstore.stage(state / "A", 1, 0, ROWS)
    store.commit(1, [0])


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    filled(tmp_path / ".nadi", ErrorStoring())
    return tmp_path / ".nadi"


def nadi(*words: str, status: int = 0) -> str:
    answer = CliRunner().invoke(cli, words)
    if isinstance(answer.exception, NadiError):
        raise answer.exception
    assert answer.exit_code == status, answer.output
    return answer.output


def listed(*words: str) -> list[str]:
    return [found["id"] for found in json.loads(nadi("errors", "list", "A", "--json", *words))]


def test_the_list_has_id_origin_position_reason_and_what_was_sent_again(state: Path):
    append_again(control_path(state / "A"), [Again("1-0-0", "source", "In")], now=1_000)
    table = nadi("errors", "list", "A")
    assert nadi("errors", "A") == table
    assert "1-0-3" in nadi("errors", "list", str(state / "A"))
    assert "[broken" in table
    lines = [line.split("│") for line in table.splitlines() if "1-0-" in line]
    assert len(lines) == 4
    assert "1970-01-01 00:01:00" in table
    assert "replayed" in "".join(lines[0])
    assert "replayed" not in "".join(lines[1])
    assert "0/7" in "".join(lines[0])
    found = json.loads(nadi("errors", "list", "A", "--json"))
    assert [each["replayed"] for each in found] == [1_000, None, None, None]


def test_filters_choose(state: Path):
    assert listed() == ["1-0-0", "1-0-1", "1-0-2", "1-0-3"]
    assert listed("--origin", "query") == ["1-0-1"]
    assert listed("--stream", "Out") == ["1-0-2"]
    assert listed("--since", "1970-01-01T00:02:00Z", "--until", "240000") == ["1-0-1", "1-0-2"]
    assert listed("--limit", "2") == ["1-0-2", "1-0-3"]
    assert "has no such row" in nadi("errors", "list", "A", "--stream", "Nix")
    nadi("errors", "list", "A", "--origin", "Nix", status=2)
    nadi("errors", "list", "A", "--since", "soon", status=2)


def test_one_row_is_shown_with_its_whole_payload(state: Path):
    assert nadi("errors", "show", "A", "1-0-2").endswith(f"\n\n{LONG}\n")
    said = nadi("errors", "show", "A", "1-0-3")
    assert "no: it is so" in said
    assert "base64" in said
    assert json.loads(nadi("errors", "show", "A", "1-0-0", "--json"))["payload"] == "[broken"
    with pytest.raises(NadiError) as unknown:
        nadi("errors", "show", "A", "1-0-9")
    assert unknown.value.condition == "ERROR_NOT_FOUND"


def test_a_purge_says_how_many_and_wants_to_be_told_what(state: Path):
    nadi("errors", "purge", "A", status=2)
    nadi("errors", "purge", "A", "1-0-0", "--all", status=2)
    assert nadi("errors", "purge", "A", "1-0-0", "1-0-9") == "1 row purged\n"
    assert nadi("errors", "purge", "A", "--until", "1970-01-01T00:03:00Z") == "1 row purged\n"
    assert listed() == ["1-0-2", "1-0-3"]
    assert nadi("errors", "purge", "A", "--all") == "2 rows purged\n"
    assert nadi("errors", "list", "A") == "A: the error store is empty\n"


def test_sending_again_needs_a_node_and_to_be_told_what(state: Path):
    nadi("errors", "replay", "A", status=2)
    nadi("errors", "replay", "A", "--all", "--payload", "x", status=2)
    with pytest.raises(NadiError) as stopped:
        nadi("errors", "replay", "A", "--all")
    assert stopped.value.condition == "APP_NOT_RUNNING"
    with pytest.raises(NadiError) as unknown:
        nadi("errors", "list", "Nobody")
    assert unknown.value.condition == "NO_STATE"


def test_what_is_in_a_database_is_found_with_its_configuration_and_missed_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "errors.db"
    source = DataSource("E", f"jdbc:sqlite:{path}")
    filled(tmp_path / ".nadi", ErrorStoring(datasource=source))
    (tmp_path / "deployment.yaml").write_text(CONFIG.format(path=path))
    assert not (tmp_path / ".nadi" / "A" / "errors.jsonl").exists()
    assert listed("--config", "deployment.yaml") == ["1-0-0", "1-0-1", "1-0-2", "1-0-3"]
    assert nadi("errors", "purge", "A", "--origin", "source", "--config", "deployment.yaml") == "2 rows purged\n"
    with pytest.raises(NadiError) as elsewhere:
        nadi("errors", "A")
    assert elsewhere.value.condition == "ERROR_STORE_ELSEWHERE"
    assert "errors.db" in str(elsewhere.value)


EVIL = "\x1b[2J\u009b2J\nINFO all is well [/red] \u202e"


def test_finding_10_what_an_event_brought_does_nothing_to_the_screen(state: Path) -> None:
    """Security finding 10: events inject lines and terminal escapes into what a person reads."""
    store = error_store(state / "A", "A", ErrorStoring())
    found = row(300_000, "source", "In", EVIL.encode()) | {"reason": f"'{EVIL}' is not JSON"}
    errorstore.stage(state / "A", 2, 0, [found])
    store.commit(2, [0])
    for words in (("list", "A"), ("show", "A", "2-0-0"), ("list", "A", "--json"), ("show", "A", "2-0-0", "--json")):
        said = nadi("errors", *words)
        assert not {"\x1b", "\u009b", "\u202e"} & set(said)
        assert "\\u001b[2J" in said.replace("\n", "").replace("│", "").replace(" ", "")
    assert json.loads(nadi("errors", "show", "A", "2-0-0", "--json"))["payload"] == EVIL
    assert f"reason    '{readable(EVIL)}' is not JSON" in nadi("errors", "show", "A", "2-0-0").splitlines()
