"""Servers for tests leave each other alone."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from servers.databases import NotPossible, mariadb


def test_a_server_that_is_made_while_another_one_is_leaves_its_temporary_tables_alone(monkeypatch: pytest.MonkeyPatch):
    with tempfile.TemporaryDirectory(prefix="nadi-db-") as shared:
        Path(shared).chmod(0o777)  # the server may be another user
        other = Path(shared) / "#sql-temptable-12b2-1-3.MAI"
        other.touch()
        other.chmod(0o666)
        monkeypatch.setenv("TMPDIR", shared)  # where temporary tables are unless somebody says otherwise
        try:
            with mariadb():
                assert other.exists()
        except NotPossible as reason:
            pytest.skip(str(reason))
