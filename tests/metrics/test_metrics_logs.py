"""How the processes of a node log."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from nadi.metrics import logs
from nadi.server.security.audit import Origin, note


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    root, before = logging.getLogger(), os.environ.pop(logs.VARIABLE, None)
    level = root.level
    yield
    for handler in [h for h in root.handlers if isinstance(h, logs.OneHandler)]:
        root.removeHandler(handler)
        handler.close()
    root.setLevel(level)
    structlog.reset_defaults()
    os.environ.pop(logs.VARIABLE, None)
    if before is not None:
        os.environ[logs.VARIABLE] = before


def records(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_record_in_json_has_app_group_and_batch_of_where_it_was_made(tmp_path: Path):
    path = tmp_path / "log"
    logs.begin(logs.Logging(logs.JSON, "info", str(path)))
    with structlog.contextvars.bound_contextvars(app="Orders", group="Orders", batch=7):
        structlog.get_logger("nadi.server").warning("it is so", bucket=1)
    (found,) = records(path)
    assert {k: found[k] for k in ("event", "level", "logger", "app", "group", "batch", "bucket")} == {
        "event": "it is so",
        "level": "warning",
        "logger": "nadi.server",
        "app": "Orders",
        "group": "Orders",
        "batch": 7,
        "bucket": 1,
    }
    assert str(found["timestamp"]).endswith("Z")
    assert path.stat().st_mode & 0o777 == 0o600


def test_records_of_libraries_are_in_the_same_form_and_quiet_ones_only_warn(tmp_path: Path):
    path = tmp_path / "log"
    logs.begin(logs.Logging(logs.JSON, "info", str(path)))
    logging.getLogger("some.library").info("%s of %d", "one", 2)
    logging.getLogger("httpx").info("a request")
    logging.getLogger().error("without a logger of its own")  # the node keeps these elsewhere
    try:
        raise ValueError("no")
    except ValueError:
        logging.getLogger("some.library").exception("it failed")
    first, second = records(path)
    assert (first["event"], first["logger"]) == ("one of 2", "some.library")
    assert "ValueError: no" in str(second["exception"])


def test_the_level_counts_for_all(tmp_path: Path):
    path = tmp_path / "log"
    logs.begin(logs.Logging(logs.JSON, "error", str(path)))
    structlog.get_logger("nadi.server").warning("no")
    logging.getLogger("some.library").warning("no")
    structlog.get_logger("nadi.server").error("yes")
    assert [r["event"] for r in records(path)] == ["yes"]


def test_secrets_do_not_get_into_a_record(tmp_path: Path):
    path = tmp_path / "log"
    logs.begin(logs.Logging(logs.JSON, "info", str(path)), lambda text: text.replace("hush", "***"))
    log = structlog.get_logger("nadi.server")
    log.info("it is hush", password="x", more={"token": "y", "list": ["hush"]}, Authorization="Basic z")
    try:
        raise ValueError("hush")
    except ValueError:
        log.exception("and here")
    text = path.read_text()
    assert "hush" not in text
    assert [r.get("password") for r in records(path)] == ["***", None]
    assert records(path)[0]["more"] == {"token": "***", "list": ["***"]}
    assert records(path)[0]["Authorization"] == "***"


def test_in_text_a_record_is_a_line_whatever_an_app_writes_into_it(tmp_path: Path):
    path = tmp_path / "log"
    logs.begin(logs.Logging(logs.TEXT, "info", str(path)))
    structlog.get_logger("nadi.app").info("one\n2026-01-01 [error] forged\x1b[31m", app="A")
    (line,) = path.read_text().splitlines()
    assert "one\\n2026-01-01" in line
    assert "\x1b" not in line
    assert "app=A" in line


def test_a_file_that_is_moved_away_is_made_anew(tmp_path: Path):
    path = tmp_path / "log"
    logs.begin(logs.Logging(logs.JSON, "info", str(path)))
    log = structlog.get_logger("nadi.server")
    log.info("one")
    path.rename(tmp_path / "log.1")
    log.info("two")
    assert [r["event"] for r in records(path)] == ["two"]


def test_processes_that_a_node_starts_log_as_it_does(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv(logs.VARIABLE, "json:warning")
    logs.follow()
    structlog.get_logger("nadi.host").info("no")
    structlog.get_logger("nadi.host").warning("yes")
    assert json.loads(capsys.readouterr().err)["event"] == "yes"
    monkeypatch.setenv(logs.VARIABLE, "nonsense")
    logs.follow()  # and stays as it is


def test_strangers_who_are_refused_again_and_again_fill_no_log(tmp_path: Path):
    path = tmp_path / "log"
    logs.begin(logs.Logging(logs.JSON, "info", str(path)))
    for _ in range(100):
        note("login", Origin("eve", "10.0.0.1", "/"), "refused", grant="basic")
    note("login", Origin("ada", "10.0.0.1", "/"), "ok", grant="basic")
    found = records(path)
    assert [one.get("outcome") for one in found[-2:]] == [None, "ok"]
    assert sum(one.get("outcome") == "refused" for one in found) == 30
