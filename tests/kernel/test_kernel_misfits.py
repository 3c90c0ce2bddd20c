"""Whatever values events have: what fails, fails with a condition of the catalogue, and for a reason in words of the language."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nadi.errors import NadiError, conditions
from nadi.functions.public import function
from nadi.functions.registry import default_registry
from nadi.kernel.contract import Failure
from nadi.runtime import Runtime

COLUMNS = "s string, i int, l long, f float, d double, b bool, o object"
NAMES = ("s", "i", "l", "f", "d", "b", "o")
REALS = st.sampled_from([None, 0.0, -0.0, 1.5, -1.0, math.nan, math.inf, -math.inf])
TEXTS = st.sampled_from(
    [None, "", "a", "-1", "1e400", "NaN", "(", "[", "{", "%", "$.a", "yyyy", '{"a":1}', "9" * 30, "true"]
)
OBJECTS = st.sampled_from([None, {}, [], {"a": None}, [None], "text", 5, 1.5, True, frozenset()])
ROWS = st.tuples(
    TEXTS,
    st.sampled_from([None, 0, 1, -1, 2**31 - 1, -(2**31)]),
    st.sampled_from([None, 0, 1, -1, 2**63 - 1, -(2**63), 253_402_300_800_000]),
    REALS,
    REALS,
    st.sampled_from([None, True, False]),
    OBJECTS,
)
FUNCTIONS = default_registry().names("function")
PYTHON = re.compile(
    r"NoneType|\b(dict|str|frozenset|bytes)\b|unsupported operand|has no (attribute|len)|unhashable|not supported between"
    r"|codec|\w+Error\b|\bNone\b|\bTrue\b|\bFalse\b"
)
"""What only those know who know Python."""


def _failures(app: str, rows: list[tuple[Any, ...]]) -> list[Failure] | None:
    """What fails of some events; None where there is no such app."""
    try:
        runtime = Runtime(f"define stream S ({COLUMNS}); {app}")
    except NadiError:
        return None
    runtime.start()
    for n, row in enumerate(rows):
        runtime.send("S", [(1000 + 100 * n, row)])
        runtime.advance(50)
    runtime.advance(100_000)
    runtime.shutdown()
    return list(runtime.failures)


def _check(failures: list[Failure] | None) -> None:
    for failure in failures or ():
        assert failure.condition in conditions()
        assert failure.condition not in ("QUERY_FAILED", "CALLBACK_FAILED"), failure
        without_values = re.sub(r"'[^']*'", "", failure.message)
        assert not PYTHON.search(without_values), failure.message


@st.composite
def apps(draw: st.DrawFn) -> str:
    """An app that does one thing with values."""

    def name() -> str:
        return draw(st.sampled_from(NAMES))

    def value() -> str:
        kind = draw(st.sampled_from(("", "", "int", "long", "float", "double", "string", "bool")))
        return f"cast({name()}, '{kind}')" if kind else name()

    made = draw(st.sampled_from(("call", "expression", "aggregate", "window", "step", "key", "order", "table", "time")))
    match made:
        case "call":
            arguments = ", ".join(value() for _ in range(draw(st.integers(1, 3))))
            return f"from S select {draw(st.sampled_from(FUNCTIONS))}({arguments}) as r insert into Out;"
        case "expression":
            operator = draw(st.sampled_from(("+", "-", "*", "/", "%", "<", ">=", "==", "and", "or")))
            return f"from S select {value()} {operator} {value()} as r insert into Out;"
        case "aggregate":
            window = draw(st.sampled_from(("", "#window.length(2)", "#window.lengthBatch(2)", "#window.time(200)")))
            what = draw(st.sampled_from(("sum", "avg", "min", "max", "stdDev", "and", "distinctCount", "unionSet")))
            return f"from S{window} select {what}({value()}) as r insert all events into Out;"
        case "window":
            what = draw(st.sampled_from(("sort(2, {})", "frequent(2, {})", "externalTime({}, 100)", "expression({})")))
            what = draw(
                st.sampled_from(
                    (what, "unique:length({}, 2)", "session(100 millisec, {})", "lossyFrequent(0.3, 0.1, {})")
                )
            )
            return f"from S#window.{what.format(name())} select s, d, o insert all events into Out;"
        case "step":
            what = ("pol2Cart({0}, {1})", "str:tokenize({0}, {1})", "map:tokenize({0})", "json:tokenize({0}, {1})")
            what = (*what, "reorder:kslack({0})", "reorder:akslack({0}, {1})", "unique:deduplicate({0}, 100)")
            return f"from S#{draw(st.sampled_from(what)).format(name(), name())} select s insert into Out;"
        case "key":
            return f"partition with ({value()} of S) begin from S select count() as n insert into Out; end;"
        case "order":
            return f"from S#window.lengthBatch(3) select s, i, l, f, d, b, o order by {name()} insert into Out;"
        case "table":
            k = name()
            mark = draw(st.sampled_from(("", f"@index('{k}')", f"@primaryKey('{k}')")))
            action = f"update or insert into T set T.d = T.d + d on T.{k} == {k}"
            return f"{mark} define table T ({COLUMNS}); from S {action};"
        case _:
            return f"define aggregation G from S select {name()}, sum(i) as t group by {name()} aggregate by {name()} every sec...year;"


@settings(max_examples=250, deadline=None)
@given(app=apps(), rows=st.lists(ROWS, min_size=1, max_size=6))
def test_every_failure_has_a_condition_and_a_reason_without_words_of_python(
    app: str, rows: list[tuple[Any, ...]]
) -> None:
    _check(_failures(app, [*rows, (None,) * len(NAMES)]))


@pytest.mark.parametrize(
    ("app", "row", "reason"),
    [
        ("from S#pol2Cart(d, d) select s insert into Out;", {}, "NULL_VALUE: parameter 1 of 'pol2Cart' met null"),
        (
            "from S select cast(o, 'int') > 1 as r insert into Out;",
            {"o": {}},
            "a map and a whole number cannot be compared",
        ),
        ("from S select str:length(cast(i, 'string')) as r insert into Out;", {"i": 5}, "a whole number came"),
        ("from S select cast(b, 'int') + 1 as r insert into Out;", {"b": True}, "true is not a number"),
        ("from S select map:get(o, 'a') as r insert into Out;", {"o": "x"}, "must be a map, not a text"),
        ("from S select distinctCount(o) as r insert into Out;", {"o": {}}, "a map cannot be a key"),
        (
            "@primaryKey('o') define table T (o object); from S select o insert into T;",
            {"o": []},
            "a list cannot be a key",
        ),
    ],
)
def test_what_does_not_go_together_is_told_in_words_of_the_language(app: str, row: dict[str, Any], reason: str) -> None:
    failures = _failures(app, [tuple(row.get(name) for name in NAMES)])
    assert failures is not None
    _check(failures)
    assert [reason in f"{f.condition}: {f.message}" for f in failures] == [True]


def test_the_coordinates_of_an_angle_without_an_end_are_no_numbers() -> None:
    app = Runtime(f"define stream S ({COLUMNS}); from S#pol2Cart(d, d) select x, y insert into Out;")
    found: list[Any] = []
    app.on_stream("Out", lambda chunk: found.extend(e.row for e in chunk))
    app.start()
    app.send("S", [(None, ("", 1, 1, 1.0, math.inf, True, None))])
    assert all(math.isnan(value) for value in found[0])


def test_a_query_on_demand_that_meets_values_which_do_not_go_together_says_so() -> None:
    app = Runtime(f"define stream S ({COLUMNS}); define table T (o object); from S select o insert into T;")
    app.start()
    for value in ({}, 1.5, "x"):
        app.send("S", [(None, ("", 1, 1, 1.0, 1.0, True, value))])
    with pytest.raises(NadiError, match="cannot be compared"):
        app.query("from T select o order by o")


def _broken(raised: Callable[[], Exception]) -> Callable[[int], int]:
    def broken(value: int) -> int:
        raise raised()

    return broken


def test_what_a_function_of_a_package_raises_keeps_its_own_words() -> None:
    registry = default_registry()
    registry.add(function("my:broken")(_broken(lambda: ValueError("the wheel is off"))))
    app = Runtime("define stream S (i int); from S select my:broken(i) as r insert into Out;", registry=registry)
    app.start()
    app.send("S", [(None, (1,))])
    assert [(f.condition, "the wheel is off" in f.message) for f in app.failures] == [("QUERY_FAILED", True)]
