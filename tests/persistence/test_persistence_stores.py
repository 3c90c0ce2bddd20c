"""What every store of revisions does, on files and real databases."""

from __future__ import annotations

import gzip
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec
import pytest
import sqlalchemy as sa

from nadi.errors import NadiError
from nadi.kernel.contract import Segment
from nadi.kernel.rows.payloads import VERSION, encode_entries
from nadi.kernel.segments import Part
from nadi.persistence.contract import Store
from nadi.persistence.revisions import (
    Meta,
    delete_revision,
    newest_good,
    read_revision,
    write_revision,
)
from tests.persistence.conftest import IMPATIENT, Place

APP = "Orders of Zürich/1"
CUT = {"n": 7, "epoch": 2, "clock": 12_345, "started": 1, "ends": {"0": {"0": 99}}, "begins": {}, "highs": {}}


def meta(app: str = APP, **more: object) -> Meta:
    return Meta(app, "define stream S (a int);", {**CUT, **more}, 12_345, {"q/window": "00ff"}, {"state": str(VERSION)})


def segment(element: str, group: int, *keys: str, size: int = 10, seed: int = 0) -> Segment:
    cells = {"held": ["d", 0, [(1, (random.Random(f"{key}{seed}").randbytes(size),)) for key in keys]]}
    return Segment(element, group, encode_entries(("", key, cells) for key in keys))


STATE: list[list[Part]] = [
    [
        segment("q/window", 0, "a", "b"),
        segment("q/window", 5, "c"),
        segment("q/selector", 0, "a"),
        b"delta 1",
        b"delta 2",
    ],
    [segment("q/window", 100, "d"), segment("q/selector", 127, "d")],
]


def parts(store: Store, name: str | None = None, app: str = APP) -> list[list[Part]]:
    found = read_revision(store, app, name)
    return [list(found.parts(bucket)) for bucket in range(found.buckets)]


def stored_blobs(store: Store, app: str = APP) -> dict[str, bytes]:
    """All blobs that any revision of an app needs, as they are stored."""
    addresses = {a for name in store.names(app) for a in read_revision(store, app, name).revision.addresses}
    return {address: b"".join(store.blob(app, address)) for address in addresses}


def condition(call: object) -> str:
    with pytest.raises(NadiError) as caught:
        call()  # type: ignore[operator]
    return caught.value.condition


# ---- what is written comes back ---------------------------------------------------------------------------------------


def test_a_revision_comes_back_in_another_process(place: Place) -> None:
    name = write_revision(place.open(), meta(), STATE, 1_700_000_000_000)
    assert name == f"1700000000000__{APP}"
    other = place.open()
    assert (other.apps(), other.names(APP)) == ([APP], [name])
    found = read_revision(other, APP)
    assert found.revision.meta == meta()
    assert found.revision.keys == {"q/window": 4, "q/selector": 2}
    assert parts(other, name) == STATE


def test_a_store_without_revisions_says_so(store: Store) -> None:
    assert (store.apps(), store.names(APP), newest_good(store, APP)) == ([], [], (None, []))
    assert condition(lambda: read_revision(store, APP)) == "REVISION_NOT_FOUND"
    assert condition(lambda: delete_revision(store, APP, "1__x")) == "REVISION_NOT_FOUND"


def test_apps_do_not_meet_even_if_they_differ_in_case_only(store: Store) -> None:
    for app, value in (("orders", "1"), ("Orders", "2")):
        write_revision(store, meta(app), [[segment("q/window", 0, value)]], 1_000)
    assert store.apps() == ["Orders", "orders"]
    assert parts(store, app="orders") != parts(store, app="Orders")


def test_a_large_segment_comes_back(store: Store) -> None:
    state: list[list[Part]] = [[segment("T/table", 0, "", size=5_000_000)], []]
    write_revision(store, meta(), state, 1_000)
    assert parts(store) == state


