"""Expressions as text."""

from __future__ import annotations

import pytest

from nadi.plan.render import written

S = "define stream S (k string, v int, f bool); define table T (k string); "


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("v + 1 * 2", "v + (1 * 2)"),
        ("not (v > 1 and f)", "not ((v > 1) and f)"),
        ("k is null", "k is null"),
        ("k == 'a' or f == true", "(k == 'a') or (f == true)"),
        ("coalesce(k, 'x')", "coalesce(k, 'x')"),
        ("sum(v)", "sum(v)"),
        ("(T.k == k in T)", "(k == k) in T"),
    ],
)
def test_an_expression_is_written_as_in_the_language(plan, expression, text):
    app = plan(S + f"from S select {expression} as x insert into O;")
    assert written(app.queries[0].selection.values[0]) == text


def test_elements_of_patterns_carry_their_number_and_index(plan):
    app = plan(
        S
        + "from e1=S<1:3> -> e2=S select e1[1].v as a, e1[last].v as b, e1[last - 2].v as c, e1.v as d, e2 is null as e "
        "insert into O;"
    )
    assert [written(v) for v in app.queries[0].selection.values] == [
        "e1[1].v",
        "e1[last].v",
        "e1[last - 2].v",
        "e1.v",
        "e2 is null",
    ]
