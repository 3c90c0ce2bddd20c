"""Expressions with thousands of terms, and with brackets a hundred deep, are compiled and evaluated."""

from __future__ import annotations

import pytest

from nadi.lang.cursor import MAX_CHAIN, MAX_DEPTH
from nadi.runtime import Runtime

TERMS = 2000
STREAMS = "define stream S (a int, b bool, d double, l long, s string);\ndefine table T (x int, y int);\n"


def outcome(app: str, *events: tuple[object, ...]) -> list[tuple[object, ...]]:
    """The rows that come out of `Out`."""
    runtime = Runtime(STREAMS + app)
    rows: list[tuple[object, ...]] = []
    runtime.on_stream("Out", lambda chunk: rows.extend(tuple(e.row) for e in chunk))
    runtime.start()
    for event in events:
        runtime.send("S", [event])
    assert runtime.failures == ()
    runtime.shutdown()
    return rows


def value(text: str, event: tuple[object, ...]) -> object:
    (row,) = outcome(f"from S select {text} as x insert into Out;", event)
    return row[0]


def event(a: int | None = 1, b: bool | None = True, d: float | None = 1.0, long: int | None = 1, s: str = "s") -> tuple:
    return (a, b, d, long, s)


def test_a_filter_of_thousands_of_alternatives_passes_what_one_of_them_names():
    condition = " or ".join(f"a == {n}" for n in range(TERMS))
    events = [event(n) for n in (0, TERMS - 1, TERMS, None)]
    assert outcome(f"from S[{condition}] select a insert into Out;", *events) == [(0,), (TERMS - 1,)]


def test_a_filter_of_thousands_of_conjunctions_passes_what_none_of_them_forbids():
    condition = " and ".join(f"a != {n}" for n in range(TERMS))
    events = [event(n) for n in (0, TERMS - 1, TERMS)]
    assert outcome(f"from S[{condition}] select a insert into Out;", *events) == [(TERMS,)]


def test_the_terms_of_a_long_chain_of_logic_may_be_of_any_form():
    condition = " or ".join(f"(a + {n} > {TERMS} and not (b == false)) or s == 'x{n}'" for n in range(TERMS))
    events = [event(1, s="x7"), event(1, s="y"), event(2), event(2, b=False)]
    assert outcome(f"from S[{condition}] select a, s insert into Out;", *events) == [(1, "x7"), (2, "s")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (" + ".join(["a"] * TERMS), 3 * TERMS),
        (" + ".join(["2147483647"] * TERMS), -TERMS),
        (" - ".join(["l"] * TERMS), -5 * (TERMS - 2)),
        (" + ".join(["0.5"] * TERMS), TERMS / 2),
        (" * ".join(["d"] * TERMS), 1.0),
        ("1000000" + " / a" * TERMS, 0),
        ("a" + " % 7" * TERMS, 3),
        ("1000000" + " / (a - 3)" * TERMS, None),
        (" == ".join(["b"] * TERMS), True),
        (" + ".join(["a"] * TERMS) + " > 5000 and " + " or ".join(["b"] * TERMS), True),
        (f"({' + '.join(['a'] * TERMS)}) * ({' - '.join(['a'] * TERMS)})", 6000 * (-3 * (TERMS - 2))),
        (" + ".join(["cast(d, 'int')"] * TERMS), TERMS),
        (" + ".join(["maximum(a, 1)", "a"] * (TERMS // 2)), 3 * TERMS),
    ],
    ids=[
        "int",
        "overflow",
        "long",
        "double",
        "product",
        "quotient",
        "remainder",
        "zero",
        "equal",
        "mixed",
        "both",
        "cast",
        "calls",
    ],
)
def test_a_chain_of_thousands_of_operators_is_computed_from_the_left(text, expected):
    assert value(text, event(3, True, 1.0, 5)) == expected


@pytest.mark.parametrize("place", [0, 1, 7, 8, 9, TERMS // 2, TERMS - 1])
def test_a_null_anywhere_in_a_long_sum_makes_it_null(place):
    terms = ["a"] * TERMS
    terms[place] = "l"
    assert value(" + ".join(terms), event(long=None)) is None
    assert value(" + ".join(terms), event()) == TERMS


def test_the_longest_chain_that_is_read_can_be_run():
    assert value(" + ".join(["a"] * (MAX_CHAIN + 1)), event()) == MAX_CHAIN + 1
    assert value(" or ".join(["a > 1"] * MAX_CHAIN + ["b"]), event()) is True


@pytest.mark.parametrize("term", ["a + ", "a * 2 - ", "d * d / ", "a * l + a - "])
def test_brackets_as_deep_as_allowed_are_computed_as_the_flat_expression_would_be(term):
    text = f"({term}" * (MAX_DEPTH - 1) + "l" + ")" * (MAX_DEPTH - 1)
    assert value(text, event(long=None)) is None
    x: float = 7
    a, d, long = 1, 1.0, 7
    for _ in range(MAX_DEPTH - 1):
        x = {"a + ": a + x, "a * 2 - ": a * 2 - x, "d * d / ": d * d / x, "a * l + a - ": a * long + a - x}[term]
    assert value(text, event(a, True, d, long)) == x


def test_logic_and_calls_as_deep_as_allowed_are_evaluated():
    deep = "(b and a > 0 or " * (MAX_DEPTH - 2) + "false" + ")" * (MAX_DEPTH - 2)
    assert value(deep, event(0)) is False
    calls = "ifThenElse(b, a, " * (MAX_DEPTH - 2) + "5" + ")" * (MAX_DEPTH - 2)
    assert (value(calls, event(3)), value(calls, event(3, False))) == (3, 5)
    negations = "not (" * (MAX_DEPTH // 2 - 1) + "b" + ")" * (MAX_DEPTH // 2 - 1)
    assert value(negations, event()) is False


def test_a_deep_condition_on_a_table_sees_the_row_of_the_table():
    condition = "(T.x + " * (MAX_DEPTH - 3) + "0" + ")" * (MAX_DEPTH - 3)
    app = f"from S select a as x, 1 as y insert into T; from S[({condition} == {(MAX_DEPTH - 3) * 2}) in T] select a insert into Out;"
    assert outcome(app, event(1), event(2)) == [(2,)]


def test_long_conditions_serve_joins_tables_and_patterns():
    long = " and ".join(["T.x == a"] + [f"T.y != {n}" for n in range(10, TERMS)])
    fill = "from S select a as x, 1 as y insert into T; "
    joined = f"from S join T on {long.replace('== a', '== S.a')} select T.x insert into Out;"
    assert outcome(fill + joined, event(1), event(2)) == [(1,), (2,)]
    within = f"from S[({long}) in T] select a insert into Out;"
    assert outcome(fill + within, event(1)) == [(1,)]
    deleting = f"from S[b == false] select a delete T on {long}; from S join T on T.x >= 0 select T.x insert into Out;"
    assert outcome(fill + deleting, event(1), event(1, False)) == [(1,)]
    either = " or ".join(f"e1.a + {n} == a" for n in range(1, TERMS))
    pattern = f"from e1=S[a < 5] -> e2=S[{either}] select e1.a, e2.a as other insert into Out;"
    assert outcome(pattern, event(1), event(1), event(TERMS)) == [(1, TERMS)]
