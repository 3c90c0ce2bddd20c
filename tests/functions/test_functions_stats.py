"""The namespace `stats`: the median."""

from __future__ import annotations

from statistics import median
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nadi.errors import NadiError
from nadi.functions.registry import default_registry
from nadi.plan import plan_app
from nadi.runtime import Runtime


def _medians(kind: str, values: list[Any], window: str = "#window.length(3)") -> list[Any]:
    app = f"define stream S (x {kind}); from S{window} select stats:median(x) as m insert into Out;"
    runtime = Runtime(app)
    found: list[Any] = []
    runtime.on_stream("Out", lambda events: found.extend(e.row[0] for e in events))
    runtime.start()
    for value in values:
        runtime.send("S", [(None, (value,))])
    assert not runtime.failures
    return found


@settings(deadline=None, max_examples=30)
@given(values=st.lists(st.integers(-(2**31), 2**31 - 1), max_size=12))
def test_the_median_follows_a_sliding_window(values: list[int]) -> None:
    assert _medians("int", values) == [float(median(values[max(0, n - 2) : n + 1])) for n in range(len(values))]


def test_the_median_is_a_double_of_any_number() -> None:
    assert _medians("long", [2**62, 2**62]) == [float(2**62)] * 2
    assert _medians("float", [1.5, 2.5]) == [1.5, 2.0]
    assert _medians("double", [1.5, 2.5, 10.0]) == [1.5, 2.0, 2.5]


def test_null_is_no_value() -> None:
    assert _medians("int", [None, 4, None, 6], "") == [None, 4.0, 4.0, 5.0]


def test_the_median_of_a_window_that_got_empty_is_null() -> None:
    app = "define stream S (x int); from S#window.time(10) select stats:median(x) as m insert expired events into Out;"
    runtime = Runtime(app)
    found: list[Any] = []
    runtime.on_stream("Out", lambda events: found.extend(e.row[0] for e in events))
    runtime.start()
    runtime.send("S", [(None, (3,))])
    runtime.advance(20)
    assert found == [None]


@pytest.mark.parametrize("call", ["stats:median()", "stats:median(s)", "stats:median(x, x)"])
def test_other_arguments_are_refused(call: str) -> None:
    app = f"define stream S (x int, s string); from S select {call} as m insert into Out;"
    with pytest.raises(NadiError) as refused:
        plan_app(app, default_registry())
    assert refused.value.condition == "WRONG_ARGUMENTS"
