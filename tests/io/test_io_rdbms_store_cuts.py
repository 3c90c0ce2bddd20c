"""What the tables of an app write in a cut is written once, whoever takes the cut again, and with the cut or not at all."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from servers.emptydatabase import EmptyDatabase
from sqlalchemy import text

from nadi.config import DataSource
from nadi.errors import NadiError
from nadi.functions.stores import Store, StoreTable
from nadi.io.reach import Reach
from nadi.io.stores.rdbms import KIND
from nadi.io.stores.surroundings import Surroundings
from nadi.kernel.rows.cache import CachedStore
from nadi.lang.tree import Type
from nadi.plan.nodes import TABLE, Arithmetic, Attr, Cache, Column, Comparison, Const, Schema

SCHEMA = Schema((Column("k", Type.INT), Column("n", Type.INT)))
K, N = (Attr(TABLE, n, Type.INT) for n in range(2))
MORE = Comparison("==", K, Attr(0, 0, Type.INT), Type.INT), ((1, Arithmetic("+", N, Const(1, Type.INT), Type.INT)),)


@pytest.fixture
def around() -> Iterator[Surroundings]:
    made = Surroundings(Reach(), lambda: "App/run")
    yield made
    made.close()


def table(at: EmptyDatabase, name: str = "T") -> Store:
    given = {"jdbc.url": at.address.url, "username": at.address.user, "password": at.address.password}
    given["pool.properties"] = "maximumPoolSize:1, connectionTimeout:2000, poolName:p"
    return KIND.make(StoreTable("App", name, SCHEMA, (0,), (), given))


def rows(at: EmptyDatabase, name: str = "T") -> list[tuple[object, ...]]:
    with at.engine.connect() as connection:
        quoted = connection.dialect.identifier_preparer.quote(name)
        return [tuple(row) for row in connection.execute(text(f"select k, n from {quoted} order by k"))]


def count(store: Store) -> None:
    """Add row 1, or one to what it has."""
    store.update_or_add(store.compile(*MORE), [(1,)], [(1, 1)])


def test_a_cut_that_is_taken_again_does_not_write_again(database: EmptyDatabase, around: Surroundings) -> None:
    for cut in (0, 0, 1):  # the second attempt has a kernel of its own
        store = table(database)
        with around.cut(0, cut, epoch=1):
            count(store)
            count(store)
    assert rows(database) == [(1, 4)]
    with around.cut(1, 0, epoch=1):  # another bucket
        count(table(database))
    assert rows(database) == [(1, 5)]


def test_what_fails_in_between_leaves_nothing(database: EmptyDatabase, around: Surroundings) -> None:
    store = table(database)
    with contextlib.suppress(ZeroDivisionError), around.cut(0, 0, epoch=1):
        count(store)
        raise ZeroDivisionError
    assert rows(database) == []
    with around.cut(0, 0, epoch=1, trial=True):
        count(store)
        assert list(store.find(store.compile(None), ())) == [(1, 1)]
    assert rows(database) == []
    with around.cut(0, 0, epoch=1):
        count(store)
    assert rows(database) == [(1, 1)]


def test_what_was_refused_is_refused_again_though_nothing_is_written(
    database: EmptyDatabase, around: Surroundings
) -> None:
    told = []
    for _attempt in range(2):
        store = table(database)
        with around.cut(0, 0, epoch=1):
            store.add([(1, 1)])
            refused = store.add([(2, 1), (1, 7)])
            told.append([(n, why.condition, why.diagnostic.message) for n, why in refused])
    assert told[0] == told[1] == [(1, "PRIMARY_KEY_TAKEN", "table 'T' already holds a row with the primary key 1")]
    assert rows(database) == [(1, 1), (2, 1)]


def test_two_tables_of_one_database_are_written_together(database: EmptyDatabase, around: Surroundings) -> None:
    one, two = table(database), table(database, "U")
    with around.cut(0, 0, epoch=1):
        count(one)
        count(two)
    with contextlib.suppress(ZeroDivisionError), around.cut(0, 1, epoch=1):
        count(one)
        count(two)
        raise ZeroDivisionError
    assert rows(database) == rows(database, "U") == [(1, 1)]


def test_a_run_that_was_replaced_writes_nothing_more(database: EmptyDatabase, around: Surroundings) -> None:
    with around.cut(0, 0, epoch=2):
        count(table(database))
    with pytest.raises(NadiError) as caught, around.cut(0, 1, epoch=1):
        count(table(database))
    assert caught.value.condition == "FENCED"
    assert rows(database) == [(1, 1)]


def test_a_database_that_goes_away_in_a_cut_undoes_it_and_the_cut_is_taken_again(
    database: EmptyDatabase, around: Surroundings
) -> None:
    store = table(database)
    with around.cut(0, 0, epoch=1):
        count(store)

    def cut() -> None:
        with around.cut(0, 1, epoch=1):
            with database.away():
                for _event in range(2):
                    with pytest.raises(NadiError, match="CONNECTION_UNAVAILABLE"):  # a query notes it, and goes on
                        count(store)
            with pytest.raises(NadiError):
                count(store)  # what came before it is gone, so this is nothing

    with pytest.raises(NadiError) as caught:
        cut()
    assert caught.value.condition == "CONNECTION_UNAVAILABLE"
    assert rows(database) == [(1, 1)]
    with around.cut(0, 1, epoch=1):
        count(store)
    assert rows(database) == [(1, 2)]


def test_a_cache_in_front_has_what_a_cut_has_written_once(database: EmptyDatabase, around: Surroundings) -> None:
    for attempt in range(2):
        given = table(database)
        cached = CachedStore(given, given._given, Cache(10), lambda: 0)  # type: ignore[attr-defined]
        with around.asking():
            cached.connect()
        with around.cut(0, 0, epoch=1):
            before = attempt * 2
            assert list(cached.find(cached.compile(None), ())) == ([(1, before)] if before else [])
            count(cached)
            count(cached)
            assert list(cached.find(cached.compile(None), ())) == [(1, 2)]


def test_another_state_folder_counts_its_cuts_anew(database: EmptyDatabase, around: Surroundings) -> None:
    other = Surroundings(Reach(), lambda: "App/other")
    for of in (around, other):
        with of.cut(0, 0, epoch=1):
            count(table(database))
    other.close()
    assert rows(database) == [(1, 2)]


def test_the_operator_says_which_databases_tables_may_be_in(database: EmptyDatabase, tmp_path: Path) -> None:
    closed = Surroundings(Reach.of(folders=str(tmp_path / "in"), databases="elsewhere"), lambda: "App/run")
    with pytest.raises(NadiError) as caught, closed.cut(0, 0, epoch=1):
        count(table(database))
    wanted = "PATH_NOT_ALLOWED" if database.engine.dialect.name == "sqlite" else "DATABASE_NOT_ALLOWED"
    assert caught.value.condition == wanted


def test_a_data_source_of_the_node_is_where_the_operator_says_and_apps_name_only_those_for_them(
    database: EmptyDatabase,
) -> None:
    at = database.address
    source = DataSource("jdbc/Orders", at.url, at.user, at.password)
    around = Surroundings(Reach.of(folders="/nowhere", databases="elsewhere", sources=[source]), lambda: "App/run")
    for option, name, fine in (
        ("datasource", "jdbc/Orders", True),
        ("jndi.resource", "java:comp/env/jdbc/Orders", True),
        ("datasource", "WSO2_PERMISSIONS_DB", False),
    ):
        store = KIND.make(StoreTable("App", "T", SCHEMA, (0,), (), {option: name}))
        if fine:
            with around.asking():
                count(store)
        else:
            with pytest.raises(NadiError) as caught, around.asking():
                count(store)
            assert (caught.value.condition, caught.value.parameters["name"]) == ("OPTION_INVALID", "datasource")
            assert "there are: jdbc/Orders" in caught.value.diagnostic.message
    around.close()
    assert rows(database) == [(1, 2)]
