"""Finding 13: with a key, a store gives back only revisions that a holder of the key has made."""

from __future__ import annotations

import gzip
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nadi.config import Persistence
from nadi.config.deployment import as_yaml, deployment_of
from nadi.errors import NadiError
from nadi.kernel.contract import Segment
from nadi.kernel.rows.payloads import VERSION
from nadi.persistence.files import FileStore
from nadi.persistence.revisions import Meta, Revision, newest_good, read_revision, write_revision
from nadi.persistence.signatures import opened, signed
from nadi.persistence.stores import store_of

KEY, OTHER = "k" * 32, "o" * 32
META = Meta("A", "define stream S (a int);", {"n": 1, "clock": 5}, 5, {}, {"state": str(VERSION)})
STATE = [[Segment("q/window", 0, b"\x94\x02\xc2\x90\x90")]]


def made(folder: Path, key: str = "", now: int = 1) -> str:
    store = store_of(Persistence(location="revisions", secret_key=key), folder)
    return write_revision(store, META, STATE, now)


def read(folder: Path, key: str = "") -> Revision:
    return read_revision(store_of(Persistence(location="revisions", secret_key=key), folder), "A").revision


def test_a_revision_is_read_with_the_key_that_made_it(tmp_path: Path) -> None:
    made(tmp_path, KEY)
    assert read(tmp_path, KEY).meta == META


@pytest.mark.parametrize(
    ("with_key", "said"), [("", "it has no signature"), (OTHER, "its signature is of another key")]
)
def test_a_revision_of_somebody_else_is_refused(tmp_path: Path, with_key: str, said: str) -> None:
    made(tmp_path, with_key)
    with pytest.raises(NadiError, match=said) as failed:
        read(tmp_path, KEY)
    assert failed.value.condition == "REVISION_NOT_SIGNED"


def test_without_a_key_a_signed_revision_can_be_read_and_a_new_one_is_not_signed(tmp_path: Path) -> None:
    made(tmp_path, KEY)
    assert read(tmp_path).meta == META
    made(tmp_path, now=2)
    assert read(tmp_path).made == 2


def test_a_manifest_that_was_changed_is_refused_and_an_older_revision_is_taken(tmp_path: Path) -> None:
    first, second = made(tmp_path, KEY, 1), made(tmp_path, KEY, 2)
    plain = FileStore(tmp_path / "revisions")
    stored = plain.manifest("A", second)
    assert stored is not None
    manifest = opened(KEY.encode(), "A", second, stored)
    changed = msgspec.structs.replace(msgspec.json.decode(gzip.decompress(manifest), type=Revision), made=99)
    with plain.writing("A") as turn:
        turn.save(second, stored[:40] + gzip.compress(msgspec.json.encode(changed)))
    with pytest.raises(NadiError, match="REVISION_NOT_SIGNED"):
        read(tmp_path, KEY)
    found, problems = newest_good(store_of(Persistence(location="revisions", secret_key=KEY), tmp_path), "A")
    assert found is not None
    assert found.revision.name == first
    assert [p.condition for p in problems] == ["REVISION_NOT_SIGNED"]


def test_a_signature_is_of_one_app_and_one_revision(tmp_path: Path) -> None:
    stored = signed(b"key", "A", "1__A", b"manifest")
    assert opened(b"key", "A", "1__A", stored) == b"manifest"
    for app, name in (("B", "1__A"), ("A", "2__A"), ("A1", "__A"), ("", "A1__A")):
        with pytest.raises(NadiError, match="REVISION_NOT_SIGNED"):
            opened(b"key", app, name, stored)


@given(st.integers(0, 47), st.integers(1, 255))
def test_any_byte_that_was_changed_is_noticed(place: int, by: int) -> None:
    stored = bytearray(signed(b"key", "A", "1__A", b"manifest"))
    stored[place] ^= by
    with pytest.raises(NadiError, match="REVISION_NOT_SIGNED"):
        opened(b"key", "A", "1__A", bytes(stored))


def test_a_key_that_can_be_guessed_is_refused_without_being_shown() -> None:
    with pytest.raises(NadiError, match="at least 32 random characters") as failed:
        deployment_of({"state.persistence": {"config": {"secretKey": "hunter2"}}}, {})
    assert "hunter2" not in str(failed.value)
    content = {"state.persistence": {"config": {"secretKey": "${env:KEY}"}}}
    found = deployment_of(content, {"env": {"KEY": KEY}.get})
    assert found.persistence.secret_key == KEY
    assert KEY not in repr(found.persistence)
    assert KEY not in str(as_yaml(found))
