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
    table.insert((None, 4))
    assert [row[0] for row in table.rows()] == [None, "GOOG", "IBM", "WSO2"]  # null is in the first one


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


# ---- null in a primary key -------------------------------------------------------------------------------------------

NULLS = (
    "define stream In (k string, j string, v int); define stream Ask (k string, j string, v int);"
    "@primaryKey('k') define table One (k string, v int); @primaryKey('k', 'j') define table Two (k string, j string, v int);"
    "from In select k, v insert into One; from In select k, j, v insert into Two;"
)
ONE, TWO = "One.k == {0}k", "Two.k == {0}k and {0}j == Two.j"


def _asked(
    query: str, table: str, *asks: tuple[object, ...]
) -> tuple[list[tuple[object, ...]], list[tuple[object, ...]]]:
    """What the query puts out, and what the table holds in the end: the rows are (null, null, 1), (a, null, 2) and (a, b, 3)."""
    app = Runtime(NULLS + query)
    out: list[tuple[object, ...]] = []
    if "into Out" in query:
        app.on_stream("Out", lambda chunk: out.extend(event.row for event in chunk))
    app.start()
    for row in ((None, None, 1), ("a", None, 2), ("a", "b", 3)):
        app.send("In", [(None, row)])
    for row in asks:
        app.send("Ask", [(None, row)])
    found = app.query(f"from {table} select *") or []
    app.shutdown()
    return out, sorted((e.row for e in found), key=str)


_ASKS = ((None, None, 7), ("a", None, 8))


@pytest.mark.parametrize(
    ("on", "table", "found"),
    [
        (ONE, "One", [(1,), (2,)]),
        ("One.k == coalesce({0}k, {0}k)", "One", [(1,), (2,)]),
        (TWO, "Two", [(1,), (2,)]),
        (ONE + " and One.v < 9", "One", [(2,)]),
        (TWO + " and Two.v < 9", "Two", []),
        (ONE + " or One.v == 9", "One", [(2,)]),
        ("Two.k == {0}k", "Two", [(2,), (3,)]),
    ],
)
def test_a_join_finds_the_row_whose_key_is_null_where_it_asks_for_the_whole_key_and_nothing_else(
    on: str, table: str, found: list[tuple[int]]
) -> None:
    for sides in (f"Ask join {table}", f"{table} join Ask"):
        query = f"from {sides} on {on.format('Ask.')} select {table}.v as v insert into Out;"
        assert _asked(query, table, *_ASKS)[0] == found


@pytest.mark.parametrize(
    ("on", "table", "found"),
    [
        (ONE, "One", [(7,), (8,)]),
        ("One.k == coalesce({0}k, {0}k)", "One", [(7,), (8,)]),
        (TWO, "Two", [(7,), (8,)]),
        (ONE + " and One.v < 9", "One", [(8,)]),
        ("Two.k == {0}k", "Two", [(8,)]),
    ],
)
def test_in_finds_the_row_whose_key_is_null_where_it_asks_for_the_whole_key_and_nothing_else(
    on: str, table: str, found: list[tuple[int]]
) -> None:
    query = f"from Ask[({on.format('')}) in {table}] select v insert into Out;"
    assert _asked(query, table, *_ASKS)[0] == found


@pytest.mark.parametrize(
    ("action", "table", "left"),
    [
        (f"update One set One.v = v on {ONE}", "One", [("a", 8), (None, 7)]),
        (f"update Two set Two.v = v on {TWO}", "Two", [("a", "b", 3), ("a", None, 8), (None, None, 7)]),
        (f"update One set One.v = v on {ONE} and One.v < 9", "One", [("a", 8), (None, 1)]),
        (f"delete One on {ONE}", "One", []),
        (f"delete Two on {TWO}", "Two", [("a", "b", 3)]),
        (f"delete One on {ONE} and One.v < 9", "One", [(None, 1)]),
    ],
)
def test_changes_find_the_row_whose_key_is_null_where_they_ask_for_the_whole_key_and_nothing_else(
    action: str, table: str, left: list[tuple[object, ...]]
) -> None:
    query = f"from Ask select k, j, v {action.format('')};"
    assert _asked(query, table, *_ASKS)[1] == left


@pytest.mark.parametrize(("table", "columns", "on"), [("One", "k, v", ONE), ("Two", "k, j, v", TWO)])
def test_update_or_insert_replaces_the_row_whose_key_is_null_also_within_one_chunk(
    table: str, columns: str, on: str
) -> None:
    app = Runtime(NULLS + f"from Ask select {columns} update or insert into {table} on {on.format('')};")
    app.start()
    app.send("Ask", [(None, (None, None, 1)), (None, (None, None, 2))])
    app.send("Ask", [(None, (None, None, 3))])
    found = app.query(f"from {table} select v")
    assert found is not None
    assert [e.row for e in found] == [(3,)]
    assert not app.errors.list()
    app.shutdown()


def test_a_query_on_demand_finds_and_changes_the_row_whose_key_is_null() -> None:
    app = Runtime(NULLS)
    app.start()
    for row in ((None, None, 1), ("a", None, 2)):
        app.send("In", [(None, row)])
    null = "json:getString('{}', '$.a')"
    found = app.query(f"from One on One.k == {null} select v")
    assert found is not None
    assert [e.row for e in found] == [(1,)]
    app.query(f"select {null} as k, {null} as j, 9 as v update Two set Two.v = v on Two.k == k and Two.j == j")
    app.query(f"select {null} as k delete One on One.k == k")
    assert [e.row for e in app.query("from Two on Two.v == 9 select k, j, v") or ()] == [(None, None, 9)]
    assert [e.row for e in app.query("from One select k") or ()] == [("a",)]
    app.shutdown()


def test_a_key_that_is_no_number_is_found_by_nobody() -> None:
    app = Runtime(
        "define stream In (d double, k string, v int); @primaryKey('d', 'k') define table T (d double, k string, v int);"
        "from In[v < 9] insert into T; from In[v == 9] delete T on T.d == d and T.k == k;"
    )
    app.start()
    nan = float("nan")
    for v in (1, 9):
        app.send("In", [(None, (nan, None, v))])
    assert len(app.query("from T select v") or ()) == 1
    app.shutdown()


def test_null_is_equal_to_nothing_where_an_index_or_no_key_is_asked() -> None:
    app = Runtime(
        "define stream In (k string); define stream Ask (k string); @index('k') define table T (k string); define table U (k string);"
        "from In insert into T; from In insert into U; from Ask delete T on T.k == k; from Ask delete U on U.k == k;"
    )
    app.start()
    app.send("In", [(None, (None,))])
    app.send("Ask", [(None, (None,))])
    assert [[e.row for e in app.query(f"from {name} select k") or ()] for name in "TU"] == [[(None,)], [(None,)]]
    app.shutdown()


def test_set_goes_by_the_name_of_the_column_whatever_table_it_names() -> None:
    app = Runtime(
        "define stream In (k string, v int); define table T (k string, v int);"
        "from In select k, v update or insert into T set Tt.v = v on T.k == k;"
    )
    app.start()
    for v in (1, 2):
        app.send("In", [(None, ("a", v))])
    assert [e.row for e in app.query("from T select v") or ()] == [(2,)]
    app.query("select 5 as v update T set Others.v = v on T.k == 'a'")
    app.query("select 'b' as k, 7 as v update or insert into T set Others.v = v on T.k == k")
    assert [e.row for e in app.query("from T select v") or ()] == [(5,), (7,)]
    app.shutdown()
