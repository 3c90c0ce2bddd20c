"""@store and @cache: what they may say, and how a condition is divided between the kernel and the store."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nadi.errors import NadiError
from nadi.io import registry as connectors
from nadi.lang.tree import Type
from nadi.plan import explained, explanation
from nadi.plan.nodes import TABLE, App, Arithmetic, Attr, Cache, Comparison, Const, InTable, Logic, Storage
from nadi.plan.stores import asked

TABLE_T = "define table T (k string, v int); define stream S (k string, v int); from S insert into T;"
V = Attr(TABLE, 1, Type.INT, name="v")
MINE = Attr(0, 1, Type.INT, name="v")


def test_a_store_keeps_its_options_and_its_cache(plan: Callable[[str], App]) -> None:
    app = plan(
        f"@Store(type='RDBMS', jdbc.url='x', @Cache(size='10', cache.policy='lru', retention.period='1 min')) {TABLE_T}"
    )
    assert app.tables["T"].storage == Storage("rdbms", (("jdbc.url", "x"),), Cache(10, "LRU", 60_000, 60_000))


@pytest.mark.parametrize("annotation", ["", "@store(type='inMemory')", "@store(type='in-memory')"])
def test_without_a_foreign_store_the_rows_are_state(plan: Callable[[str], App], annotation: str) -> None:
    app = plan(f"{annotation} {TABLE_T}")
    assert app.tables["T"].storage is None
    assert "T/table" in explanation(app, connectors)["state"]


@pytest.mark.parametrize(
    ("annotation", "condition", "kind"),
    [
        ("@store(type='rdbm')", "EXTENSION_NOT_FOUND", "ExtensionNotFoundException"),
        ("@store(jdbc.url='x')", "INVALID_ANNOTATION", "SiddhiAppCreationException"),
        ("@store(type='rdbms', @cache(cache.policy='FIFO'))", "INVALID_ANNOTATION", "SiddhiAppCreationException"),
        ("@store(type='rdbms', @cache(size='0'))", "INVALID_ANNOTATION", "SiddhiAppCreationException"),
        (
            "@store(type='rdbms', @cache(size='1', cache.policy='MRU'))",
            "INVALID_ANNOTATION",
            "SiddhiAppCreationException",
        ),
        ("@store(type='rdbms', @cache(size='1', policy='LRU'))", "INVALID_ANNOTATION", "SiddhiAppCreationException"),
        ("@store(type='inMemory', @cache(sise='1'))", "INVALID_ANNOTATION", "SiddhiAppCreationException"),
        ("@store(type='inMemory', @cache(size='ten'))", "INVALID_ANNOTATION", "SiddhiAppCreationException"),
        ("@store(type='inMemory', @cache(size='1', retention.period='soon'))", "SYNTAX", "SiddhiParserException"),
        ("@store(type='rdbms', ownership='app')", "NOT_SUPPORTED", "OperationNotSupportedException"),
        ("@store(ref='r')", "NOT_SUPPORTED", "OperationNotSupportedException"),
    ],
)
def test_a_store_that_cannot_be_is_named(
    plan: Callable[[str], App], annotation: str, condition: str, kind: str
) -> None:
    with pytest.raises(NadiError) as caught:
        plan(f"{annotation} {TABLE_T}")
    assert caught.value.condition == condition
    assert type(caught.value).__name__ == kind
    assert caught.value.diagnostic.span.line == 1


def test_an_option_of_a_cache_that_is_none_names_the_nearest(plan: Callable[[str], App]) -> None:
    with pytest.raises(NadiError, match=r"did you mean 'cache\.policy'"):
        plan(f"@store(type='inMemory', @cache(size='1', cache.polcy='LRU')) {TABLE_T}")


def test_an_index_of_a_store_may_have_several_attributes(plan: Callable[[str], App]) -> None:
    for cache in ("", ", @cache(size='1')"):
        made = plan(f"@store(type='rdbms'{cache}) @index('k', 'v') @index('k') {TABLE_T}")
        assert made.tables["T"].indexes == (0,)
    with pytest.raises(NadiError, match="'x' is not an attribute"):
        plan(f"@store(type='rdbms') @index('k', 'x') {TABLE_T}")
    with pytest.raises(NadiError, match="one attribute per annotation"):
        plan(f"@store(type='inMemory') @index('k', 'v') {TABLE_T}")


@pytest.mark.parametrize(
    ("annotations", "indexes"),
    [
        ("@index('v') @index('k') @index('v')", (1, 0)),
        ("@index", ()),
        ("@indexBy('k')", ()),
        ("@indexBy('k') @index('v')", (1,)),
    ],
)
def test_rules_for_the_indexes_of_rows_in_memory_do_not_count_in_a_store(
    plan: Callable[[str], App], annotations: str, indexes: tuple[int, ...]
) -> None:
    for cache in ("", ", @cache(size='1')"):
        assert plan(f"@store(type='rdbms'{cache}) {annotations} {TABLE_T}").tables["T"].indexes == indexes
    for store in ("", "@store(type='inMemory')"):
        with pytest.raises(NadiError):
            plan(f"{store} {annotations} {TABLE_T}")


def test_an_unknown_type_of_store_names_the_nearest(plan: Callable[[str], App]) -> None:
    with pytest.raises(NadiError, match="rdbms"):
        plan(f"@store(type='rdbm') {TABLE_T}")


@pytest.mark.parametrize("annotation", ["@indexBy('k')", "@index('k', 'v')"])
def test_an_unknown_type_of_store_comes_before_what_is_wrong_with_an_index(
    plan: Callable[[str], App], annotation: str
) -> None:
    with pytest.raises(NadiError, match="mongodb"):
        plan(f"@store(type='mongodb') {annotation} {TABLE_T}")


def test_what_does_not_mention_the_row_becomes_a_value_once() -> None:
    double = Arithmetic("*", MINE, Const(2, Type.INT), Type.INT)
    both = Logic(
        "and", Comparison(">", V, double), Comparison("!=", double, Arithmetic("+", V, Const(1, Type.INT), Type.INT))
    )
    found = asked(both, ((1, Arithmetic("+", V, double, Type.INT)),))
    value = Attr(0, 0, Type.INT)
    assert found.values == (double,)
    assert found.condition == Logic(
        "and", Comparison(">", V, value), Comparison("!=", value, Arithmetic("+", V, Const(1, Type.INT), Type.INT))
    )
    assert found.changes == ((1, Arithmetic("+", V, value, Type.INT)),)


def test_the_front_of_a_chain_that_does_not_mention_the_row_is_one_value() -> None:
    front = Arithmetic("+", MINE, Attr(0, 0, Type.INT), Type.INT)
    found = asked(Comparison("==", Arithmetic("+", front, V, Type.INT), MINE))
    assert found.values == (front, MINE)


def test_in_a_join_the_row_of_the_table_stands_in_a_slot() -> None:
    right = Attr(1, 1, Type.INT, name="v")
    found = asked(Comparison("==", MINE, right), slot=1)
    assert found.values == (MINE,)
    assert found.condition == Comparison("==", Attr(0, 0, Type.INT), V)


def test_a_question_about_another_table_is_a_value_and_one_about_the_row_as_well_is_refused() -> None:
    inner = InTable("Other", Comparison("==", V, MINE))
    assert asked(inner).values == (inner,)
    with pytest.raises(NadiError, match="another table"):
        asked(
            Logic(
                "and",
                InTable("Other", Comparison("==", V, Attr(1, 1, Type.INT))),
                Comparison("==", Attr(1, 0, Type.INT), MINE),
            ),
            slot=1,
        )


EXPLAINED = """define stream S (k string, v int);
@sink(type='kafka', topic='a') define stream Joined (k string);
@sink(type='kafka', topic='b') define stream Further (k string);
@sink(type='kafka', topic='c') define stream Plain (k string);
@store(type='rdbms', @cache(size='5')) define table T (k string, v int);
from S insert into T;
from S join T on S.k == T.k select S.k as k insert into Mid;
from Mid select k insert into Joined;
from S[T.k == k in T] select k insert into Further;
from S select k insert into Plain;
"""


def test_sinks_behind_a_read_of_a_store_are_at_least_once_and_explain_says_why(plan: Callable[[str], App]) -> None:
    app = plan(EXPLAINED)
    told = {s["stream"]: s for s in explanation(app, connectors)["sinks"]}
    assert told["Plain"]["delivery"] == "exactly once"
    for stream in ("Joined", "Further"):
        assert told[stream]["delivery"] == "at least once, with numbers"
        assert "'T'" in told[stream]["why"]
    assert (
        "T → rdbms, cache FIFO, 5 rows: the rows are not state of the app: reads of them cannot be repeated"
        in explained(app, connectors)
    )
    assert "T/table" not in explanation(app, connectors)["state"]
