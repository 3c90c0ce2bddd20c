"""Patterns and sequences as plans: slots, references, counts, absence."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nadi.errors import NadiError
from nadi.lang import parse
from nadi.lang.tree import (
    AbsentState,
    CountState,
    EveryState,
    LogicalState,
    NextState,
    SingleInput,
    Source,
    StateInput,
    StreamState,
    Type,
)
from nadi.plan import bind
from nadi.plan.nodes import (
    AbsentElement,
    Attr,
    AttrList,
    Call,
    Comparison,
    CountElement,
    EveryElement,
    FilterStep,
    LogicalElement,
    NextElement,
    SlotNullCheck,
    StreamElement,
)

STREAMS = "define stream S (k string, v int); define stream R (k string, w int); "


def only(app):
    return app.elements[-1]


def test_elements_are_numbered_in_the_order_of_the_text(plan):
    query = only(plan(STREAMS + "from every (e1=S and e2=R) -> e3=S -> not R for 1 sec select e3.v insert into O;"))
    assert isinstance(query.input.root, NextElement)
    every, third, absent = query.input.root.elements
    assert isinstance(every, EveryElement)
    assert isinstance(every.element, LogicalElement)
    assert (every.element.left.slot, every.element.right.slot, third.slot, absent.element.slot) == (0, 1, 2, 3)
    assert isinstance(absent, AbsentElement)
    assert absent.waiting == 1000
    assert query.selection.values == (Attr(2, 1, Type.INT, None, "v"),)


def test_a_filter_sees_its_own_event_first_and_others_by_reference(plan):
    query = only(plan(STREAMS + "from e1=S -> e2=S[v > e1.v] select e2.v insert into O;"))
    second = query.input.root.elements[1]
    assert second.steps == (
        FilterStep(Comparison(">", Attr(1, 1, Type.INT, None, "v"), Attr(0, 1, Type.INT, None, "v"), Type.INT)),
    )


def test_an_element_without_a_reference_is_called_by_its_stream(plan):
    query = only(plan(STREAMS + "from S -> R select S.v, R.w insert into O;"))
    assert query.selection.values == (Attr(0, 1, Type.INT, None, "v"), Attr(1, 1, Type.INT, None, "w"))


def test_indexes_of_counted_elements_are_kept(plan):
    query = only(
        plan(
            STREAMS + "from e1=S<2:5> -> e2=R select e1[1].v as a, e1[last].v as b, e1[last - 1].v as c insert into O;"
        )
    )
    assert [v.index for v in query.selection.values] == [1, -1, -2]
    assert query.input.counted == (True, False)
    assert query.input.root.elements[0] == CountElement(StreamElement(0, "S", (), "e1"), 2, 5)


def test_an_unindexed_reference_to_a_counted_element_selects_the_list_of_its_values(plan):
    query = only(plan(STREAMS + "from e1=S<2:5> -> e2=R select e1.v as all, e2.w insert into O;"))
    assert query.selection.values[0] == AttrList(0, 1, Type.OBJECT, "v")
    assert query.selection.schema.types == (Type.OBJECT, Type.INT)


def test_without_a_reference_it_selects_the_first_value(plan):
    by_stream = only(plan(STREAMS + "from S<2:5> -> e2=R select S.v as first, e2.w insert into O;"))
    assert by_stream.selection.values[0] == Attr(0, 1, Type.INT, 0, "v")
    bare = only(plan(STREAMS + "from e1=S<2:5> -> e2=R select v as first, e2.w insert into O;"))
    assert bare.selection.values[0] == Attr(0, 1, Type.INT, 0, "v")


def test_with_compat_4_an_unindexed_reference_to_a_counted_element_selects_the_first_value(plan):
    query = only(plan("@app:compat('4') " + STREAMS + "from e1=S<2:5> -> e2=R select e1.v as first insert into O;"))
    assert query.selection.values == (Attr(0, 1, Type.INT, 0, "v"),)


def test_in_a_filter_an_unindexed_reference_to_another_counted_element_means_its_last_event(plan):
    query = only(plan(STREAMS + "from e1=S<2:5> -> e2=R[w > e1.v] select e2.w insert into O;"))
    (step,) = query.input.root.elements[1].steps
    assert step.condition.right == Attr(0, 1, Type.INT, -1, "v")


def test_in_its_own_filter_the_event_has_no_index_and_last_is_the_latest_accepted(plan):
    query = only(
        plan(STREAMS + "from every e1=R, e2=S[e2[last].v is null or v > e2[last].v]+ select e1.w insert into O;")
    )
    (step,) = query.input.root.elements[1].element.steps
    compared = step.condition.right
    assert (compared.left.index, compared.right.index) == (None, -1)


def test_a_stream_reference_can_be_checked_for_null_with_and_without_index(plan):
    query = only(
        plan(STREAMS + "from e1=S<1:2> -> e2=R or e3=S select e2 is null as a, e1[1] is null as b insert into O;")
    )
    assert query.selection.values == (SlotNullCheck(1, None), SlotNullCheck(0, 1))


def test_an_attribute_is_checked_for_null_as_an_attribute(plan):
    query = only(plan(STREAMS + "from e1=S -> e2=R[w is null] select e1.v insert into O;"))
    (step,) = query.input.root.elements[1].steps
    assert step.condition.operand == Attr(1, 1, Type.INT, None, "w")


def test_event_timestamp_of_a_reference_names_the_slot(plan):
    query = only(plan(STREAMS + "from e1=S -> e2=R select eventTimestamp(e2) as t insert into O;"))
    assert query.selection.values == (Call("eventTimestamp", (), Type.LONG, 1),)


def test_within_is_in_milliseconds_and_the_id_tells_patterns_from_sequences(plan):
    query = only(plan(STREAMS + "from e1=S -> e2=R within 2 sec select e1.v insert into O;"))
    assert (query.input.within, query.input.id, query.input.sequence) == (2000, "unnamed_1/pattern", False)
    query = only(plan(STREAMS + "@info(name='q') from e1=S, e2=R select e1.v insert into O;"))
    assert (query.input.within, query.input.id, query.input.sequence) == (None, "q/sequence", True)


def test_having_may_refer_to_elements_by_index(plan):
    query = only(plan(STREAMS + "from e1=S<1:3> -> e2=R select e2.w having e1[2].v > 1 insert into O;"))
    assert query.selection.having.left == Attr(0, 1, Type.INT, 2, "v")


def test_stream_functions_widen_the_element_that_they_stand_on(plan):
    text = "define stream P (a double); from e1=P#pol2Cart(a, a)[cartX > 1.0] -> e2=P select e1.cartY insert into O;"
    query = only(plan(text))
    assert query.input.schemas[0].names == ("a", "cartX", "cartY")
    assert query.selection.values == (Attr(0, 2, Type.DOUBLE, None, "cartY"),)
    assert query.input.root.elements[0].steps[0].id == "unnamed_1/e0.pol2Cart_1"


# ---- trees that no text gives, but a program may build -------------------------------------------------------------


def rebuilt(catalog, state, kind="pattern"):
    tree = parse(STREAMS + "from e1=S -> e2=R select e1.v insert into O;")
    query = replace(tree.elements[0], input=StateInput(kind, state))
    return bind(replace(tree, elements=(query,)), catalog)


S1 = StreamState(SingleInput(Source("S")), "e1")
R2 = StreamState(SingleInput(Source("R")), "e2")
NOT_R = AbsentState(SingleInput(Source("R")))


@pytest.mark.parametrize(
    ("state", "kind", "message"),
    [
        (NextState((S1, NOT_R)), "pattern", "without 'for' may only be an operand of 'and'"),
        (NextState((S1, LogicalState("or", R2, NOT_R))), "pattern", "not of 'or'"),
        (NextState((S1, LogicalState("and", NOT_R, NOT_R))), "pattern", "one operand of 'and' must be an event"),
        (NextState((S1, EveryState(R2))), "sequence", "only before the first element"),
        (NextState((CountState(S1, 1, None, "+"), R2)), "pattern", "counts elements of sequences"),
    ],
)
def test_an_impossible_state_is_refused(catalog, state, kind, message):
    with pytest.raises(NadiError, match=message):
        rebuilt(catalog, state, kind)


def test_absence_without_for_goes_with_an_event_by_and(catalog):
    made = rebuilt(catalog, NextState((S1, LogicalState("and", NOT_R, R2))))
    assert made.elements[0].input.root.elements[1].left.waiting is None
