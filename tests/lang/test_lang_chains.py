"""Long chains of operators: machine-made filters have thousands of terms."""

from __future__ import annotations

import pytest

from nadi.errors import NadiError
from nadi.lang import parse_expression, print_node
from nadi.lang.cursor import MAX_CHAIN
from nadi.lang.tree import Binary, Variable, links

TERMS = 2000
CHAINS = {
    "or": " or ".join(f"a == {n}" for n in range(TERMS)),
    "and": " and ".join(f"S.a != {n}" for n in range(TERMS)),
    "sum": " + ".join(f"a{n}" for n in range(TERMS)),
    "differences": " - ".join(f"f(a{n})" for n in range(TERMS)),
    "mixed": " or ".join(f"a == {n} and b > {n} * 2 + 1" for n in range(TERMS)),
    "in": " or ".join(f"T.a == {n} in T" for n in range(TERMS)),
    "in parentheses": " * ".join(f"(a + {n})" for n in range(TERMS)),
}


@pytest.mark.parametrize("text", CHAINS.values(), ids=CHAINS)
def test_a_chain_of_thousands_of_terms_is_printed_as_it_was_written(text):
    assert print_node(parse_expression(text)) == text


@pytest.mark.parametrize("text", CHAINS.values(), ids=CHAINS)
def test_two_readings_of_a_long_chain_are_equal_and_have_one_hash(text):
    one, two = parse_expression(text), parse_expression(text)
    assert one == two
    assert hash(one) == hash(two)


def test_long_chains_that_differ_in_one_place_are_not_equal():
    names = [f"a{n}" for n in range(TERMS)]
    whole = parse_expression(" + ".join(names))
    for place in (0, 1, TERMS // 2, TERMS - 1):
        changed = [*names[:place], "other", *names[place + 1 :]]
        assert parse_expression(" + ".join(changed)) != whole
    assert parse_expression(" + ".join(names[:-1])) != whole
    assert parse_expression(" + ".join(names[:-1]) + " - " + names[-1]) != whole
    assert whole != "a0 + a1"


def test_the_links_of_a_chain_come_from_the_left():
    chain = parse_expression("a * b + c - d")
    assert isinstance(chain, Binary)
    assert [link.op for link in links(chain)] == ["*", "+", "-"]
    assert links(chain)[0].left == Variable("a")
    assert links(chain)[-1] is chain


def test_parentheses_on_the_left_of_a_long_chain_stay_where_they_are_needed():
    sums = " + ".join(["a"] * TERMS)
    for text in (f"({sums}) * b", f"b - ({sums})", f"not ({sums} > 1) and c"):
        assert print_node(parse_expression(text)) == text


def test_spans_of_a_long_chain_reach_from_its_first_term_to_the_operand_of_each_link():
    text = " + ".join(["abc"] * TERMS)
    chain = parse_expression(text)
    assert isinstance(chain, Binary)
    assert [text[link.span.start : link.span.end] for link in links(chain)[:2]] == ["abc + abc", "abc + abc + abc"]
    assert (chain.span.start, chain.span.end) == (0, len(text))


def test_a_chain_as_long_as_allowed_is_read_and_one_term_more_is_refused_by_name():
    assert parse_expression(" and ".join(["a"] * (MAX_CHAIN + 1))) is not None
    with pytest.raises(NadiError, match=rf"\[TOO_DEEP\] more than {MAX_CHAIN} operators in a chain"):
        parse_expression(" and ".join(["a"] * (MAX_CHAIN + 2)))
