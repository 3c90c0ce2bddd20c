"""The error store in a database: rows once per cut, whatever is repeated or away; the same ids, filters and purges as in the state folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from servers.emptydatabase import EmptyDatabase

from nadi.config import DataSource, ErrorStoring
from nadi.errors import NadiError
from nadi.io import errorstore
from nadi.io.errorfile import FileErrorStore
from nadi.io.errorstore import ErrorStore, Wanted
from nadi.io.errorstores import error_store, note_store, noted_store

pytestmark = pytest.mark.timeout(120)


def settings(database: EmptyDatabase, table: str = "Errors") -> ErrorStoring:
    address = database.address
    return ErrorStoring(datasource=DataSource("DB", address.url, address.user, address.password), table=table)


def row(cut: int, time: int = 0, kind: str = "source", stream: str = "S", payload: bytes = b"p") -> dict[str, Any]:
    about = {"time": time, "app": "A", "kind": kind, "origin": f"{kind} of {stream}", "stream": stream, "reason": "ü😀"}
    return about | {"partition": 0, "position": 1} | errorstore.payload_fields(payload) | {"cut": cut}


def put(state: Path, store: ErrorStore, cut: int, *rows: dict[str, Any], bucket: int = 0) -> None:
    errorstore.stage(state, cut, bucket, rows)
    store.commit(cut, [bucket])


def ids(store: ErrorStore, *wanted: Any, **more: Any) -> list[str]:
    return [found["id"] for found in store.rows(*wanted, **more)]


def test_a_cut_is_kept_once_with_all_of_its_rows_in_order_and_other_apps_and_folders_are_apart(
    tmp_path: Path, database: EmptyDatabase
):
    (tmp_path / "a").mkdir()
    store = error_store(tmp_path / "a", "A", settings(database))
    assert "Errors" in store.name
    assert ids(store) == []
    rows = [row(1, payload=p) for p in (b"te\x00xt", b"\xff\x00")]
    for _ in range(2):
        put(tmp_path / "a", store, 1, *rows)
    put(tmp_path / "a", store, 2, *[row(2, n) for n in range(2_500)], bucket=1)
    store.commit(3, [])
    found = list(store.rows())
    assert found[:2] == [{"id": "1-0-0", **rows[0]}, {"id": "1-0-1", **rows[1]}]
    assert [each["id"] for each in found[2:]] == [f"2-1-{n}" for n in range(2_500)]
    assert [errorstore.payload_of(each) for each in found[:2]] == [b"te\x00xt", b"\xff\x00"]
    assert not any((tmp_path / "a" / "errors" / "stage").iterdir())
    for other, app in (("a", "a"), ("b", "A")):
        (tmp_path / other).mkdir(exist_ok=True)
        assert ids(error_store(tmp_path / other, app, settings(database))) == []


def test_rows_are_chosen_and_purged_as_in_the_state_folder(tmp_path: Path, database: EmptyDatabase):
    both: list[ErrorStore] = []
    for name, store in (
        ("f", FileErrorStore(tmp_path / "f")),
        ("d", error_store(tmp_path / "d", "A", settings(database))),
    ):
        (tmp_path / name).mkdir(exist_ok=True)
        put(tmp_path / name, store, 1, row(1, 10), row(1, 20, "query"), row(1, 30, "sink", "T"))
        put(tmp_path / name, store, 2, row(2, 40))
        both.append(store)
    chosen = [
        Wanted(),
        Wanted(kind="query"),
        Wanted(stream="T"),
        Wanted(since=20, until=40),
        Wanted(ids=frozenset(("1-0-0", "2-0-0", "9-9-9", "rubbish"))),
    ]
    for wanted in chosen:
        for limit in (0, 2):
            files, table = (ids(store, wanted, limit=limit) for store in both)
            assert files == table != []
    assert ids(both[1], Wanted(ids=frozenset(("rubbish",)))) == []
    for wanted, count in ((chosen[4], 2), (chosen[4], 0), (Wanted(until=30), 1), (Wanted(), 1)):
        assert [store.purge(wanted) for store in both] == [count, count]


def test_while_the_database_is_away_a_commit_says_so_and_a_later_one_keeps_all(tmp_path: Path, database: EmptyDatabase):
    store = error_store(tmp_path, "A", settings(database))
    put(tmp_path, store, 1, row(1))
    errorstore.stage(tmp_path, 2, 0, [row(2), row(2)])
    with database.away():
        with pytest.raises(NadiError) as away:
            store.commit(2, [0])
        assert away.value.condition == "CONNECTION_UNAVAILABLE"
        assert "sec" not in str(away.value)
    store.commit(2, [0])
    assert ids(store) == ["1-0-0", "2-0-0", "2-0-1"]


def test_the_state_folder_says_which_database_has_its_rows_and_no_password(tmp_path: Path, database: EmptyDatabase):
    chosen = settings(database)
    store = error_store(tmp_path, "A", chosen)
    assert noted_store(tmp_path) == ""
    note_store(tmp_path, store)
    assert noted_store(tmp_path) == store.name
    assert database.address.password not in store.name or not database.address.password
    note_store(tmp_path, FileErrorStore(tmp_path))
    assert noted_store(tmp_path) == ""


def test_a_table_that_is_none_is_refused(tmp_path: Path, database: EmptyDatabase):
    with pytest.raises(NadiError) as wrong:
        error_store(tmp_path, "A", settings(database, "x; drop table y"))
    assert wrong.value.condition == "INVALID_SETTING"
