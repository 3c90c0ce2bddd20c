"""Columns of values: whatever is in them comes back as it was, with its types."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_kernel_state import _shape, atoms, plain

from nadi.kernel.rows.columns import column_of, shape_of, values_of
from nadi.kernel.rows.messagepack import ENCODER

small = st.integers(-9, 9)
alike = st.sampled_from(
    [
        plain,
        atoms,
        st.tuples(st.integers(0, 9), st.tuples(atoms, atoms)),
        st.lists(st.tuples(st.integers(0, 9), st.lists(atoms, max_size=2)), max_size=3),
        st.none() | st.tuples(st.none() | st.tuples(atoms), small),
        st.tuples(plain, st.integers(0, 9)),
        st.lists(st.none() | st.lists(plain, max_size=2), max_size=2),
        st.integers(1_700_000_000_000, 1_700_000_100_000),
        st.booleans() | st.integers(0, 1),
        st.just([]),
    ]
).flatmap(lambda items: st.lists(items, min_size=1, max_size=6))


def back(values: list[Any]) -> list[Any]:
    shape, data = column_of(values)
    return list(islice(values_of(shape, ENCODER.encode(data)), len(values)))


@settings(max_examples=500, deadline=None)
@given(values=alike)
def test_a_column_comes_back_with_its_types(values: list[Any]) -> None:
    found = back(values)
    assert found == values
    assert [_shape(x) for x in found] == [_shape(x) for x in values]


@pytest.mark.parametrize(
    ("values", "shape"),
    [
        ([1, "x", None], "."),
        ([[1, [2]], []], "."),
        ([(1, ("a",)), (2, ("b",))], "(.,(.))"),
        ([(1, 2), ()], "(.)"),
        ([None, (1, 2)], "?(.)"),
        ([[(1,)], [(2,)]], "[(.)]"),
        ([[1, (2,)]], "[*]"),
        ([(1, {2})], "(.,*)"),
        ([{"a": 1}], "*"),
    ],
)
def test_the_shape_of_values(values: list[Any], shape: str) -> None:
    assert shape_of(values) == shape


def test_equal_is_not_the_same() -> None:
    assert list(map(repr, back([0.0, -0.0]))) == ["0.0", "-0.0"]
    assert list(map(repr, back([1, True, 1.0]))) == ["1", "True", "1.0"]


def test_lists_are_not_shared() -> None:
    one, two = back([[], []])
    assert one is not two
