"""The store `rdbms`: a table in a database is like one in memory, whatever is asked; what the database cannot hold is refused by name."""

from __future__ import annotations

from typing import Any

import pytest
from servers.emptydatabase import EmptyDatabase
from sqlalchemy import text

from nadi.errors import NadiError
from nadi.functions.stores import Store, StoreTable
from nadi.io.stores.rdbms import KIND
from nadi.lang.tree import Type
from nadi.plan.nodes import TABLE, Arithmetic, Attr, Column, Comparison, Const, Expr, Logic, Negation, NullCheck, Schema

COLUMNS = (
    Column("k", Type.INT),
    Column("s", Type.STRING),
    Column("l", Type.LONG),
    Column("f", Type.FLOAT),
    Column("d", Type.DOUBLE),
    Column("b", Type.BOOL),
)
K, S, L, F, D, B = (Attr(TABLE, n, column.type) for n, column in enumerate(COLUMNS))
Row = tuple[Any, ...]


def row(
    k: int | None,
    s: str | None = "a",
    number: int | None = 1,
    f: float | None = 0.5,
    d: float | None = 0.1,
    b: bool | None = True,
) -> Row:
    return (k, s, number, f, d, b)


def table(
    at: EmptyDatabase, key: tuple[int, ...] = (0,), columns: tuple[Column, ...] = COLUMNS, **options: str
) -> StoreTable:
    given = {"jdbc.url": at.address.url, "username": at.address.user, "password": at.address.password}
    given |= {name.replace("_", "."): value for name, value in options.items()}
    return StoreTable("App", "T", Schema(columns), key, (), given)


def opened(given: StoreTable) -> Store:
    store = KIND.make(given)
    store.connect()
    return store


def everything(store: Store) -> list[Row]:
    return sorted(store.find(store.compile(None), ()), key=repr)


def found(store: Store, condition: Expr, *values: Any) -> list[Any]:
    return sorted(each[0] for each in store.find(store.compile(condition), values))


def value(kind: Type, position: int = 0) -> Attr:
    return Attr(0, position, kind)


def test_values_come_back_as_they_went_in(database: EmptyDatabase) -> None:
    store = opened(table(database))
    given = [
        row(1, "", -(2**63), 3.4028234663852886e38, 5e-324, False),
        row(2, None, None, None, None, None),
        row(3, "ß 𝄞 ' \" % : \\", 2**63 - 1, 0.10000000149011612, -1.7976931348623157e308, True),
    ]
    assert list(store.add(given)) == []
    assert everything(store) == sorted(given, key=repr)
    again = opened(table(database))
    assert everything(again) == sorted(given, key=repr)


def test_a_row_whose_primary_key_is_taken_is_refused_and_the_others_go_in(database: EmptyDatabase) -> None:
    store = opened(table(database))
    refused = store.add([row(1), row(2), row(1, "b"), row(3)])
    assert [(n, why.condition, why.parameters["key"]) for n, why in refused] == [(2, "PRIMARY_KEY_TAKEN", "1")]
    assert [each[0] for each in everything(store)] == [1, 2, 3]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (row(1, "x" * 11), "it takes 10 characters, not 11"),
        (row(None), "it takes no null"),
        (row(1, "\ud800"), "surrogate"),
    ],
)
def test_a_row_that_the_database_cannot_hold_is_refused_by_name(database: EmptyDatabase, wrong: Row, said: str) -> None:
    store = opened(table(database, field_length="s:10"))
    ((n, why),) = store.add([row(7), wrong])
    assert (n, why.condition) == (1, "VALUE_NOT_STORABLE")
    assert said in why.diagnostic.message
    assert [each[0] for each in everything(store)] == [7]


