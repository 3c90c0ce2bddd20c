"""Whatever is done to it, a table of the store `rdbms` holds what one in memory holds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from nadi.databases import Address, connect
from nadi.functions.arithmetic import to_float32
from nadi.functions.stores import StoreTable
from nadi.io.stores.rdbms import RdbmsStore
from nadi.kernel.rows.memorystore import MemoryStore
from nadi.lang.tree import Type
from nadi.plan.nodes import TABLE, Arithmetic, Attr, Column, Comparison, Const, Expr, Logic, Negation, NullCheck, Schema

TYPES = {"k": Type.INT, "s": Type.STRING, "l": Type.LONG, "f": Type.FLOAT, "d": Type.DOUBLE, "b": Type.BOOL}
SCHEMA = Schema(tuple(Column(name, kind) for name, kind in TYPES.items()))
KINDS = tuple(TYPES.values())
NUMBERS = (Type.INT, Type.LONG, Type.FLOAT, Type.DOUBLE)
OPERATORS = ("==", "!=", "<", "<=", ">", ">=")
# Few values, so that they meet; and those at which Java rounds.
VALUES: dict[Type, st.SearchStrategy[Any]] = {
    Type.STRING: st.sampled_from(["", "a", "A", "a ", "ä"]),
    Type.INT: st.sampled_from([0, 1, 2, 16_777_216, 16_777_217, -(2**31)]),
    Type.LONG: st.sampled_from([0, 1, 2, 2**53, 2**53 + 1, 2**63 - 1]),
    Type.FLOAT: st.sampled_from([0.0, 1.0, 0.5, to_float32(0.1), 16_777_216.0]),
    Type.DOUBLE: st.sampled_from([0.0, 1.0, 0.5, 0.1, to_float32(0.1), float(2**53), 1e30]),
    Type.BOOL: st.booleans(),
}


def _value(kind: Type) -> st.SearchStrategy[Any]:
    return st.one_of(st.none(), VALUES[kind], VALUES[kind])


rows = st.tuples(VALUES[Type.INT], *(_value(kind) for kind in KINDS[1:]))
values = st.tuples(*(_value(kind) for kind in KINDS))


def _widest(one: Type, two: Type) -> Type:
    return NUMBERS[max(NUMBERS.index(one), NUMBERS.index(two))]


@st.composite
def operands(draw: st.DrawFn, kind: Type) -> Expr:
    """Of the table's row, of the row of values, or a constant."""
    position = KINDS.index(kind)
    which = draw(st.sampled_from(["table", "table", "value", "constant", "computed"]))
    if which == "computed" and kind in NUMBERS:
        return Arithmetic(draw(st.sampled_from("+-*/%")), draw(operands(kind)), draw(operands(kind)), kind)
    if which == "constant":
        return Const(draw(VALUES[kind]), kind)
    return Attr(0 if which == "value" else TABLE, position, kind)


@st.composite
def comparisons(draw: st.DrawFn) -> Expr:
    kind = draw(st.sampled_from(KINDS))
    if kind in NUMBERS:
        other = draw(st.sampled_from(NUMBERS))
        return Comparison(
            draw(st.sampled_from(OPERATORS)), draw(operands(kind)), draw(operands(other)), _widest(kind, other)
        )
    return Comparison(draw(st.sampled_from(OPERATORS[:2])), draw(operands(kind)), draw(operands(kind)))


conditions = st.recursive(
    st.one_of(
        comparisons(),
        comparisons(),
        st.builds(NullCheck, st.sampled_from(KINDS).map(lambda kind: Attr(TABLE, KINDS.index(kind), kind))),
        st.sampled_from([Attr(TABLE, 5, Type.BOOL), Attr(0, 5, Type.BOOL)]),
    ),
    lambda inner: st.one_of(st.builds(Negation, inner), st.builds(Logic, st.sampled_from(["and", "or"]), inner, inner)),
    max_leaves=5,
)


@st.composite
def changes(draw: st.DrawFn) -> tuple[tuple[int, Expr], ...]:
    chosen = draw(st.lists(st.sampled_from(range(len(KINDS))), min_size=1, max_size=3, unique=True))
    return tuple((i, draw(operands(KINDS[i]))) for i in chosen)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.lists(rows, min_size=1, max_size=4)),
        st.tuples(st.just("delete"), conditions, values),
        st.tuples(st.just("update"), conditions, changes(), values),
        st.tuples(st.just("upsert"), conditions, changes(), values, rows),
        st.tuples(st.just("find"), conditions, values),
    ),
    min_size=2,
    max_size=8,
)


@pytest.fixture(scope="module")
def file() -> Iterator[Path]:
    with TemporaryDirectory() as folder:
        yield Path(folder) / "t.db"


def _refused(refused: Any, steps: int) -> list[Any]:
    return sorted((n, why.condition) for n, why in refused)


def _done(store: Any, step: tuple[Any, ...]) -> Any:
    match step:
        case ("add", given):
            return _refused(store.add(given), len(given))
        case ("delete", condition, given):
            return store.delete(store.compile(condition), [given])
        case ("update", condition, set_, given):
            return _refused(store.update(store.compile(condition, set_), [given]), 1)
        case ("upsert", condition, set_, given, row):
            return _refused(store.update_or_add(store.compile(condition, set_), [given], [row]), 1)
        case ("find", condition, given):
            compiled = store.compile(condition)
            found = sorted(store.find(compiled, given), key=repr)
            assert store.contains(compiled, given) == bool(found)
            return found


@given(steps=STEPS, key=st.sampled_from([(), (0,), (0, 2)]))
@settings(max_examples=60, deadline=None, phases=[Phase.generate], print_blob=False)
def test_a_table_in_a_database_holds_what_one_in_memory_holds(
    file: Path, steps: list[tuple[Any, ...]], key: tuple[int, ...]
) -> None:
    engine = connect(Address(f"jdbc:sqlite:{file}"))
    with engine.begin() as connection:
        connection.exec_driver_sql("drop table if exists T")
    engine.dispose()
    given = StoreTable("App", "T", SCHEMA, key, (), {"jdbc.url": f"jdbc:sqlite:{file}"})
    database, memory = RdbmsStore(given), MemoryStore(given)
    database.connect()
    all_of_it = ("find", Comparison("==", Const(1, Type.INT), Const(1, Type.INT), Type.INT), (None,) * len(KINDS))
    for step in steps:
        if key == (0, 2) and "None" in repr([row[2] for row in _rows_of(step)]):
            continue  # null is a key in memory, and none in a database
        if _breaks_key(step, key):
            continue
        assert _done(database, step) == _done(memory, step), step
        assert _done(database, all_of_it) == _done(memory, all_of_it), step


def _rows_of(step: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    return step[1] if step[0] == "add" else [step[4]] if step[0] == "upsert" else []


def _breaks_key(step: tuple[Any, ...], key: tuple[int, ...]) -> bool:
    """Whether an update may make a key null, or make what the database has no value for."""
    if step[0] not in ("update", "upsert"):
        return False
    return any(i in key for i, _value in step[2])
