"""Compiled expressions: nulls, widths, promotion, slots, look-ups (semantics/expressions.md)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nadi.errors import NadiError
from nadi.functions.arithmetic import to_float32
from nadi.kernel.rows.compile import ROW, compile_condition, compile_key, compile_row, compile_slots
from nadi.kernel.rows.events import CURRENT, Event
from nadi.kernel.rows.flow import Flow
from nadi.kernel.rows.tables import TableRuntime
from nadi.lang.tree import Type
from nadi.plan.nodes import (
    TABLE,
    Arithmetic,
    Attr,
    AttrList,
    Call,
    Column,
    Comparison,
    Const,
    Expr,
    InTable,
    Logic,
    Negation,
    NullCheck,
    Schema,
    SlotNullCheck,
    Table,
)
from nadi.plan.types import promoted

KINDS = (Type.INT, Type.LONG, Type.FLOAT, Type.DOUBLE, Type.STRING, Type.BOOL)
I, L, F, D, S, B = (Attr(0, n, kind, None, kind.value) for n, kind in enumerate(KINDS))  # noqa: E741
I2, L2, F2, D2 = (Attr(0, 6 + n, kind, None, kind.value) for n, kind in enumerate(KINDS[:4]))


def flow() -> Flow:
    return Flow(lambda key: 0, seed="app/0")


def run(expr: Expr, ts: int = 0, **values: Any) -> Any:
    """The value over a row of named columns; those not given are null."""
    row = tuple(values.get(name) for name in (*(k.value for k in KINDS), "int2", "long2", "float2", "double2"))
    return compile_row(expr, flow(), {})(row, ts)


def arithmetic(op: str, left: Expr, right: Expr) -> Arithmetic:
    kind = promoted(left.type, right.type)
    assert kind is not None
    return Arithmetic(op, left, right, kind)


def compare(op: str, left: Expr, right: Expr) -> Comparison:
    return Comparison(op, left, right, promoted(left.type, right.type))


# ---- arithmetic


@pytest.mark.parametrize("op", ["+", "-", "*", "/", "%"])
@pytest.mark.parametrize(("left", "right"), [(I, I2), (L, F), (D, I), (F, F2)])
def test_arithmetic_with_a_null_is_null(op: str, left: Attr, right: Attr) -> None:
    expr = arithmetic(op, left, right)
    row = [3] * 10
    assert compile_row(expr, flow(), {})(tuple(row), 0) is not None
    for side in (left, right):
        missing = [None if n == side.position else v for n, v in enumerate(row)]
        assert compile_row(expr, flow(), {})(tuple(missing), 0) is None


@pytest.mark.parametrize("op", ["/", "%"])
@pytest.mark.parametrize(("left", "right"), [(I, I2), (L, L2), (F, F2), (D, D2), (D, I2)])
def test_division_by_zero_is_null(op: str, left: Attr, right: Attr) -> None:
    values = {left.name: 5, "int2": 0, "long2": 0, "float2": 0.0, "double2": 0.0}
    assert run(arithmetic(op, left, right), **values) is None
    assert run(arithmetic(op, left, Const(0, right.type)), **values) is None
    assert run(arithmetic(op, left, arithmetic("*", right, right)), **values) is None


@given(st.integers(-(2**31), 2**31 - 1), st.integers(-(2**31), 2**31 - 1))
def test_ints_wrap_at_32_bits(left: int, right: int) -> None:
    function = compile_row(arithmetic("*", I, I2), flow(), {})
    row = (left, None, None, None, None, None, right)
    assert function(row, 0) == (left * right + 2**31) % 2**32 - 2**31


def test_longs_wrap_at_64_bits_and_the_least_int_over_minus_one_is_itself() -> None:
    assert run(arithmetic("+", L, Const(1, Type.LONG)), long=2**63 - 1) == -(2**63)
    assert run(arithmetic("/", I, Const(-1, Type.INT)), int=-(2**31)) == -(2**31)


def test_int_division_truncates_toward_zero() -> None:
    assert run(arithmetic("/", I, Const(2, Type.INT)), int=-7) == -3
    assert run(arithmetic("%", I, Const(2, Type.INT)), int=-7) == -1


def test_floats_are_rounded_to_32_bits_at_each_step() -> None:
    value = to_float32(0.1)
    assert run(arithmetic("*", F, I), float=value, int=3) == to_float32(value * 3)
    assert run(arithmetic("*", F, D), float=value, double=3.0) == value * 3
    assert run(arithmetic("+", F, L), float=0.0, long=16777217) == 16777216.0
    assert run(arithmetic("*", F, F2), float=3e38, float2=10.0) == math.inf


def test_nested_arithmetic_is_null_if_any_part_is() -> None:
    expr = arithmetic("+", arithmetic("*", I, L), arithmetic("/", D, F))
    assert run(expr, int=2, long=3, double=1.0, float=4.0) == 6.25
    assert run(expr, int=2, long=3, double=1.0, float=0.0) is None
    assert run(expr, int=2, double=1.0, float=4.0) is None


def test_a_cast_number_of_another_class_counts_in_its_declared_type() -> None:
    cast = Call("cast", (D, Const("int", Type.STRING)), Type.INT)
    assert run(arithmetic("+", cast, Const(1, Type.INT)), double=5.9) == 6
    assert run(cast, double=5.9) == 5.9


@pytest.mark.parametrize("expr", [arithmetic("+", I, L), arithmetic("/", D, D2), compare(">", I, L)])
def test_a_value_of_a_wrong_class_is_a_class_cast_error(expr: Expr) -> None:
    with pytest.raises(NadiError) as caught:
        run(expr, int="five", long=5, double="five", double2=2.0)
    assert caught.value.siddhi_class == "ClassCastException"


# ---- comparison


@pytest.mark.parametrize("op", ["<", "<=", ">", ">=", "=="])
def test_comparing_with_null_is_false(op: str) -> None:
    for values in ({"int": 1}, {"int2": 1}, {}):
        assert run(compare(op, I, I2), **values) is False
        assert run(compare(op, I, Const(5, Type.INT))) is False


@pytest.mark.parametrize(("left", "right"), [(I, I2), (I, F), (L, D), (D, L), (F, L)])
def test_not_equal_is_true_if_a_side_is_null(left: Attr, right: Attr) -> None:
    expr = compare("!=", left, right)
    assert run(expr) is True
    assert run(expr, int=1, long=1) is (left not in (I, L) or right not in (I, L))
    same = {"int": 1, "int2": 1, "long": 1, "float": 1.0, "double": 1.0}
    assert run(expr, **same) is False


def test_equal_with_two_nulls_is_false_also_between_equal_columns() -> None:
    assert run(compare("==", I, I)) is False
    assert run(compare("==", I, I), int=3) is True
    assert run(compare("!=", I, I), int=3) is False


def test_a_float_is_widened_for_a_double_and_a_whole_number_narrowed_for_a_float() -> None:
    price = to_float32(55.6)
    assert run(compare("==", F, Const(55.6, Type.DOUBLE)), float=price) is False
    assert run(compare("==", F, Const(55.6, Type.FLOAT)), float=price) is True
    assert run(compare("==", F, I), float=16777216.0, int=16777217) is True
    assert run(compare("==", L, D), long=2**53 + 1, double=float(2**53)) is True


# ---- logic


def test_null_counts_as_false_in_and_or_not() -> None:
    other = compare("==", I, I)
    assert run(Logic("and", B, other), int=1) is False
    assert run(Logic("or", B, other), int=1) is True
    assert run(Logic("or", B, B)) is False
    assert run(Negation(B)) is True
    assert run(Negation(B), bool=True) is False


def test_the_right_side_is_evaluated_only_if_needed() -> None:
    fails = compare(">", S, I)
    assert run(Logic("or", compare("==", I, I), fails), int=1, string="x") is True
    assert run(Logic("and", compare("!=", I, I), fails), int=1, string="x") is False


def test_null_checks() -> None:
    assert run(NullCheck(I)) is True
    assert run(NullCheck(Const("a b", Type.STRING))) is False, "and Python does not warn of it"
    assert run(NullCheck(arithmetic("+", I, I)), int=1) is False


# ---- functions


def test_only_the_taken_branch_is_evaluated() -> None:
    boom = Arithmetic("+", S, I, Type.INT)  # a plan would not have it
    expr = Call("ifThenElse", (B, I, boom), Type.INT)
    assert run(expr, bool=True, int=1, string="x") == 1
    with pytest.raises(NadiError):
        run(expr, int=1, string="x")


def test_coalesce_takes_the_first_that_is_not_null() -> None:
    expr = Call("coalesce", (I, I2, Const(9, Type.INT)), Type.INT)
    assert [run(expr, int=1, int2=2), run(expr, int2=2), run(expr)] == [1, 2, 9]


@pytest.mark.parametrize(
    "call",
    [
        Call("coalesce", (B, B), Type.BOOL),
        Call("ifThenElse", (Const(True, Type.BOOL), B, B), Type.BOOL),
        Call("default", (B, Const(None, Type.BOOL)), Type.BOOL),
        Call("cast", (B, Const("bool", Type.STRING)), Type.BOOL),
        Call("math:isNan", (D,), Type.BOOL),
    ],
)
def test_a_function_that_gives_a_bool_gives_false_for_null(call: Call) -> None:
    assert run(call) is False
    assert run(Call("coalesce", (call, Const(True, Type.BOOL)), Type.BOOL)) is False
    assert run(Negation(call)) is True


def test_what_is_cast_to_a_bool_is_one() -> None:
    cast = Call("cast", (I, Const("bool", Type.STRING)), Type.BOOL)
    with pytest.raises(NadiError, match="CLASS_CAST"):
        run(cast, int=1)
    with pytest.raises(NadiError, match="CLASS_CAST"):
        run(Call("cast", (Const(1, Type.INT), Const("bool", Type.STRING)), Type.BOOL))
    assert run(Call("cast", (B, Const("bool", Type.STRING)), Type.BOOL), bool=True) is True


def test_time_functions_read_the_flow_and_the_event() -> None:
    at = flow()
    at.now = 77
    assert compile_row(Call("currentTimeMillis", (), Type.LONG), at, {})((), 5) == 77
    assert compile_row(Call("eventTimestamp", (), Type.LONG), at, {})((), 5) == 5


def test_uuids_differ_by_call_and_repeat_after_a_restart() -> None:
    uuid = Call("UUID", (), Type.STRING)
    first = flow()
    function = compile_row(uuid, first, {})
    ids = [function((), 0)]
    state = list(first.store.dump())
    ids.append(function((), 0))
    again = flow()
    restarted = compile_row(uuid, again, {})
    again.store.load(state)
    assert restarted((), 0) == ids[1] != ids[0]


def test_functions_of_a_namespace_are_called_by_their_registered_name() -> None:
    at = flow()
    entry = at.registry.function("maximum")
    assert entry is not None
    at.registry.add(type(entry)("my:twice", entry.returns, lambda args, result: lambda x: x * 2))
    assert compile_row(Call("my:twice", (I,), Type.INT), at, {})((4,), 0) == 8


# ---- slots


def _slots(expr: Expr, slots: list[Any], events: bool) -> Any:
    return compile_slots(expr, flow(), {}, events)(slots, 0)


def test_attributes_of_an_unmatched_side_are_null() -> None:
    right = Attr(1, 0, Type.INT)
    assert _slots(right, [(1,), (2,)], False) == 2
    assert _slots(right, [(1,), None], False) is None
    assert _slots(SlotNullCheck(1, None), [(1,), None], False) is True
    assert _slots(arithmetic("+", Attr(0, 0, Type.INT), right), [(1,), None], False) is None


@pytest.mark.parametrize(
    ("index", "value"), [(None, 30), (0, 10), (1, 20), (2, 30), (3, None), (-1, 30), (-2, 20), (-3, 10), (-4, None)]
)
def test_bound_events_are_reached_by_index_from_both_ends(index: int | None, value: int | None) -> None:
    bound = [Event(CURRENT, ts, (v,)) for ts, v in ((1, 10), (2, 20), (3, 30))]
    assert _slots(Attr(0, 0, Type.INT, index), [bound], True) == value
    assert _slots(Attr(0, 0, Type.INT, index), [None], True) is None
    if index is not None:
        assert _slots(SlotNullCheck(0, index), [bound], True) is (value is None)


def test_lists_and_timestamps_of_bound_events() -> None:
    bound = [(CURRENT, 1, (10,)), (CURRENT, 2, (20,))]  # as they come back from state
    assert _slots(AttrList(0, 0), [bound], True) == [10, 20]
    assert _slots(AttrList(0, 0), [None], True) == []
    assert _slots(Call("eventTimestamp", (), Type.LONG, slot=0), [bound], True) == 2
    assert _slots(Call("eventTimestamp", (), Type.LONG, slot=0, index=0), [bound], True) == 1


# ---- tables


class Rows:
    """What `in` looks through when it is no table: a named window."""

    def __init__(self, *rows: tuple[object, ...]) -> None:
        self._rows = rows

    def rows(self) -> tuple[tuple[object, ...], ...]:
        return self._rows


KEY = Attr(TABLE, 0, Type.STRING, None, "k")
MATCH = Comparison("==", KEY, S)


def test_in_is_true_if_some_row_satisfies_the_condition() -> None:
    condition = Logic("and", MATCH, compare(">", Attr(TABLE, 1, Type.INT), I))
    function = compile_row(InTable("T", condition), flow(), {"T": Rows(("a", 5), ("b", 1))})
    assert function((3, None, None, None, "a", None), 0) is True
    assert function((3, None, None, None, "b", None), 0) is False


def test_in_looks_up_by_primary_key() -> None:
    at = flow()
    schema = Schema((Column("k", Type.STRING), Column("v", Type.INT)))
    table = TableRuntime(Table("T", schema, (0,)), at)
    table.insert(("a", 1))
    function = compile_row(InTable("T", MATCH), at, {"T": table})
    assert "sought_in_T.lookup((0,)" in str(function.__doc__)
    assert function((None, None, None, None, "a", None), 0) is True
    assert function((None, None, None, None, "z", None), 0) is False
    assert function((None, None, None, None, None, None), 0) is False


def test_table_conditions_see_the_output_row_and_the_tables_row() -> None:
    function = compile_condition(MATCH, flow(), {})
    row = (None, None, None, None, "a", None)
    assert function(row, ("a", 1)) is True
    assert function(row, ("b", 1)) is False


# ---- keys


def test_group_keys_are_the_string_forms_and_null_is_the_text_null() -> None:
    def key(*exprs: Expr) -> Callable[[Any, int], str]:
        return compile_key(exprs, flow(), {}, ROW)

    row = (7, None, 0.5, 1e10, "x", True)
    assert [key(e)(row, 0) for e in (I, L, F, D, S, B)] == ["7", "null", "0.5", "1.0E10", "x", "true"]
    assert key(I, S)(row, 0) == "7\x1fx"
    assert key(S)((None,) * 6, 0) == "null"


@given(
    st.integers(-9, 9) | st.none(), st.integers(-9, 9) | st.none(), st.sampled_from("+-*/%"), st.sampled_from("+-*/%")
)
def test_a_generated_text_means_what_the_tree_means(a: int | None, b: int | None, one: str, two: str) -> None:
    expr = arithmetic(one, arithmetic(two, I, I2), arithmetic(one, I2, Const(3, Type.INT)))
    inner = _reference(two, a, b)
    expected = _reference(one, inner, _reference(one, b, 3))
    assert run(expr, int=a, int2=b) == expected


def _reference(op: str, left: int | None, right: int | None) -> int | None:
    if left is None or right is None or (op in "/%" and right == 0):
        return None
    match op:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "/":
            return int(left / right)
    return int(math.fmod(left, right))