def test_numbers_that_are_none_go_in_where_the_database_has_them_and_are_refused_elsewhere(
    database: EmptyDatabase,
) -> None:
    store = opened(table(database))
    kind = database.engine.dialect.name
    refused = {
        n
        for n, _why in store.add(
            [row(1, d=float("nan")), row(2, d=float("inf")), row(3, d=-float("inf")), row(4, "a\0b")]
        )
    }
    assert refused == {"sqlite": {0}, "postgresql": {3}, "mysql": {0, 1, 2}}[kind]
    above = store.compile(Comparison(">", D, value(Type.DOUBLE), Type.DOUBLE))
    assert [each[0] for each in store.find(above, (1e300,))] == ([] if kind == "mysql" else [2])
    assert list(store.find(above, (float("nan"),))) == []
    differs = store.compile(Comparison("!=", D, value(Type.DOUBLE), Type.DOUBLE))
    assert len(list(store.find(differs, (float("nan"),)))) == 4 - len(refused)


def test_texts_may_be_as_long_as_the_app_says(database: EmptyDatabase) -> None:
    store = opened(table(database, field_length="s:70000"))
    long = "ä" * 70_000
    assert [n for n, _why in store.add([row(1, long), row(2, long + "x")])] == [1]
    assert everything(store) == [row(1, long)]


def test_conditions_have_the_nulls_of_the_language(database: EmptyDatabase) -> None:
    store = opened(table(database))
    store.add([row(1, "a"), row(2, "b"), row(3, None)])
    equal, differs = Comparison("==", S, value(Type.STRING)), Comparison("!=", S, value(Type.STRING))
    assert found(store, equal, "a") == [1]
    assert found(store, differs, "a") == [2, 3]
    assert found(store, equal, None) == []
    assert found(store, differs, None) == [1, 2, 3]
    assert found(store, Negation(equal), "a") == [2, 3]
    assert found(store, Negation(equal), None) == [1, 2, 3]
    assert found(store, NullCheck(S)) == [3]
    assert found(store, Logic("or", NullCheck(S), equal), "b") == [2, 3]
    assert store.contains(store.compile(equal), ("b",))
    assert not store.contains(store.compile(equal), ("c",))


def test_texts_are_compared_character_by_character(database: EmptyDatabase) -> None:
    store = opened(table(database))
    store.add([row(1, "a"), row(2, "A"), row(3, "ä")])
    assert found(store, Comparison("==", S, value(Type.STRING)), "a") == [1]
    assert found(store, Comparison("!=", S, value(Type.STRING)), "a") == [2, 3]
    store.delete(store.compile(Comparison("==", S, value(Type.STRING))), [("A",)])
    assert [each[0] for each in everything(store)] == [1, 3]


def test_nothing_in_a_name_or_a_value_is_sql(database: EmptyDatabase) -> None:
    bad = "x\"; drop table t; -- ' ` :a %s"
    columns = (Column("order", Type.INT), Column("select", Type.STRING))
    store = opened(table(database, (0,), columns, table_name='T "q" \' `x'))
    assert list(store.add([(1, bad)])) == []
    assert found(store, Comparison("==", Attr(TABLE, 1, Type.STRING), value(Type.STRING)), bad) == [1]
    assert found(store, Comparison("==", Attr(TABLE, 1, Type.STRING), Const(bad, Type.STRING))) == [1]


def test_an_update_computes_from_the_row_and_all_of_it_sees_the_row_as_it_was(database: EmptyDatabase) -> None:
    store = opened(table(database))
    store.add([row(1, "a", 5), row(2, "b", 6)])
    more = store.compile(
        Comparison("==", K, value(Type.INT), Type.INT),
        (
            (2, Arithmetic("+", L, value(Type.LONG, 1), Type.LONG)),
            (3, Arithmetic("/", F, Const(2.0, Type.FLOAT), Type.FLOAT)),
        ),
    )
    assert list(store.update(more, [(1, 10), (9, 10)])) == []
    assert [(each[0], each[2], each[3]) for each in everything(store)] == [(1, 15, 0.25), (2, 6, 0.5)]


