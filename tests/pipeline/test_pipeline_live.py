"""Finding 13: what a file of the state folder says is not imported, nor believed where it cannot be."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from nadi.errors import NadiError
from nadi.pipeline.live import Live, read_live, write_live
from nadi.pipeline.node import node_lock
from nadi.pipeline.spec import AppSpec


@pytest.fixture
def state(tmp_path: Path) -> Path:
    (tmp_path / "state" / "A").mkdir(parents=True)
    return tmp_path / "state" / "A"


def test_an_app_that_runs_is_found(state: Path) -> None:
    live = Live(AppSpec("A", "text", str(state)), 1)
    write_live(state, live)
    assert read_live(state) is None
    with node_lock(state.parent):
        assert read_live(state) == live


@pytest.mark.parametrize("names", [{"engine": "evil_module"}, {"connectors": "evil_module"}])
def test_a_module_that_only_the_file_names_is_not_imported(
    state: Path, names: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "evil_module.py").write_text("import pathlib; pathlib.Path('ran').touch()")
    monkeypatch.syspath_prepend(str(tmp_path))
    write_live(state, Live(replace(AppSpec("A", "text", str(state)), **names), 1))
    with node_lock(state.parent), pytest.raises(NadiError, match="STATE_FILE_NOT_READABLE"):
        read_live(state)
    assert "evil_module" not in sys.modules


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"[]",
        b"\xff",
        b'{"spec": 5, "jvm": 1}',
        b"[" * 100_000,
        b'{"x": ' + b"[" * 100_000,
        b'{"x": "\xff"}',
    ],
)
def test_a_file_that_is_no_description_is_a_named_error(state: Path, content: bytes) -> None:
    (state / "live.json").write_bytes(content)
    with node_lock(state.parent), pytest.raises(NadiError, match="STATE_FILE_NOT_READABLE"):
        read_live(state)


def test_a_changed_type_in_the_description_is_a_named_error(state: Path) -> None:
    described = msgspec.to_builtins(Live(AppSpec("A", "text", str(state)), 1))
    for field in ("buckets", "hosts", "text", "variables", "inputs", "parted"):
        changed = {**described, "spec": {**described["spec"], field: [{}]}}
        (state / "live.json").write_bytes(msgspec.json.encode(changed))
        with node_lock(state.parent), pytest.raises(NadiError, match="STATE_FILE_NOT_READABLE"):
            read_live(state)
