"""Finding 8 (revisions that all can read, and that others can put there) and finding 14 (what a manifest says of paths and sizes)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nadi.errors import NadiError
from nadi.kernel.contract import Segment
from nadi.kernel.rows.payloads import VERSION, encode_entries
from nadi.persistence.files import FileStore
from nadi.persistence.revisions import Meta, read_revision, write_revision

APP = "Orders"


def written(store: FileStore) -> str:
    meta = Meta(APP, "define stream S (a int);", {"clock": 1}, 1, {}, {"state": str(VERSION)})
    payload = encode_entries([("", "key", {"held": ["d", 0, [(1, (b"x" * 1_000,))]]})])
    return write_revision(store, meta, [[Segment("q/window", 0, payload)]], 1_000)


def test_revisions_are_for_their_user_only(tmp_path: Path):
    before = os.umask(0)
    try:
        written(FileStore(tmp_path / "kept" / "revisions"))
    finally:
        os.umask(before)
    assert [p for p in (tmp_path / "kept").rglob("*") if p.stat().st_mode & 0o077] == []


@pytest.mark.parametrize("folder", [APP, f"{APP}/segments"])
def test_revisions_that_others_may_have_written_are_neither_read_nor_written(tmp_path: Path, folder: str):
    store = FileStore(tmp_path)
    name = written(store)
    (tmp_path / folder).chmod(0o777)
    for attempt in (lambda: read_revision(store, APP, name), lambda: written(store)):
        with pytest.raises(NadiError) as raised:
            attempt()
        assert raised.value.condition == "FOLDER_NOT_PRIVATE"