def test_what_did_not_change_is_not_written_again(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    store = place.open()
    write_revision(store, meta(), STATE, 1_000)
    first = read_revision(store, APP).revision
    from nadi.persistence import pieces

    written: list[str] = []
    real = pieces.store
    monkeypatch.setattr(pieces, "store", lambda content, sink: written.append(content.element) or real(content, sink))
    changed = [list(STATE[0]), [segment("q/window", 100, "d", seed=1), *STATE[1][1:]]]
    write_revision(store, meta(), changed, 2_000)
    assert written == ["q/window"]
    second = read_revision(store, APP).revision
    assert len(first.addresses & second.addresses) == len(second.addresses) - 1
    assert parts(store, first.name) == STATE
    assert parts(store, second.name) == changed


def test_so_many_revisions_are_kept_and_what_only_older_ones_need_goes(place: Place) -> None:
    store = place.open()
    for n in range(5):
        write_revision(store, meta(n=n), [[segment("q/window", 0, "a", seed=n), *STATE[1]]], n, keep=2)
    assert store.names(APP) == [f"3__{APP}", f"4__{APP}"]
    assert place.blobs() == set(stored_blobs(store))
    assert [read_revision(store, APP, n).revision.meta.cut["n"] for n in store.names(APP)] == [3, 4]


def test_a_deleted_revision_takes_only_what_is_its_own(place: Place) -> None:
    store = place.open()
    one = write_revision(store, meta(), STATE, 1)
    two = write_revision(store, meta(), [STATE[0], []], 2)
    delete_revision(store, APP, one)
    assert store.names(APP) == [two]
    assert parts(store) == [STATE[0], []]
    assert place.blobs() == set(stored_blobs(store))
    delete_revision(store, APP, two)
    assert (store.names(APP), place.blobs()) == ([], set())


def test_names_stay_in_order_when_the_clock_is_set_back_by_an_hour(store: Store) -> None:
    now = 1_700_000_000_000
    names = [write_revision(store, meta(n=n), [[]], at) for n, at in enumerate((now, now - 3_600_000, now, now + 5))]
    assert names == [f"{now + n}__{APP}" for n in (0, 1, 2, 5)]
    assert store.names(APP) == names
    assert read_revision(store, APP).revision.meta.cut["n"] == 3


def test_two_writers_of_one_app_take_turns(place: Place) -> None:
    problems: list[BaseException] = []

    def write(seed: int) -> None:
        try:
            store = place.open()
            for n in range(4):
                write_revision(store, meta(), [[segment("q/window", 0, "a", seed=seed * 10 + n)]], n, keep=3)
        except BaseException as problem:
            problems.append(problem)

    writers = [threading.Thread(target=write, args=(seed,)) for seed in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert problems == []
    store = place.open()
    assert len(store.names(APP)) == 3
    for name in store.names(APP):
        read_revision(store, APP, name).verify()


# ---- faults -------------------------------------------------------------------------------------------------------------


DAMAGES = {
    "gone": lambda data: None,
    "cut short": lambda data: data[: len(data) // 2],
    "empty": lambda data: b"",
    "one bit": lambda data: data[:-8] + bytes([data[-8] ^ 1]) + data[-7:],
    "noise": lambda data: random.Random(1).randbytes(len(data)),
}


@pytest.mark.parametrize("how", DAMAGES)
def test_a_damaged_segment_is_noticed_and_the_revision_before_is_used(place: Place, how: str) -> None:
    store = place.open()
    good = write_revision(store, meta(n=1), STATE, 1)
    bad = write_revision(store, meta(n=2), [[segment("q/window", 0, "z"), *STATE[0][1:]], STATE[1]], 2)
    (own,) = read_revision(store, APP, bad).revision.addresses - read_revision(store, APP, good).revision.addresses
    place.damage(APP, own, DAMAGES[how])
    found, problems = newest_good(store, APP)
    assert found is not None
    assert found.revision.name == good
    assert [p.condition for p in problems] == ["REVISION_DAMAGED"]
    assert "q/window" in str(problems[0])
    assert condition(read_revision(store, APP, bad).verify) == "REVISION_DAMAGED"


@pytest.mark.parametrize("how", DAMAGES)
def test_a_revision_after_a_damaged_one_does_not_rely_on_it(place: Place, how: str) -> None:
    store = place.open()
    first = write_revision(store, meta(), STATE, 1)
    for address in read_revision(store, APP, first).revision.addresses:
        place.damage(APP, address, DAMAGES[how])
    assert condition(lambda: newest_good(store, APP)) == "NO_GOOD_REVISION"
    # what was found to be damaged is written anew; the rest comes to light the same way
    for _try in range(20):
        name = write_revision(store, meta(), STATE, 2)
        try:
            read_revision(store, APP, name).verify()
            break
        except NadiError:
            continue
    assert parts(store, name) == STATE


def test_a_segment_that_was_cut_short_is_written_again(place: Place) -> None:
    store = place.open()
    first = write_revision(store, meta(), STATE, 1)
    for address in read_revision(store, APP, first).revision.addresses:
        place.damage(APP, address, DAMAGES["cut short"])
    write_revision(store, meta(), STATE, 2)
    assert parts(store) == STATE


def _replace_manifest(place: Place, name: str, change: Callable[[bytes], bytes]) -> None:
    store = place.open()
    manifest = store.manifest(APP, name)
    assert manifest is not None
    with store.writing(APP) as turn:
        turn.delete([name])
        turn.save(name, change(manifest))


FOREIGN = {
    "half of it": lambda data: data[: len(data) // 2],
    "one bit": lambda data: data[:40] + bytes([data[40] ^ 4]) + data[41:],
    "not gzip": lambda data: b"\xac\xed\x00\x05sr\x00\x11java.util.HashMap",
    "java": lambda data: gzip.compress(b"\xac\xed\x00\x05sr\x00\x11java.util.HashMap"),
    "a later format": lambda data: gzip.compress(
        msgspec.json.encode({**msgspec.json.decode(gzip.decompress(data)), "format": 9})
    ),
    "a later state": lambda data: gzip.compress(gzip.decompress(data).replace(b'"state":"2"', b'"state":"3"')),
    "another app": lambda data: gzip.compress(gzip.decompress(data).replace(b'"app":"Orders', b'"app":"Order')),
}


@pytest.mark.parametrize("how", FOREIGN)
def test_a_manifest_that_is_none_is_noticed_and_the_revision_before_is_used(place: Place, how: str) -> None:
    store = place.open()
    good, bad = (write_revision(store, meta(n=n), STATE, n) for n in (1, 2))
    _replace_manifest(place, bad, FOREIGN[how])
    found, problems = newest_good(store, APP)
    assert found is not None
    assert (found.revision.name, [p.condition for p in problems]) == (good, ["REVISION_DAMAGED"])
    assert condition(lambda: read_revision(store, APP, bad)) == "REVISION_DAMAGED"
    # nobody knows what it needs: nothing is swept while it is there
    needed = read_revision(store, APP, good).revision.addresses
    write_revision(store, meta(), [[segment("q/window", 0, "new")]], 3, keep=2)
    assert store.names(APP) == [bad, f"3__{APP}"]
    assert needed < place.blobs()
    write_revision(store, meta(), [[segment("q/window", 0, "newer")]], 4, keep=2)
    assert place.blobs() == set(stored_blobs(store))


class Broken(Exception):
    """What a side job may run into."""


def _breaking(after: int) -> Iterable[Iterable[Part]]:
    def parts_of() -> Iterable[Part]:
        for n in range(after):
            yield segment("q/window", n * 16 % 128, f"key {n}", size=300_000)
        raise Broken

    return [STATE[0], parts_of()]


@pytest.mark.parametrize("after", [0, 3])
def test_a_half_written_revision_is_none(place: Place, after: int) -> None:
    store = place.open()
    good = write_revision(store, meta(), STATE, 1)
    before = place.blobs()
    with pytest.raises(Broken):
        write_revision(store, meta(), _breaking(after), 2)
    assert place.blobs() == before
    other = place.open()
    assert other.names(APP) == [good]
    assert parts(other) == STATE
    write_revision(other, meta(), STATE, 3, keep=1)
    assert place.blobs() == set(stored_blobs(other))


KILLED = """
import os, signal, sys
from tests.persistence.conftest import reopened
from tests.persistence.test_persistence_stores import STATE, meta, segment
from nadi.persistence.revisions import write_revision

def parts():
    yield segment("q/window", 0, "k", size=3_000_000)
    yield segment("q/other", 0, "k", size=3_000_000)
    os.kill(os.getpid(), signal.SIGKILL)

write_revision(reopened(sys.argv[1:]), meta(), [parts()], 2)
"""


def test_a_writer_that_is_killed_leaves_the_revisions_before(place: Place) -> None:
    place.patience = IMPATIENT
    store = place.open()
    good = write_revision(store, meta(), STATE, 1)
    done = subprocess.run(
        [sys.executable, "-c", KILLED, *place.where], env={**os.environ}, check=False, capture_output=True
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert store.names(APP) == [good]
    assert parts(store) == STATE
    next_one = write_revision(store, meta(), STATE, 2, keep=1)
    assert parts(store, next_one) == STATE
    assert place.blobs() == set(stored_blobs(store))
    assert not list(place.folder.rglob(".*.new"))


# ---- files only -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterable[Path]:
    """A file system of one megabyte."""
    folder = tmp_path / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    mounted = subprocess.run(command, check=False, capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_a_full_disk_has_a_name_and_the_next_revision_fits_again(small_disk: Path) -> None:
    from nadi.persistence.files import FileStore

    store = FileStore(small_disk)
    good = write_revision(store, meta(), STATE, 1)
    too_much: list[list[Part]] = [
        [segment("q/window", 0, "a", size=900_000), segment("q/window", 99, "b", size=900_000)]
    ]
    with pytest.raises(NadiError) as caught:
        write_revision(store, meta(), too_much, 2)
    assert (caught.value.condition, caught.value.siddhi_class) == ("DISK_FULL", "ConnectionUnavailableException")
    assert store.names(APP) == [good]
    assert parts(store) == STATE
    write_revision(store, meta(), [STATE[0]], 3, keep=1)
    write_revision(store, meta(), [[segment("q/window", 0, "a", size=500_000)]], 4, keep=1)
    assert store.names(APP) == [f"4__{APP}"]


def test_a_segment_that_may_not_be_read_is_as_good_as_damaged(tmp_path: Path) -> None:
    from nadi.persistence.files import FileStore

    store = FileStore(tmp_path)
    good = write_revision(store, meta(), STATE, 1)
    bad = write_revision(store, meta(), [[segment("q/window", 0, "z")]], 2)
    (own,) = read_revision(store, APP, bad).revision.addresses
    (path,) = tmp_path.glob(f"*/segments/{own}.zst")
    path.unlink()
    path.mkdir()  # root may read any file, and no folder as a file
    found, problems = newest_good(store, APP)
    assert found is not None
    assert (found.revision.name, [p.condition for p in problems]) == (good, ["PERSISTENCE_STORE_FAILED"])


# ---- databases only -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["postgresql", "mariadb"], indirect=True)
def test_a_database_that_goes_away_during_a_write_has_a_name_and_keeps_what_it_had(place: Place) -> None:
    assert place.server is not None
    store = place.open()
    good = write_revision(store, meta(), STATE, 1)
    server = place.server

    def parts_of() -> Iterable[Part]:
        yield segment("q/window", 0, "k", size=2_000_000)
        server.kill()
        yield segment("q/other", 0, "k", size=2_000_000)

    try:
        with pytest.raises(NadiError) as caught:
            write_revision(store, meta(), [parts_of()], 2)
        assert (caught.value.condition, caught.value.siddhi_class) == (
            "PERSISTENCE_STORE_FAILED",
            "PersistenceStoreException",
        )
        assert server.password not in str(caught.value)
        assert condition(lambda: store.names(APP)) == "PERSISTENCE_STORE_FAILED"
    finally:
        server.start()
    assert store.names(APP) == [good]
    assert parts(store) == STATE
    assert parts(store, write_revision(store, meta(), STATE, 3)) == STATE
    assert place.blobs() == set(stored_blobs(store))


@pytest.mark.parametrize("place", ["postgresql"], indirect=True)
def test_in_postgresql_the_table_is_as_wso2_makes_it(place: Place) -> None:
    store = place.open()
    with place.engine().connect() as connection:
        before = connection.execute(sa.text("SELECT count(*) FROM pg_largeobject_metadata")).scalar_one()
    for n in range(3):
        write_revision(store, meta(), STATE, n, keep=1)
    with place.engine().connect() as connection:
        asked = sa.text("SELECT column_name, data_type FROM information_schema.columns WHERE table_name = :name")
        found = {(n, t) for n, t in connection.execute(asked, {"name": place.table.lower()})}
        assert found == {
            ("id", "bigint"),
            ("siddhiappname", "character varying"),
            ("revision", "character varying"),
            ("snapshot", "bigint"),
        }
        # large objects go with their revisions
        kept = connection.execute(sa.text(f"SELECT snapshot FROM {place.table}")).scalars().all()
        there = connection.execute(sa.text("SELECT oid::bigint FROM pg_largeobject_metadata")).scalars().all()
        assert (len(kept), set(kept) <= set(there), len(there) - before) == (1, True, 1)


@pytest.mark.parametrize("place", ["mariadb"], indirect=True)
def test_in_mariadb_the_table_is_as_wso2_makes_it(place: Place) -> None:
    store = place.open()
    write_revision(store, meta(), STATE, 1)
    with place.engine().connect() as connection:
        found = {row[0]: row[1] for row in connection.execute(sa.text(f"SHOW COLUMNS FROM {place.table}"))}
    assert found == {
        "id": "bigint(20)",
        "siddhiAppName": "varchar(100)",
        "revision": "varchar(300)",
        "snapshot": "longblob",
    }
