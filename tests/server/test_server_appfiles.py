"""The files of a worker's apps."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nadi.config.ownership import make_private
from nadi.errors import NadiError
from nadi.server.appfiles import AppFiles, check_name
from nadi.server.home import open_home


@pytest.mark.parametrize("name", ["Orders", "a", "_x", "A-1.b", "0", "x" * 100])
def test_a_name_may_have_what_file_systems_and_tables_take(name: str):
    assert check_name(name) == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "../x",
        "a/b",
        "/etc/passwd",
        ".hidden",
        "-x",
        "a b",
        "a\0",
        "a\n",
        "x" * 101,
        "ä",
        "a\\b",
        "%2e%2e",
    ],
)
def test_a_name_that_could_leave_the_folder_is_refused(tmp_path: Path, name: str):
    files = AppFiles(tmp_path, 100)
    for call in (lambda: files.write(name, "x"), lambda: files.remove(name)):
        with pytest.raises(NadiError) as raised:
            call()
        assert raised.value.condition == "APP_NAME_INVALID"
    assert list(tmp_path.iterdir()) == []


def test_what_was_written_is_read_and_nobody_else_may_read_it(tmp_path: Path):
    files = AppFiles(tmp_path, 100)
    files.write("A", "text ü")
    assert files.scan()["A"].text == "text ü"
    assert (tmp_path / "A.siddhi").stat().st_mode & 0o777 == 0o600
    assert files.remove("A")
    assert not files.remove("A")
    assert files.scan() == {}


def test_links_folders_and_other_files_are_no_apps(tmp_path: Path):
    secret = tmp_path / "secret"
    secret.write_text("x")
    folder = tmp_path / "apps"
    folder.mkdir()
    (folder / "Link.siddhi").symlink_to(secret)
    (folder / "Folder.siddhi").mkdir()
    (folder / ".half.siddhi").write_text("x")
    (folder / "notes.txt").write_text("x")
    os.mkfifo(folder / "Pipe.siddhi")
    assert AppFiles(folder, 100).scan() == {}


def test_a_file_that_is_no_text_or_too_large_says_so(tmp_path: Path):
    (tmp_path / "A.siddhi").write_bytes(b"\xff\xfe")
    (tmp_path / "B.siddhi").write_bytes(b"x" * 101)
    found = AppFiles(tmp_path, 100).scan()
    assert "UTF-8" in found["A"].problem
    assert "more than 100 bytes" in found["B"].problem


def test_a_home_is_private(tmp_path: Path):
    home = open_home(tmp_path / "home")
    home.make()
    for folder in (home.folder, home.state, home.security):
        assert folder.stat().st_mode & 0o777 == 0o700
    home.state.chmod(0o755)
    home.make()
    assert home.state.stat().st_mode & 0o777 == 0o700


def test_a_link_in_the_place_of_a_private_folder_is_refused(tmp_path: Path):
    (tmp_path / "real").mkdir()
    (tmp_path / "state").symlink_to(tmp_path / "real")
    with pytest.raises(NadiError) as raised:
        make_private(tmp_path / "state")
    assert raised.value.condition == "FOLDER_NOT_PRIVATE"


def test_a_file_that_has_not_changed_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    files = AppFiles(tmp_path, 100)
    read: list[str] = []
    before = AppFiles._read
    monkeypatch.setattr(AppFiles, "_read", lambda self, name: (read.append(name), before(self, name))[1])
    for name in "AB":
        files.write(name, name)
        os.utime(tmp_path / f"{name}.siddhi", (1_000_000_000, 1_000_000_000))
    assert [files.scan()["A"].text for _ in range(3)] == ["A"] * 3
    assert sorted(read) == ["A", "B"]
    files.write("A", "C")  # as long as before, and just now
    assert [files.scan()["A"].text for _ in range(2)] == ["C"] * 2
    assert read[2:] == ["A", "A"]  # it may change again in the tick in which it was read


def test_a_file_of_the_same_size_and_time_that_is_another_one_is_read(tmp_path: Path):
    files = AppFiles(tmp_path, 100)
    files.write("A", "one")
    os.utime(tmp_path / "A.siddhi", (1_000_000_000, 1_000_000_000))
    assert files.scan()["A"].text == "one"
    files.write("A", "two")
    os.utime(tmp_path / "A.siddhi", (1_000_000_000, 1_000_000_000))
    assert files.scan()["A"].text == "two"


@pytest.mark.parametrize("name", ["revisions", "statistics"])
def test_a_name_that_a_path_of_the_rest_api_has_is_refused(tmp_path: Path, name: str):
    with pytest.raises(NadiError, match="APP_NAME_RESERVED"):
        AppFiles(tmp_path, 100).write(name, "x")
