"""Small files of the state folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from nadi.errors import NadiError
from nadi.io.durablefiles import read_note


@pytest.mark.parametrize("content", [b"", b"{", b"[" * 100_000, b'{"a":' * 100_000, b'"\xff"'])
def test_a_note_that_is_damaged_is_a_named_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "note.json").write_bytes(content)
    with pytest.raises(NadiError, match="STATE_FILE_NOT_READABLE"):
        read_note(tmp_path / "note.json")


def test_a_note_that_is_not_there_is_told_from_one_that_is_damaged(tmp_path: Path) -> None:
    (tmp_path / "note.json").write_bytes(b"5")
    assert read_note(tmp_path / "note.json", int) == 5
    with pytest.raises(FileNotFoundError):
        read_note(tmp_path / "other.json")
