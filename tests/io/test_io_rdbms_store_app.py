"""Apps whose tables are in a database, in this process: each kind of query, what fails, and what others do meanwhile."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nadi.errors import NadiError
from nadi.runtime import Runtime

TEXT = """
@OnError(action='STREAM') define stream In (k string, n int);
define stream Del (k string); define stream Ask (k string, n int);
@store(type='rdbms', jdbc.url='jdbc:sqlite:{folder}/t.db', field.length='k:5'{more}) @primaryKey('k') define table T (k string, n int);
from In insert into T;
from Del delete T on T.k == k;
from Ask update T set T.n = T.n + n on T.k == k;
from Ask join T on Ask.k == T.k and str:length(T.k) < 3 select T.k as k, T.n as n insert into Joined;
from Ask[T.n > n * 10 in T] select k insert into Found;
from !In select k, _error as why insert into Failed;
"""
Make = Callable[..., tuple[Runtime, dict[str, list[Any]]]]


@pytest.fixture
def made(tmp_path: Path) -> Make:
    def make(more: str = "") -> tuple[Runtime, dict[str, list[Any]]]:
        app = Runtime(TEXT.format(folder=tmp_path, more=more))
        heard: dict[str, list[Any]] = {}
        for stream in ("Joined", "Found", "Failed"):
            rows = heard.setdefault(stream, [])
            app.on_stream(stream, lambda chunk, rows=rows: rows.extend(event.row for event in chunk))
        app.start()
        return app, heard

    return make


@pytest.mark.parametrize("more", ["", ", @cache(size='10')", ", @cache(size='1', cache.policy='LRU')"])
def test_each_kind_of_query_uses_the_table(made: Make, more: str) -> None:
    app, heard = made(more)
    app.send("In", [("a", 1), ("b", 100), ("abc", 3)])
    app.send("Ask", [("a", 5)])
    app.send("Ask", [("abc", 50)])
    app.send("Del", [("b",)])
    app.send("Ask", [("b", 1)])
    assert heard["Joined"] == [("a", 6)]
    assert heard["Found"] == [("a",), ("b",)]
    assert [event.row for event in app.query("from T select k, n order by k") or ()] == [("a", 6), ("abc", 53)]
    app.query("update T set T.n = 0 on T.k == 'a'")
    app.query("select 'new' as k, 1 as n insert into T")
    assert [event.row for event in app.query("from T on n < 2 select k, n order by k") or ()] == [("a", 0), ("new", 1)]


def test_rows_that_are_refused_are_failures_and_the_others_go_in(made: Make) -> None:
    app, _heard = made()
    app.send("In", [("a", 1), ("toolong", 2), ("a", 3), (None, 4), ("b", 5)])
    assert [(f.stream, f.row[0], f.condition) for f in app.failures] == [
        ("T", "toolong", "VALUE_NOT_STORABLE"),
        ("T", "a", "PRIMARY_KEY_TAKEN"),
        ("T", None, "VALUE_NOT_STORABLE"),
    ]
    assert [event.row for event in app.query("from T select k, n order by k") or ()] == [("a", 1), ("b", 5)]


def test_what_others_write_is_seen_and_a_database_that_is_locked_fails_the_event(
    made: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nadi.databases.engines.BUSY_WITHIN", 0.1)
    app, heard = made()
    with sqlite3.connect(tmp_path / "t.db", isolation_level=None) as other:
        other.execute("insert into T values ('x', 7)")
        app.send("Ask", [("x", 1)])
        assert heard["Joined"] == [("x", 8)]
        other.execute("begin immediate")
        app.send("In", [("late", 1)])
        other.execute("rollback")
    ((k, why),) = heard["Failed"]
    assert k == "late"
    assert "CONNECTION_UNAVAILABLE" in str(why)
    app.send("In", [("late", 1)])
    assert [event.row for event in app.query("from T on k == 'late' select n") or ()] == [(1,)]


def test_a_script_over_the_row_is_refused_by_name(tmp_path: Path) -> None:
    text = (
        "define function twice[python] return int { return data[0] * 2 }; define stream S (n int); "
        f"@store(type='rdbms', jdbc.url='jdbc:sqlite:{tmp_path}/t.db') define table T (n int); "
        "from S delete T on twice(T.n) == n;"
    )
    with pytest.raises(NadiError) as caught:
        Runtime(text)
    assert caught.value.condition == "NOT_SUPPORTED"
