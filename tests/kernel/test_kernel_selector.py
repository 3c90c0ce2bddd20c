"""The selector: chunk rule, aggregators, having, order, limit (semantics/selection.md)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nadi.errors import NadiError
from nadi.kernel.rows.events import CURRENT, EXPIRED, RESET, TIMER, Chunk, Event
from nadi.kernel.rows.flow import Flow
from nadi.kernel.rows.selector import Selector
from nadi.lang.tree import Events, Type
from nadi.plan.aggregatortraits import ON_ROWS
from nadi.plan.nodes import (
    OUTPUT,
    Aggregate,
    Attr,
    Column,
    Comparison,
    Const,
    Expr,
    InsertIntoStream,
    Query,
    Rate,
    Schema,
    Selection,
    SingleInput,
    WindowCall,
    WindowStep,
)
from nadi.plan.windowtraits import OF_BATCH
from nadi.runtime import Runtime

SCHEMA = Schema((Column("k", Type.STRING), Column("v", Type.INT), Column("f", Type.DOUBLE), Column("b", Type.BOOL)))
K, V, F, B = (Attr(0, n, c.type, None, c.name) for n, c in enumerate(SCHEMA.columns))
WINDOWS = {"length": Const(2, Type.INT), "lengthBatch": Const(2, Type.INT)}


def aggregate(name: str, *args: Expr, number: int = 0) -> Aggregate:
    types = {"sum": Type.LONG, "count": Type.LONG, "distinctCount": Type.LONG, "and": Type.BOOL, "or": Type.BOOL}
    return Aggregate(name, args, types.get(name, Type.DOUBLE), number, ON_ROWS)  # rows do not look at traits


class Rig:
    """A selector over one stream; `take` gives the chunks that came out as text such as `C(a, 1) X(b, 2)`."""

    def __init__(
        self,
        *values: Expr,
        window: str | None = "length",
        events: Events = Events.ALL,
        compat: int = 5,
        rate: Rate | None = None,
        having: Expr | None = None,
        **more: Any,
    ) -> None:
        steps = () if window is None else (WindowStep(WindowCall("q/window", window, (WINDOWS[window],), OF_BATCH)),)
        parts: list[Expr] = [*values, having] if having is not None else list(values)
        aggregates = tuple(x for p in parts for x in (p, getattr(p, "left", None)) if isinstance(x, Aggregate))
        schema = Schema(tuple(Column(f"c{n}", v.type) for n, v in enumerate(values)))
        selection = Selection(tuple(values), schema, aggregates, having=having, **more)
        query = Query("q", "q", SingleInput("S", steps, SCHEMA), selection, InsertIntoStream("Out", events), rate)
        self.flow = Flow(lambda key: 0, compat=compat)
        self.out: list[str] = []
        self.keys: list[list[str]] = []
        self.selector = Selector(query, self.flow, {}, self._emit)

    def _emit(self, chunk: Chunk) -> None:
        self.keys.append(list(self.selector.group_keys))
        self.out.append(" ".join(f"{'CX'[e.kind]}({', '.join(map(str, e.row))})" for e in chunk))

    def send(self, *events: tuple[Any, ...]) -> None:
        """One chunk; an event is its kind and its values."""
        self.selector.process(
            [Event(kind, 5, (*row, None, None, None, None)[:4] if row else ()) for kind, *row in events]
        )

    def take(self) -> list[str]:
        out, self.out = self.out, []
        return out


def c(*row: Any) -> tuple[Any, ...]:
    return (CURRENT, *row)


def x(*row: Any) -> tuple[Any, ...]:
    return (EXPIRED, *row)


R = (RESET,)


# ---- the chunk rule


def test_without_aggregator_all_wanted_events_pass_in_order() -> None:
    rig = Rig(K, V)
    rig.send(x("a", 1), (TIMER,), c("b", 2), c("c", 3))
    assert rig.take() == ["X(a, 1) C(b, 2) C(c, 3)"]


def test_with_an_aggregator_only_the_last_event_of_a_chunk_comes_out() -> None:
    rig = Rig(K, aggregate("sum", V))
    rig.send(c("a", 1))
    rig.send(c("b", 2))
    rig.send(x("a", 1), c("c", 3))
    assert rig.take() == ["C(a, 1)", "C(b, 3)", "C(c, 5)"]


def test_in_4_sliding_windows_let_every_event_out_and_batches_the_last() -> None:
    sliding = Rig(K, aggregate("sum", V), compat=4)
    sliding.send(c("a", 1))
    sliding.send(x("a", 1), c("b", 2))
    assert sliding.take() == ["C(a, 1)", "X(a, None) C(b, 2)"]
    batch = Rig(K, aggregate("sum", V), compat=4, window="lengthBatch")
    batch.send(x("z", 7), R, c("a", 1), c("b", 2))
    assert batch.take() == ["C(b, 3)"]


def test_grouped_the_last_event_per_key_comes_out_in_the_order_of_first_appearance() -> None:
    rig = Rig(K, V, group_by=(K,))
    rig.send(c("a", 1), c("b", 2), x("a", 3))
    assert rig.take() == ["X(a, 3) C(b, 2)"]
    assert rig.keys == [["a", "b"]]


def test_the_last_event_that_passes_having_comes_out() -> None:
    total = aggregate("sum", V)
    rig = Rig(K, total, having=Comparison("<", Attr(OUTPUT, 1, Type.LONG), Const(4, Type.LONG), Type.LONG))
    rig.send(c("a", 1), c("b", 2), c("c", 3))
    assert rig.take() == ["C(b, 3)"]
    rig.send(c("d", -6))
    assert rig.take() == ["C(d, 0)"], "an event that having dropped has counted"


def test_events_that_are_not_wanted_have_counted() -> None:
    rig = Rig(aggregate("sum", V), events=Events.EXPIRED)
    rig.send(c("a", 5))
    rig.send(c("b", 2))
    rig.send(x("b", 2))
    assert rig.take() == ["X(5)"]


def test_a_snapshot_rate_turns_the_chunk_rule_off() -> None:
    rig = Rig(K, aggregate("sum", V), rate=Rate("q/rate", "snapshot", 1000))
    rig.send(c("a", 1), c("b", 2))
    assert rig.take() == ["C(a, 1) C(b, 3)"]


def test_a_chunk_of_which_only_a_reset_is_left_comes_out_empty() -> None:
    rig = Rig(K, events=Events.CURRENT)
    rig.send(x("a", 1), R)
    rig.send(x("a", 1))
    assert rig.take() == [""]
    aggregated = Rig(aggregate("count"), events=Events.CURRENT)
    aggregated.send(x("a", 1), R)
    assert aggregated.take() == []


# ---- order, limit, offset


def test_order_is_within_runs_of_a_kind_stable_and_nulls_come_last_both_ways() -> None:
    by = Attr(OUTPUT, 1, Type.INT)
    for up, expected in (
        (True, "X(q, 9) C(c, 1) C(a, 2) C(b, 2) C(n, None)"),
        (False, "X(q, 9) C(a, 2) C(b, 2) C(c, 1) C(n, None)"),
    ):
        rig = Rig(K, V, order_by=((by, up),))
        rig.send(x("q", 9), c("n", None), c("a", 2), c("b", 2), c("c", 1))
        assert rig.take() == [expected]


def test_several_columns_order_one_after_the_other() -> None:
    rig = Rig(K, V, order_by=((Attr(OUTPUT, 0, Type.STRING), False), (Attr(OUTPUT, 1, Type.INT), True)))
    rig.send(c("a", 2), c("b", 2), c("b", 1))
    assert rig.take() == ["C(b, 1) C(b, 2) C(a, 2)"]


def test_strings_are_ordered_by_code_unit() -> None:
    rig = Rig(K, order_by=((Attr(OUTPUT, 0, Type.STRING), True),))
    rig.send(c("\uffee"), c("\U0001f600"), c("Z"), c("a"))
    assert rig.take() == ["C(Z) C(a) C(\U0001f600) C(\uffee)"]


def test_offset_then_limit_count_within_the_chunk() -> None:
    rig = Rig(K, limit=1, offset=1)
    rig.send(c("a"), c("b"), c("c"))
    rig.send(c("d"))
    assert rig.take() == ["C(b)"]
    single = Rig(aggregate("count"), limit=0)
    single.send(c("a"))
    assert single.take() == []


def test_a_limit_cuts_current_events_only() -> None:
    rig = Rig(K, limit=1)
    rig.send(x("a"), x("b"), R, c("c"), c("d"))
    rig.send(c("e"), x("f"), c("g"))
    assert rig.take() == ["X(a) X(b)", "C(e) X(f)"]
    cut = Rig(K, limit=1, offset=1)
    cut.send(c("a"), x("b"), c("c"), x("d"))
    assert cut.take() == ["X(b) X(d)"]


def test_a_limit_of_nothing_keeps_back_the_one_expired_event_of_an_aggregation() -> None:
    rig = Rig(aggregate("count"), limit=0)
    rig.send(c("a"), x("a"))
    assert rig.take() == []


# ---- aggregators


def _values(rig: Rig, *events: tuple[Any, ...]) -> list[str]:
    for event in events:
        rig.send(event)
    return [text[2:-1] for text in rig.take()]


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("sum", ["3", "5", "2", "None"]),
        ("avg", ["3.0", "2.5", "2.0", "None"]),
        ("min", ["3", "2", "2", "None"]),
        ("max", ["3", "3", "2", "None"]),
        ("stdDev", ["0.0", "0.5", "0.0", "None"]),
        ("count", ["1", "2", "1", "0"]),
        ("distinctCount", ["1", "2", "1", "0"]),
        ("minForever", ["3", "2", "2", "2"]),
        ("maxForever", ["3", "3", "3", "3"]),
    ],
)
def test_expired_events_are_taken_back(name: str, values: list[str]) -> None:
    events = (c("a", 3), c("a", 2), x("a", 3), x("a", 2))
    assert _values(Rig(aggregate(name, V)), *events) == values


@pytest.mark.parametrize(("name", "value"), [("sum", "4"), ("min", "4"), ("max", "4"), ("avg", "4.0"), ("count", "2")])
def test_null_is_ignored_but_counted(name: str, value: str) -> None:
    assert _values(Rig(aggregate(name, V)), c("a", 4), c("a", None))[-1] == value


def test_null_is_a_value_of_its_own_for_distinct_count() -> None:
    events = (c("null"), c(None), c(None), x(None), x(None), x("null"))
    assert _values(Rig(aggregate("distinctCount", K)), *events) == ["1", "2", "2", "2", "1", "0"]


def test_an_empty_sum_is_null() -> None:
    assert _values(Rig(aggregate("sum", V)), c("a", None)) == ["None"]


def test_sums_of_expired_events_alone_go_negative() -> None:
    """Readers of a window that outputs expired events only (semantics/windows.md#named-windows)."""
    assert _values(Rig(aggregate("sum", V)), x("a", 4)) == ["-4"]


def test_sums_of_whole_numbers_wrap_at_64_bits() -> None:
    assert _values(Rig(aggregate("sum", V)), c("a", 2**63 - 1), c("a", 1))[-1] == str(-(2**63))


def test_and_or_hold_over_the_group_and_fail_on_null() -> None:
    both, either = aggregate("and", B), aggregate("or", B, number=1)
    rig = Rig(both, either)
    rows = (c("a", 1, 1.0, True), c("a", 1, 1.0, False), x("a", 1, 1.0, False), x("a", 1, 1.0, True))
    assert _values(rig, *rows) == ["True, True", "False, True", "True, True", "False, False"]
    with pytest.raises(NadiError, match="NULL_VALUE"):
        rig.send(c("a", 1, 1.0, None))


@pytest.mark.parametrize(("compat", "chunks"), [(5, ["C(1, 1)", "C(2, 2)"]), (4, ["C(1, 7)", "C(2, 8)"])])
def test_a_reset_clears_all_groups_and_only_in_4_spares_what_holds_forever(compat: int, chunks: list[str]) -> None:
    rig = Rig(aggregate("sum", V), aggregate("maxForever", V, number=1), group_by=(K,), compat=compat)
    rig.send(c("a", 7))
    rig.send(c("b", 8))
    rig.send(R, c("a", 1))
    rig.send(c("b", 2))
    assert rig.take() == ["C(7, 7)", "C(8, 8)", *chunks]


def test_groups_and_partition_keys_are_apart() -> None:
    rig = Rig(aggregate("sum", V), group_by=(K,))
    for key, event in (("p", c("a", 1)), ("q", c("a", 2)), ("p", c("a", 4)), ("p", c("b", 8))):
        rig.flow.key = key
        rig.send(event)
    assert rig.take() == ["C(1)", "C(2)", "C(5)", "C(8)"]


def test_null_and_the_text_null_are_one_group() -> None:
    rig = Rig(aggregate("sum", V), group_by=(K,))
    rig.send(c(None, 1))
    rig.send(c("null", 2))
    assert rig.take() == ["C(1)", "C(3)"]


def test_a_value_of_a_wrong_class_in_an_aggregator_is_a_class_cast_error() -> None:
    rig = Rig(aggregate("sum", V))
    rig.send(c("a", 1))
    with pytest.raises(NadiError) as caught:
        rig.send(c("a", "one"))
    assert caught.value.siddhi_class == "ClassCastException"
    rig.send(c("a", 2))
    assert rig.take()[-1] == "C(3)"


@settings(max_examples=60, deadline=None)
@given(
    values=st.lists(st.tuples(st.sampled_from("ab"), st.integers(-4, 4)), max_size=40),
    held=st.integers(1, 6),
    restarts=st.sets(st.integers(0, 39)),
    name=st.sampled_from(["min", "max", "distinctCount", "sum"]),
    last_in_first_out=st.booleans(),
)
def test_sliding_aggregates_equal_those_computed_anew_over_restarts(
    values: list[tuple[str, int]], held: int, restarts: set[int], name: str, last_in_first_out: bool
) -> None:
    rig = Rig(aggregate(name, V), group_by=(K,))
    fresh = {"min": min, "max": max, "sum": sum, "distinctCount": lambda vs: len(set(vs))}[name]
    window: list[tuple[str, int]] = []
    base, deltas = list(rig.flow.store.dump()), []
    for number, (key, value) in enumerate(values):
        if len(window) == held:
            gone = window.pop(-1 if last_in_first_out else 0)
            rig.send(x(*gone))
            rig.take()
        window.append((key, value))
        rig.send(c(key, value))
        assert rig.take() == [f"C({fresh([v for k, v in window if k == key])})"]
        if number in restarts:
            deltas.append(rig.flow.store.delta())
            rig.flow.store.load([*base, *deltas])


def test_a_delta_of_a_sliding_minimum_has_only_the_values_that_came_or_went() -> None:
    rig = Rig(aggregate("min", V))
    for value in range(5000):
        rig.send(c("a", value))
    rig.flow.store.delta()
    rig.send(x("a", 0), c("a", 7000))
    assert len(rig.flow.store.delta()) < 120


def test_without_expiry_a_minimum_is_one_value() -> None:
    rig = Rig(aggregate("min", V), window=None)
    for value in range(100):
        rig.send(c("a", value))
    assert rig.flow.store.size()["q/selector"] == 1


def test_groups_that_became_empty_are_forgotten() -> None:
    rig = Rig(aggregate("sum", V), aggregate("min", V, number=1), group_by=(K,))
    for key in "abc":
        rig.send(c(key, 1))
        rig.send(x(key, 1))
    assert rig.flow.store.size()["q/selector"] == 0


@pytest.mark.parametrize(
    ("count", "counted"),
    [
        ("count(*)", [1, 2, 3]),
        ("count(k, v)", [1, 2, 3]),
        ("count(v + 1, k, v)", [1, 2, 3]),
        ("count(*) + 1L", [2, 3, 4]),
    ],
)
def test_under_compat_4_count_takes_any_number_of_arguments_and_counts_events(count: str, counted: list[int]) -> None:
    text = f"define stream S (k string, v int); from S select {count} as n insert into O;"
    app = Runtime(f"@app:compat('4') {text}")
    found: list[object] = []
    app.on_stream("O", lambda chunk: found.extend(e.row[0] for e in chunk))
    app.start()
    for row in (("a", 1), (None, 2), ("a", None)):
        app.send("S", [(None, row)])
    assert found == counted
    with pytest.raises(NadiError, match="count: takes"):
        Runtime(text)


@pytest.mark.parametrize("call", ["sum(*)", "avg(v, v)", "distinctCount(*)", "min(*)"])
def test_under_compat_4_no_other_aggregator_takes_several_arguments(call: str) -> None:
    with pytest.raises(NadiError, match="takes"):
        Runtime(f"@app:compat('4') define stream S (k string, v int); from S select {call} as n insert into O;")
