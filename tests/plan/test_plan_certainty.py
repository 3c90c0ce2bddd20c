"""What is known of expressions: never null, never failing."""

from __future__ import annotations

import pytest

from nadi.functions.registry import default_registry
from nadi.plan import plan_app
from nadi.plan.columns.certainty import failing, never_null
from nadi.plan.columns.functionsupport import is_looped
from nadi.plan.columns.outsideloops import ahead
from nadi.plan.nodes import App, Expr

_S = "define stream S (k string, v int, l long, f float, d double, b bool); "


def _app(rest: str) -> App:
    return plan_app(_S + rest, default_registry())


def _value(text: str) -> Expr:
    return _app(f"from S select {text} as x insert into Out;").queries[0].selection.values[0]


@pytest.mark.parametrize(
    "text",
    [
        "str:concat(k, v)",
        "convert(k, 'int')",
        "ifThenElse(k is null, 'none', str:upper(k))",
        "ifThenElse(not (k is null) and v > 1, str:length(k), 0)",
        "ifThenElse(k is null or v > 1, 0, str:length(k))",
        "k is null or str:length(k) > 2",
        "k == 'a' and str:upper(k) == 'A'",
        "str:upper(default(k, 'x'))",
        "str:contains(k, 'x')",
        "str:substr(default(k, 'x'), 0)",
        "str:replaceAll(str:concat(k, 'x'), 'a+', 'b')",
        "math:log(d, 2)",
        "time:dateDiff(default(l, 5L), currentTimeMillis())",
        "time:currentDate()",
    ],
)
def test_what_cannot_fail_is_known(text: str) -> None:
    assert failing(_value(text)) == ""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("str:upper(k)", "str:upper() fails where k is null"),
        ("ifThenElse(k is null and v > 1, 'none', str:upper(k))", "str:upper() fails where k is null"),
        ("ifThenElse(k != 'a', str:upper(k), 'A')", "str:upper() fails where k is null"),
        ("k is null and str:length(k) > 2", "str:length() fails where k is null"),
        ("k == 'a' or str:upper(k) == 'A'", "str:upper() fails where k is null"),
        ("str:contains('abc', k)", "str:contains() fails where k is null"),
        ("str:substr('abc', 4)", "str:substr() may fail"),
        ("str:replaceAll('abc', 'a', '$1')", "str:replaceAll() may fail"),
        ("math:log(d, f)", "math:log() may fail"),
        ("time:extract(l, 'HOUR')", "time:extract() may fail"),
    ],
)
def test_what_may_fail_says_why(text: str, reason: str) -> None:
    assert failing(_value(text)) == reason


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("v + 1", False),
        ("default(v, 0) / 2", True),
        ("default(v, 0) / default(v, 1)", False),
        ("v > 1", True),
        ("ifThenElse(v is null, 0, v)", True),
        ("ifThenElse(v > 1, v, 0)", True),
        ("ifThenElse(v > 1, 0, v)", False),
        ("convert(default(k, '1'), 'int')", False),
        ("convert(default(v, 1), 'string')", True),
        ("coalesce(v, 1)", True),
        ("str:concat(k, k)", True),
        ("math:sin(v)", False),
    ],
)
def test_what_is_never_null_is_known(text: str, known: bool) -> None:
    assert never_null(_value(text)) is known


def test_a_chain_of_thousands_is_looked_at_once():
    text = " or ".join(f"v == {n} and str:contains(k, 'a')" for n in range(3000))
    assert failing(_value(text)) == ""


def test_what_loops_cannot_compute_becomes_attributes_before_and_values_behind():
    app = _app(
        "from S[str:contains(k, 'a')]#window.length(2) select str:concat(k, v * 2) as t, sum(v) as s insert into Out;"
    )
    made = ahead(app.queries[0], app)
    assert [name for name, _exprs in made.before.items()] == ["S"]
    assert made.app.streams["S"].schema.types[:6] == app.streams["S"].schema.types
    assert len(made.app.streams["S"].schema) == 7
    assert len(made.query.selection.values) == 3
    assert all(map(is_looped, made.query.selection.values))
    assert made.behind is not None
    assert not made.asks


def test_a_query_without_such_functions_is_left_alone():
    app = _app("from S[k == 'a' and math:sin(d) > 0.5] select k, convert(v, 'double') as d insert into Out;")
    made = ahead(app.queries[0], app)
    assert made.query is app.queries[0]
    assert made.app is app


@pytest.mark.parametrize(
    ("rest", "asks"),
    [
        ("from S select str:upper(k) as x insert into Out;", True),
        ("from S[not (k is null)] select str:upper(k) as x insert into Out;", False),
        ("from S select str:upper(k) as x insert into Out; from S select v insert into Out2;", False),
        ("from S select v insert into Out2; from S select str:upper(k) as x insert into Out;", True),
        ("from S#window.length(2) select str:upper(k) as x, sum(v) as s insert into Out;", False),
        ("from S select str:upper(k) as x, v having v > 1 insert into Out;", False),
        ("partition with (k of S) begin from S select str:upper(k) as x insert into Out; end;", False),
    ],
)
def test_rows_are_asked_by_queries_whose_failures_concern_nobody_else(rest: str, asks: bool) -> None:
    app = _app(rest)
    assert any(ahead(query, app).asks for query in app.queries) is asks
