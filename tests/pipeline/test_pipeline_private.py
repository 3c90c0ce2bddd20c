"""Finding 8: the state folder of a node is for its user only."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import structlog

from nadi.errors import NadiError
from nadi.pipeline.node import node_lock


def test_the_folder_and_the_lock_of_a_node_are_for_its_user_only(tmp_path: Path):
    before = os.umask(0)
    try:
        with node_lock(tmp_path / "state"):
            assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700
            assert (tmp_path / "state" / "node.lock").stat().st_mode & 0o777 == 0o600
    finally:
        os.umask(before)


def test_a_state_folder_of_an_older_nadi_is_closed_with_a_notice_and_goes_on(tmp_path: Path):
    (tmp_path / "state").mkdir()
    (tmp_path / "state").chmod(0o755)
    (tmp_path / "state" / "kept").write_text("x")
    with structlog.testing.capture_logs() as told, node_lock(tmp_path / "state"):
        pass
    assert [(line["log_level"], line["folder"]) for line in told] == [("warning", str(tmp_path / "state"))]
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "state" / "kept").read_text() == "x"
    with structlog.testing.capture_logs() as told, node_lock(tmp_path / "state"):
        pass
    assert told == []


def test_a_state_folder_that_others_may_write_to_is_not_taken(tmp_path: Path):
    (tmp_path / "state").mkdir()
    (tmp_path / "state").chmod(0o777)
    with pytest.raises(NadiError) as raised, node_lock(tmp_path / "state"):
        pass
    assert raised.value.condition == "FOLDER_NOT_PRIVATE"
    assert not (tmp_path / "state" / "node.lock").exists()


def test_a_state_folder_of_another_user_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "state").mkdir(0o700)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1_000)
    with pytest.raises(NadiError, match="belongs to another user"), node_lock(tmp_path / "state"):
        pass


def test_a_user_may_name_his_state_folder_by_a_link(tmp_path: Path):
    (tmp_path / "real").mkdir(0o700)
    (tmp_path / "state").symlink_to(tmp_path / "real")
    with node_lock(tmp_path / "state"):
        assert (tmp_path / "real" / "node.lock").exists()
