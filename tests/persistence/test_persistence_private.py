"""Finding 8 (revisions that all can read, and that others can put there) and finding 14 (what a manifest says of paths and sizes)."""

from __future__ import annotations

import gzip
import os
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from nadi.errors import NadiError
from nadi.kernel.contract import Segment
from nadi.kernel.rows.payloads import VERSION, encode_entries
from nadi.persistence import pieces, revisions
from nadi.persistence.files import FileStore
from nadi.persistence.revisions import Meta, newest_good, read_revision, write_revision

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


def tampered(store: FileStore, folder: Path, **told: object) -> str:
    """A revision whose manifest says something else of its piece."""
    name = written(store)
    (manifest,) = [p for p in (folder / APP).iterdir() if p.is_file() and not p.name.startswith(".")]
    said = msgspec.json.decode(gzip.decompress(manifest.read_bytes()))
    said["state"][0][0].update(told)
    manifest.write_bytes(gzip.compress(msgspec.json.encode(said)))
    return name


@pytest.mark.parametrize(
    "told",
    [
        {"sha256": "../../../../etc/passwd"},
        {"sha256": "ab/" + "c" * 61},
        {"sha256": "A" * 64},
        {"sha256": "a" * 64 + "\n"},
        {"sha256": ""},
        {"bytes": -5},
        {"bytes": 1 << 40},
        {"stored": -1},
        {"groups": [-1, 0]},
    ],
)
def test_a_manifest_that_says_what_no_writer_says_is_damaged(tmp_path: Path, told: dict[str, object]):
    store = FileStore(tmp_path)
    name = tampered(store, tmp_path, **told)
    with pytest.raises(NadiError) as raised:
        read_revision(store, APP, name)
    assert raised.value.condition == "REVISION_DAMAGED"
    with pytest.raises(NadiError, match="NO_GOOD_REVISION"):
        newest_good(store, APP)


def test_a_manifest_that_unfolds_to_more_than_any_has_is_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(revisions, "MANIFEST", 10_000)
    store = FileStore(tmp_path)
    name = written(store)
    assert read_revision(store, APP, name)
    (tmp_path / APP / name).write_bytes(gzip.compress(b" " * 10_001))
    with pytest.raises(NadiError, match="more than 10,000 bytes"):
        read_revision(store, APP, name)


@pytest.mark.parametrize("damage", [lambda m: m[:-3], lambda m: m + b"x", lambda m: b"", lambda m: b"no gzip"])
def test_a_manifest_that_is_not_whole_is_damaged(tmp_path: Path, damage: Callable[[bytes], bytes]):
    store = FileStore(tmp_path)
    name = written(store)
    manifest = tmp_path / APP / name
    manifest.write_bytes(damage(manifest.read_bytes()))
    with pytest.raises(NadiError) as raised:
        read_revision(store, APP, name)
    assert raised.value.condition == "REVISION_DAMAGED"


def test_a_length_that_is_only_claimed_takes_no_memory(tmp_path: Path):
    """A record of the piece claims almost all that a piece may have, and ends there."""
    store = FileStore(tmp_path)
    head = b"NADI\x01" + struct.pack("!BHHQ", 2, 0, 0, pieces.MOST - 1)
    (tmp_path / APP / "segments").mkdir(parents=True)
    piece = pieces.Piece("", (0, 0), 0, pieces.MOST, len(head), "a" * 64)
    made = pa.BufferOutputStream()
    with pa.CompressedOutputStream(made, "zstd") as out:
        out.write(head)
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="cut short"):
            list(pieces.load(piece, [made.getvalue().to_pybytes()]))
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 64 << 20
    assert store.names(APP) == []