def test_an_update_that_takes_the_key_of_another_row_is_refused_and_one_that_is_free_is_not(
    database: EmptyDatabase,
) -> None:
    store = opened(table(database))
    store.add([row(1), row(2)])
    rename = store.compile(Comparison("==", K, value(Type.INT), Type.INT), ((0, value(Type.INT, 1)),))
    refused = store.update(rename, [(1, 2), (2, 3)])
    assert [(n, why.condition) for n, why in refused] == [(0, "PRIMARY_KEY_TAKEN")]
    assert [each[0] for each in everything(store)] == [1, 3]


def test_rows_without_a_key_are_changed_and_removed_by_what_they_are(database: EmptyDatabase) -> None:
    store = opened(table(database, ()))
    store.add([row(1, "a", 1), row(1, "a", 1), row(1, "A", 1), row(2, None, 3)])
    odd = Comparison("==", Arithmetic("%", L, Const(2, Type.LONG), Type.LONG), Const(1, Type.LONG), Type.LONG)
    more = store.compile(
        Logic("and", odd, Comparison("==", S, value(Type.STRING))), ((2, Arithmetic("+", L, L, Type.LONG)),)
    )
    assert list(store.update(more, [("a",)])) == []
    assert [(each[1], each[2]) for each in everything(store)] == [("A", 1), ("a", 2), ("a", 2), (None, 3)]
    store.delete(store.compile(odd), [()])
    assert [(each[1], each[2]) for each in everything(store)] == [("a", 2), ("a", 2)]


def test_what_is_not_there_is_added_and_what_is_there_is_changed(database: EmptyDatabase) -> None:
    store = opened(table(database, field_length="s:3"))
    upsert = store.compile(Comparison("==", K, value(Type.INT), Type.INT), ((1, value(Type.STRING, 1)),))
    refused = store.update_or_add(upsert, [(1, "x"), (1, "y"), (2, "long")], [row(1, "x"), row(1, "y"), row(2, "long")])
    assert [(n, why.condition) for n, why in refused] == [(2, "VALUE_NOT_STORABLE")]
    assert [(each[0], each[1]) for each in everything(store)] == [(1, "y")]


def test_a_table_that_is_there_is_used_and_its_types_are_those_of_the_language(database: EmptyDatabase) -> None:
    with database.engine.begin() as connection:
        connection.execute(text("create table mine (k decimal(10, 2), s varchar(3) not null, extra int)"))
        connection.execute(text("insert into mine values (7, 'abc', 1)"))
    columns = (Column("k", Type.INT), Column("s", Type.STRING))
    store = opened(table(database, (), columns, table_name="mine"))
    assert everything(store) == [(7, "abc")]
    assert [why.condition for _n, why in store.add([(8, "abcd"), (8, None), (9, "x")])] == ["VALUE_NOT_STORABLE"] * 2
    with database.engine.begin() as connection:
        connection.execute(text("insert into mine values (7.5, 'd', 1)"))
    with pytest.raises(NadiError) as caught:
        everything(store)
    assert caught.value.condition == "VALUE_NOT_READABLE"


def test_a_table_that_lacks_an_attribute_is_refused(database: EmptyDatabase) -> None:
    with database.engine.begin() as connection:
        connection.execute(text("create table mine (k int)"))
    with pytest.raises(NadiError) as caught:
        opened(table(database, table_name="mine"))
    assert caught.value.condition == "REFUSED"
    assert "without 's', 'l', 'f', 'd', 'b'" in caught.value.diagnostic.message


def test_a_query_of_the_app_tells_whether_the_table_is_there(database: EmptyDatabase) -> None:
    store = opened(table(database, table_check_query="select 1 from T"))
    store.add([row(1)])
    assert everything(opened(table(database, table_check_query="select 1 from T"))) == [row(1)]


def test_a_database_that_is_away_is_told_as_that_and_without_its_password(database: EmptyDatabase) -> None:
    store = opened(table(database))
    with database.away(), pytest.raises(NadiError) as caught:
        store.add([row(1)])
    assert caught.value.condition == "CONNECTION_UNAVAILABLE"
    if database.address.password:
        assert database.address.password not in str(caught.value)
    store.add([row(1)])
    assert everything(store) == [row(1)]
