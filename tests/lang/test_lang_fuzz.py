"""Texts of any size and shape are answered in time that grows with their length."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nadi.errors import NadiError
from nadi.functions.registry import default_registry
from nadi.lang import parse, parse_collecting
from nadi.lang.lexer import MOST_CHARACTERS, MOST_ERRORS
from nadi.plan import plan_app
from tests.generate.budget import GENERATED, Examples

unhurried = Examples(GENERATED, seconds=0.6, most=150)

WHOLE = """@app:name('x') define stream S (k string, v int, d double); define table T (k string, v int);
@info(name='q') from S[v > 1 and k == 'a']#window.time(1 sec) select k, sum(v) as x group by k having x > 2 order by k limit 3 insert into O;
partition with (k of S) begin from every e1=S[v > 2] -> e2=S[v > e1.v]<1:3> within 5 sec select e1.k as k, e2[last].v as v insert into P; end;
from S left outer join T on S.k == T.k select S.k as k, T.v as v output last every 2 events insert into Q;
define aggregation A from S select k, avg(d) as m group by k aggregate every sec ... year;
from S select k, ifThenElse(v > 1, str:concat(k, 'x'), null) as t update or insert into T set T.v = v on T.k == k;
"""
PIECES = st.sampled_from(WHOLE.split())

UNITS = {
    "words": "x ",
    "one word": "x",
    "strange characters": "§",
    "quotes": "'",
    "broken strings": "'a\"'",
    "braces": "{",
    "backquotes": "`",
    "brackets": "(",
    "closing brackets": ")",
    "semicolons": ";",
    "annotations": "@a",
    "digits": "1",
    "comments": "/*",
    "lines": "\n",
    "bad queries": "from S[v >] select;\n",
}


@pytest.mark.parametrize("name", UNITS)
def test_a_long_text_of_one_thing_is_read_or_explained(name: str) -> None:
    text = UNITS[name] * (50_000 // len(UNITS[name]))
    _app, found = parse_collecting(text)
    assert len(found) <= MOST_ERRORS + 1
    assert all(len(d.render()) < 2_000 for d in found)


@pytest.mark.parametrize("name", UNITS)
def test_fifty_megabytes_are_refused_by_name(name: str) -> None:
    with pytest.raises(NadiError) as refused:
        parse(UNITS[name] * (50_000_000 // len(UNITS[name])))
    assert refused.value.condition == "TEXT_TOO_LONG"
    assert "50,000,000" in str(refused.value) or "49,999" in str(refused.value)


@pytest.mark.slow
@pytest.mark.parametrize("name", UNITS)
def test_the_longest_text_that_is_read_is_answered(name: str) -> None:
    parse_collecting(UNITS[name] * (MOST_CHARACTERS // len(UNITS[name])))


def test_the_excerpt_of_a_long_line_is_cut_around_its_error() -> None:
    text = f"define stream S (v int); from S select {'v + ' * 5_000} §v as x insert into O; from S select {'v + ' * 5_000} v as x insert into P;"
    with pytest.raises(NadiError) as refused:
        parse(text)
    shown, marks = refused.value.diagnostic.excerpt.split("\n")
    assert len(shown) < 450
    assert shown[marks.index("^")] == "§"


def planned(text: str) -> None:
    explained: NadiError | None = None
    try:
        plan_app(text, default_registry())
    except NadiError as problem:
        explained = problem
    assert explained is None or explained.diagnostic.render()


@unhurried
@given(st.lists(PIECES, max_size=60).map(" ".join))
def test_the_pieces_of_an_app_in_any_order_are_planned_or_explained(text: str) -> None:
    planned(text)


@unhurried
@given(st.data())
def test_an_app_with_a_piece_left_out_doubled_or_changed_is_planned_or_explained(data: st.DataObject) -> None:
    pieces = WHOLE.split()
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(pieces) - 1))
        pieces[at : at + 1] = data.draw(st.sampled_from([[], [pieces[at]] * 2, [data.draw(PIECES)]]))
    planned(" ".join(pieces))
