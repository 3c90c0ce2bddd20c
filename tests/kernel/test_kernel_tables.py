"""In-memory tables: rows, keys, look-ups, state."""

import pytest

from nadi.errors import NadiError
from nadi.kernel.rows.flow import Flow
from nadi.kernel.rows.tables import TableRuntime, lookup_of
from nadi.lang.tree import Type
from nadi.plan.nodes import TABLE, Attr, Column, Comparison, Const, Logic, Schema, Table
from nadi.runtime import Runtime

SCHEMA = Schema((Column("k", Type.STRING), Column("v", Type.INT)))


def _table(flow: Flow, key: tuple[int, ...] = (), indexes: tuple[int, ...] = ()) -> TableRuntime:
    return TableRuntime(Table("T", SCHEMA, key, indexes), flow)


def _flow() -> Flow:
    return Flow(lambda _key: 0)


def test_rows_come_in_insertion_order() -> None:
    table = _table(_flow())
    for row in [("b", 1), ("a", 2), ("b", 1)]:
        table.insert(row)
    assert list(table.rows()) == [("b", 1), ("a", 2), ("b", 1)]


def test_a_primary_key_is_unique() -> None:
    table = _table(_flow(), key=(0,))
    table.insert(("a", 1))
    with pytest.raises(NadiError) as caught:
        table.insert(("a", 2))
    assert caught.value.condition == "PRIMARY_KEY_TAKEN"
    assert list(table.rows()) == [("a", 1)]


def test_a_row_cannot_take_the_key_of_another_one() -> None:
    table = _table(_flow(), key=(0,))
    table.insert(("a", 1))
    table.insert(("b", 2))
    (number, _row), *_ = table.candidates((0,), ("b",))
    with pytest.raises(NadiError):
        table.replace([(number, ("a", 3))])
    table.replace([(number, ("b", 3))])
    assert list(table.rows()) == [("a", 1), ("b", 3)]


def test_rows_change_together_or_not_at_all_where_a_key_is_taken() -> None:
    table = _table(_flow(), key=(0,))
    for row in [("a", 1), ("b", 2), ("c", 3)]:
        table.insert(row)
    by_key = {row[0]: number for number, row in table.candidates((), ())}
    for key in ("c", "new"):
        with pytest.raises(NadiError):
            table.replace([(by_key["a"], (key, 9)), (by_key["b"], (key, 9))])
    assert sorted(table.rows()) == [("a", 1), ("b", 2), ("c", 3)]
    table.replace([(by_key["a"], ("a", 9)), (by_key["b"], ("new", 9))])
    assert sorted(table.rows()) == [("a", 9), ("c", 3), ("new", 9)]


def test_an_index_follows_updates_and_deletes() -> None:
    table = _table(_flow(), indexes=(1,))
    for row in [("a", 1), ("b", 1), ("c", 2)]:
        table.insert(row)
    number = next(n for n, row in table.candidates((1,), (1,)) if row[0] == "a")
    table.replace([(number, ("a", 2))])
    assert table.lookup((1,), (2,)) == [("a", 2), ("c", 2)]
    table.delete(number)
    assert table.lookup((1,), (2,)) == [("c", 2)]
    assert table.lookup((0,), ("a",)) is None


def test_an_index_finds_rows_in_the_same_order_before_and_after_a_restart() -> None:
    first = _flow()
    table = _table(first, indexes=(1,))
    for row in [("a", 1), ("b", 2), ("c", 1)]:
        table.insert(row)
    changed = {row[0]: number for number, row in table.candidates((), ())}
    table.replace([(changed["a"], ("a+", 1))])  # a row that stays under its value
    table.replace([(changed["b"], ("b+", 1))])  # one that comes to another one
    before = table.lookup((1,), (1,)), table.candidates((1,), (1,))
    second = _flow()
    loaded = _table(second, indexes=(1,))
    second.store.load(first.store.dump())
    assert (loaded.lookup((1,), (1,)), loaded.candidates((1,), (1,))) == before
    assert before[0] == [("a+", 1), ("b+", 1), ("c", 1)]


def test_a_loaded_table_finds_its_rows_by_key() -> None:
    first = _flow()
    table = _table(first, key=(0,))
    table.insert(("a", 1))
    base = list(first.store.dump())
    table.insert(("b", 2))
    delta = first.store.delta()
    second = _flow()
    copy = _table(second, key=(0,))
    copy.insert(("z", 9))
    second.store.load([*base, delta])
    assert copy.lookup((0,), ("b",)) == [("b", 2)]
    assert copy.lookup((0,), ("z",)) == []
    copy.insert(("c", 3))
    assert list(copy.rows()) == [("a", 1), ("b", 2), ("c", 3)]


def test_equalities_in_conjunction_are_served_by_a_key_and_others_are_not() -> None:
    table = Table("T", SCHEMA, (0,), (1,))
    key = Comparison("==", Attr(TABLE, 0, Type.STRING), Attr(0, 0, Type.STRING))
    large = Comparison(">", Attr(TABLE, 1, Type.INT), Const(5, Type.INT), Type.INT)
    fixed = Comparison("==", Const(5, Type.INT), Attr(TABLE, 1, Type.INT), Type.INT)
    assert lookup_of(Logic("and", large, key), table) == ((0,), (Attr(0, 0, Type.STRING),))
    assert lookup_of(Logic("or", large, key), table) == ((), ())
    assert lookup_of(fixed, table) == ((1,), (Const(5, Type.INT),))
    assert lookup_of(None, table) == ((), ())


