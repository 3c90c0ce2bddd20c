"""Long chains of operators in plans."""

from __future__ import annotations

import pytest

from nadi.errors import NadiError
from nadi.functions.registry import default_registry
from nadi.io import registry as connectors
from nadi.lang.tree import Type
from nadi.plan.binder import plan_app
from nadi.plan.elements import canonical, fingerprints
from nadi.plan.explain import explained
from nadi.plan.nodes import Arithmetic, Attr, Comparison, Const, Expr, FilterStep, Logic, SingleInput, links
from nadi.plan.render import written
from nadi.plan.walk import conjuncts, inside, replaced

TERMS = 2000
DEFINITION = "define stream S (a int, b bool, d double);\n"
REGISTRY = default_registry()


def bound(text: str) -> Expr:
    """A filter, bound."""
    app = plan_app(f"{DEFINITION}from S[{text}] select a insert into T;", REGISTRY)
    source = app.queries[0].input
    assert isinstance(source, SingleInput)
    (step,) = source.steps
    assert isinstance(step, FilterStep)
    return step.condition


def total(terms: int) -> Expr:
    expr: Expr = Attr(0, 0, Type.INT, None, "a")
    for n in range(1, terms):
        expr = Arithmetic("+", expr, Const(n, Type.INT), Type.INT)
    return expr


def test_a_condition_of_thousands_of_terms_binds_and_is_written_as_it_was():
    text = " or ".join(f"(a == {n})" for n in range(TERMS))
    assert written(bound(text)) == text


def test_a_sum_of_thousands_of_terms_binds_to_the_promoted_type_from_the_left():
    condition = bound(" + ".join(["a"] * (TERMS - 1) + ["d"]) + " > 1.0")
    assert isinstance(condition, Comparison)
    chain = condition.left
    assert isinstance(chain, Arithmetic)
    assert [link.type for link in links(chain)] == [Type.INT] * (TERMS - 2) + [Type.DOUBLE]


@pytest.mark.parametrize("place", [0, 1, TERMS // 2, TERMS - 1])
def test_a_term_of_a_long_chain_that_is_no_condition_is_pointed_at(place):
    terms = ["b"] * TERMS
    terms[place] = "d"
    with pytest.raises(NadiError, match=r"CONDITION_NOT_BOOL") as caught:
        bound(" and ".join(terms))
    assert caught.value.diagnostic.span.column == len("from S[") + 1 + place * len("b and ")


def test_an_aggregator_in_a_long_chain_is_numbered_from_the_left():
    app = plan_app(
        f"{DEFINITION}from S select {' + '.join(f'sum(a * {n})' for n in range(TERMS))} as x insert into T;", REGISTRY
    )
    (query,) = app.queries
    assert [a.number for a in query.selection.aggregates] == list(range(TERMS))
    assert [a.args[0] for a in query.selection.aggregates[:2]] == [
        Arithmetic("*", Attr(0, 0, Type.INT, None, "a"), Const(n, Type.INT), Type.INT) for n in (0, 1)
    ]


def test_long_chains_are_compared_hashed_and_walked():
    one, two = total(TERMS), total(TERMS)
    assert one == two
    assert hash(one) == hash(two)
    assert one != total(TERMS - 1)
    assert one != Arithmetic("-", total(TERMS - 1), Const(TERMS - 1, Type.INT), Type.INT)
    assert one != Arithmetic("+", total(TERMS - 1), Const(TERMS - 1, Type.INT), Type.LONG)
    assert sum(1 for _ in inside(one)) == 2 * TERMS - 1
    renamed = replaced(one, lambda leaf: Const(0, Type.INT) if isinstance(leaf, Attr) else leaf)
    assert next(p for p in inside(renamed) if not isinstance(p, Arithmetic)) == Const(0, Type.INT)


def test_operators_of_another_kind_or_common_type_are_not_equal():
    b = Attr(0, 1, Type.BOOL)
    assert Logic("and", b, b) != Comparison("and", b, b)
    assert Comparison("==", b, b, Type.INT) != Comparison("==", b, b, Type.LONG)
    assert Comparison("==", b, b) == Comparison("==", b, b)


def test_a_conjunction_is_taken_apart_in_order():
    terms = [Comparison("==", Attr(0, 0, Type.INT), Const(n, Type.INT), Type.INT) for n in range(TERMS)]
    condition: Expr = terms[0]
    for term in terms[1:]:
        condition = Logic("and", condition, term)
    assert list(conjuncts(condition)) == terms
    assert list(conjuncts(Logic("and", terms[0], Logic("and", terms[1], terms[2])))) == terms[:3]
    other = Logic("or", terms[0], terms[1])
    assert list(conjuncts(other)) == [other]


def test_written_expressions_keep_the_parentheses_that_say_something():
    a, one = Attr(0, 0, Type.INT, None, "a"), Const(1, Type.INT)
    less = Arithmetic("-", a, one, Type.INT)
    assert written(Arithmetic("-", less, one, Type.INT)) == "a - 1 - 1"
    assert written(Arithmetic("-", a, less, Type.INT)) == "a - (a - 1)"
    assert written(Arithmetic("*", less, one, Type.INT)) == "(a - 1) * 1"
    equal = Comparison("==", a, one, Type.INT)
    assert written(Comparison("==", equal, equal)) == "(a == 1) == (a == 1)"
    assert written(Logic("or", Logic("and", equal, equal), equal)) == "((a == 1) and (a == 1)) or (a == 1)"


def test_the_canonical_text_of_a_long_chain_is_the_one_of_its_parts():
    assert canonical(()) == "[]"
    assert canonical((total(2), "x", None)) == (
        '[Arithmetic(op="+",left=Attr(slot=0,position=0,type="int",name="a"),right=Const(value=1,type="int"),type="int"),"x",None]'
    )
    assert canonical(total(TERMS)).count("Arithmetic(") == TERMS - 1


def test_an_app_whose_state_depends_on_a_long_chain_has_a_fingerprint_and_an_explanation():
    condition = " or ".join(f"a == {n}" for n in range(TERMS))
    app = plan_app(
        f"{DEFINITION}partition with ({' + '.join(['a'] * TERMS)} of S) begin "
        f"from every e1=S[{condition}] -> e2=S[{condition}] select e1.a insert into T; end;",
        REGISTRY,
    )
    assert len(fingerprints(app)) == 2
    assert app.sharding.kind == "key"
    assert "split by key" in explained(app, connectors)
