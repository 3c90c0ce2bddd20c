"""A file of SQLite that several begin to use at the same moment."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from nadi.databases import Address, connect, engines


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """Has a transaction under way, which keeps others from changing how the file is written. For that one SQLite does not wait itself."""
    with closing(sqlite3.connect(tmp_path / "new.db", isolation_level=None)) as made:
        made.execute("BEGIN IMMEDIATE")
        yield made


def mode(folder: Path) -> str:
    engine = connect(Address(f"jdbc:sqlite:{folder}/new.db"))
    try:
        with engine.connect() as connection:
            return str(connection.execute(text("PRAGMA journal_mode")).scalar())
    finally:
        engine.dispose()


def test_who_changes_how_the_file_is_written_waits_for_those_who_use_it(
    tmp_path: Path, writer: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = []

    def look(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 3:
            writer.execute("COMMIT")

    monkeypatch.setattr(engines.time, "sleep", look)
    assert mode(tmp_path) == "wal"
    assert len(looks) == 3


def test_but_not_for_ever(tmp_path: Path, writer: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "BUSY_WITHIN", 0.05)
    with pytest.raises(OperationalError, match="locked"):
        mode(tmp_path)