def test_a_table_with_a_primary_key_is_read_in_the_order_of_a_java_hash_map() -> None:
    flow = _flow()
    table = _table(flow, key=(0,))
    for row in [("WSO2", 1), ("IBM", 2), ("GOOG", 3)]:
        table.insert(row)
    assert [row[0] for row in table.rows()] == ["GOOG", "IBM", "WSO2"]  # buckets 1, 5 and 7


@pytest.mark.parametrize("kind", [Type.INT, Type.LONG, Type.FLOAT, Type.DOUBLE])
def test_a_table_with_one_number_as_its_primary_key_is_read_in_the_order_of_the_numbers(kind: Type) -> None:
    table = TableRuntime(Table("T", Schema((Column("k", kind),)), (0,)), _flow())
    for k in (40, -3, 100_000, 7):
        table.insert((k,))
    assert list(table.rows()) == [(-3,), (7,), (40,), (100_000,)]


@pytest.mark.parametrize(("compat", "left"), [(4, [("b", 1)]), (5, [("b", 1), ("b", 1)])])
def test_rows_of_an_index_that_an_update_makes_equal_are_one_row_in_siddhi_4(
    compat: int, left: list[tuple[str, int]]
) -> None:
    table = _table(Flow(lambda _key: 0, compat=compat), indexes=(0,))
    for row in [("a", 1), ("a", 2)]:
        table.insert(row)
    table.replace([(number, ("b", 1)) for number, _row in table.candidates((0,), ("a",))])
    assert list(table.rows()) == left
    assert table.lookup((0,), ("b",)) == left
    assert table.lookup((0,), ("a",)) == []


def test_events_of_one_chunk_that_make_a_row_see_what_the_ones_before_made_of_it() -> None:
    app = Runtime(
        "define stream S (k string, d double); define table T (k string, d double);"
        "from S select k, d update or insert into T set T.d = T.d + d on T.k == k;"
    )
    app.start()
    app.send("S", [(None, ("z", 2.5)), (None, ("z", 2.0)), (None, ("z", 1.0))])
    found = app.query("from T select k, d")
    assert found is not None
    assert [e.row for e in found] == [("z", 5.5)]
    app.shutdown()


@pytest.mark.parametrize(
    ("key", "on", "left"),
    [
        ("@primaryKey('k')", "T.k == k", ("a", 2, None)),
        ("@primaryKey('k')", "T.k == 'a'", ("a", 2, None)),
        ("@primaryKey('k')", "T.k == k and T.v < 9", ("a", None, 1.5)),
        ("@primaryKey('k', 'v')", "T.k == k and T.v == old", ("a", 1, None)),
        ("@index('k')", "T.k == k", ("a", None, 1.5)),
        ("", "T.k == k", ("a", 3, 1.5)),
    ],
)
def test_update_or_insert_by_the_whole_primary_key_replaces_the_row_whatever_is_set(
    key: str, on: str, left: tuple[object, ...]
) -> None:
    app = Runtime(
        f"define stream S (k string, v int, old int, d double); {key} define table T (k string, v int, d double);"
        "@info(name='first') from S[d > 0.0] select k, v, d insert into T;"
        f"from S[d is null] select k, {'old as v, old' if 'old' in on else 'v, old'}, d update or insert into T set T.v = T.v + v on {on};"
    )
    app.start()
    app.send("S", [(None, ("a", 1, 1, 1.5))])
    app.send("S", [(None, ("a", 2, 1, None))])
    found = app.query("from T select k, v, d")
    assert found is not None
    assert [e.row for e in found] == [left]
    app.shutdown()


@pytest.mark.parametrize(
    "given", ["T.k = k, T.v = v, T.w = T.v + T.w", "T.w = T.v + T.w, T.v = v", "T.w = 0, T.v = v, T.w = T.v + T.w"]
)
def test_what_is_set_in_a_plain_table_sees_what_was_set_in_the_columns_before_it(given: str) -> None:
    app = Runtime(
        "define stream S (k string, v int, w int); define stream U (k string, v int); define table T (k string, v int, w int);"
        f"from S insert into T; from U select k, v update T set {given} on T.k == k;"
    )
    app.start()
    app.send("S", [(None, ("a", 1, 10))])
    app.send("U", [(None, ("a", 5))])
    found = app.query("from T select k, v, w")
    assert found is not None
    assert [e.row for e in found] == [("a", 5, 15)]
    app.shutdown()


def test_the_seventeenth_column_is_set_before_the_second() -> None:
    columns = [f"c{n}" for n in range(17)]
    app = Runtime(
        f"define stream S (v int); define stream U (v int); define table T ({', '.join(f'{c} int' for c in columns)});"
        f"from S select {', '.join(f'v as {c}' for c in columns)} insert into T;"
        "from U select v update T set T.c1 = T.c16, T.c16 = v on T.c0 == T.c0;"
    )
    app.start()
    app.send("S", [(None, (1,))])
    app.send("U", [(None, (5,))])
    found = app.query("from T select c1, c16")
    assert found is not None
    assert [e.row for e in found] == [(5, 5)]
    app.shutdown()
