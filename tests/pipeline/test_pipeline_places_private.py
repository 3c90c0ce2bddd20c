"""Finding 15: the folder of the sockets, whose name anybody can foresee."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from nadi.errors import NadiError
from nadi.pipeline.hosting.hostclient import hosts_folder, own_folder


@pytest.fixture
def temp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files, short enough for sockets."""
    folder = Path(tempfile.mkdtemp(prefix="nadi", dir="/tmp"))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    return folder


def mine(temp: Path) -> Path:
    return temp / f"nadi-{os.getuid()}"


def test_the_folder_of_the_sockets_is_private_all_the_way(temp: Path):
    before = os.umask(0)
    try:
        folder = hosts_folder(4711)
    finally:
        os.umask(before)
    assert folder == mine(temp) / "4711"
    assert [p.stat().st_mode & 0o777 for p in (folder, folder.parent)] == [0o700, 0o700]


def test_a_place_whose_sockets_would_have_too_long_names_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / ("x" * 40)))
    assert own_folder() == Path("/tmp") / f"nadi-{os.getuid()}"


def test_a_link_that_somebody_put_there_is_not_followed(temp: Path, tmp_path: Path):
    (tmp_path / "target").mkdir(0o700)
    mine(temp).symlink_to(tmp_path / "target")
    with pytest.raises(NadiError, match=r"HOST_UNAVAILABLE.*is no folder"):
        hosts_folder(4711)
    assert list((tmp_path / "target").iterdir()) == []


def test_a_folder_of_somebody_else_is_refused_by_name(temp: Path, monkeypatch: pytest.MonkeyPatch):
    mine(temp).mkdir(0o700)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1_000)
    with pytest.raises(NadiError, match=r"HOST_UNAVAILABLE.*belongs to another user"):
        own_folder()


def test_where_somebody_holds_the_place_the_runtime_folder_of_the_user_is_taken(
    temp: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    mine(temp).symlink_to(tmp_path)
    runtime = tmp_path / "run"
    runtime.mkdir(0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    assert own_folder() == runtime / "nadi"
    runtime.chmod(0o777)
    with pytest.raises(NadiError, match="HOST_UNAVAILABLE"):
        own_folder()
