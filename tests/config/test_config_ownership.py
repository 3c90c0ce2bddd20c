"""Finding 8 (state that all can read, folders that others hold) and finding 15 (what others have put there): whose a folder is."""

from __future__ import annotations

import grp
import os
import pwd
from pathlib import Path
from types import SimpleNamespace

import pytest

from nadi.config.ownership import check_own, is_own, make_private, own_file
from nadi.errors import NadiError


@pytest.fixture
def others(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process is somebody else than the one whose the files are."""
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1_000)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def refused(folder: Path) -> str:
    with pytest.raises(NadiError) as raised:
        make_private(folder)
    assert raised.value.condition == "FOLDER_NOT_PRIVATE"
    return str(raised.value)


def test_a_private_folder_is_made_for_this_user_only_whatever_the_mask(tmp_path: Path):
    before = os.umask(0)
    try:
        assert not make_private(tmp_path / "state")
    finally:
        os.umask(before)
    assert mode(tmp_path / "state") == 0o700


def test_a_folder_that_others_could_read_is_closed_and_that_is_told(tmp_path: Path):
    (tmp_path / "state").mkdir()
    (tmp_path / "state").chmod(0o755)
    assert make_private(tmp_path / "state")
    assert mode(tmp_path / "state") == 0o700
    assert not make_private(tmp_path / "state")


@pytest.fixture
def in_company(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others are in each group, too."""
    monkeypatch.setattr(grp, "getgrgid", lambda _number: SimpleNamespace(gr_name="staff", gr_mem=["ada", "bob"]))


@pytest.mark.usefixtures("in_company")
@pytest.mark.parametrize("open_to", [0o777, 0o770, 0o702, 0o1777])
def test_a_folder_that_others_may_write_to_is_refused_and_stays_as_it_is(tmp_path: Path, open_to: int):
    (tmp_path / "state").mkdir()
    (tmp_path / "state").chmod(open_to)
    assert "can be written by other users" in refused(tmp_path / "state")
    assert (tmp_path / "state").stat().st_mode & 0o7777 == open_to
    with pytest.raises(NadiError, match="FOLDER_NOT_PRIVATE"):
        check_own(tmp_path / "state")
    assert not is_own(tmp_path / "state")


def test_a_group_that_has_nobody_else_may_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Systems that give each user a group of his own let groups write: what an older nadi made there is taken."""
    monkeypatch.setattr(pwd, "getpwuid", lambda _number: SimpleNamespace(pw_gid=tmp_path.stat().st_gid, pw_name="ada"))
    members = ["ada"]
    monkeypatch.setattr(grp, "getgrgid", lambda _number: SimpleNamespace(gr_name="ada", gr_mem=members))
    (tmp_path / "state").mkdir()
    (tmp_path / "state").chmod(0o775)
    check_own(tmp_path / "state")
    assert make_private(tmp_path / "state")
    assert mode(tmp_path / "state") == 0o700
    (tmp_path / "state").chmod(0o775)
    members.append("bob")
    assert "can be written by other users" in refused(tmp_path / "state")


@pytest.mark.usefixtures("others")
def test_a_folder_of_another_user_is_refused(tmp_path: Path):
    (tmp_path / "state").mkdir(0o700)
    assert "belongs to another user" in refused(tmp_path / "state")
    assert not is_own(tmp_path / "state")


def test_a_link_a_file_and_a_link_to_nothing_are_no_private_folders(tmp_path: Path):
    (tmp_path / "real").mkdir(0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "nowhere").symlink_to(tmp_path / "nothing")
    (tmp_path / "file").touch()
    for name in ("link", "nowhere", "file"):
        assert "is no folder" in refused(tmp_path / name)
        assert not is_own(tmp_path / name)


def test_what_is_no_folder_has_no_files_of_others_and_is_nobodys(tmp_path: Path):
    (tmp_path / "file").touch()
    for path in (tmp_path / "state", tmp_path / "file", tmp_path / "file" / "below"):
        check_own(path)
        assert not is_own(path)


def test_a_file_of_ones_own_is_for_nobody_else(tmp_path: Path):
    before = os.umask(0)
    try:
        with open(tmp_path / "file", "w", opener=own_file) as made:
            made.write("x")
    finally:
        os.umask(before)
    assert mode(tmp_path / "file") == 0o600
