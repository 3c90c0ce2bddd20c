"""`reorder:kslack` and `reorder:akslack`: events come out in the order of a time, late ones as late as they must."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nadi.errors import NadiError
from nadi.functions.registry import default_registry
from nadi.kernel.rows.processors.coverage import Alpha, coverage_needed, coverage_reached
from nadi.plan import plan_app
from nadi.runtime import Runtime

S = "define stream S (at long, v double);\n"


def _app(call: str) -> str:
    return f"{S}from S#reorder:{call} select at, v insert into Out;"


def _runtime(call: str) -> tuple[Runtime, list[Any]]:
    runtime = Runtime(_app(call))
    found: list[Any] = []
    runtime.on_stream("Out", lambda events: found.append([e.row[0] for e in events]))
    runtime.start()
    return runtime, found


def _sent(call: str, *times: int) -> list[int]:
    runtime, found = _runtime(call)
    for time in times:
        runtime.send("S", [(None, (time, 1.0))])
    assert not runtime.failures
    return [time for chunk in found for time in chunk]


# ---- K-slack -------------------------------------------------------------------------------------------------------


def test_events_in_order_pass_at_once() -> None:
    assert _sent("kslack(at)", 10, 20, 30) == [10, 20, 30]


def test_an_event_as_late_as_the_last_one_makes_k_as_great_as_the_next_step() -> None:
    assert _sent("kslack(at)", 1, 2, 2, 3, 4) == [1, 2, 2, 3]


def test_k_grows_to_the_lateness_that_was_seen_and_what_is_k_old_goes_out_in_order() -> None:
    runtime, found = _runtime("kslack(at)")
    for time in (10, 40, 30, 50):  # 30 is late by 20 when 50 comes: K = 20
        runtime.send("S", [(None, (time, 1.0))])
    assert found == [[10], [40], [30]]
    for time in (60, 90, 70, 80, 100):  # 70 is late by 30: K = 30
        runtime.send("S", [(None, (time, 1.0))])
    assert found[3:] == [[50, 60], [70]]


def test_equal_times_keep_the_order_of_arrival() -> None:
    runtime = Runtime(_app("kslack(at)"))
    found: list[Any] = []
    runtime.on_stream("Out", lambda events: found.extend(e.row for e in events))
    runtime.start()
    for row in ((50, 0.0), (10, 1.0), (10, 2.0), (60, 3.0), (10, 4.0), (200, 5.0)):
        runtime.send("S", [(None, row)])
    assert found == [(50, 0.0), (10, 1.0), (10, 2.0), (10, 4.0)]


def test_k_grows_to_its_bound_and_no_further() -> None:
    times = (100, 50, 200, 190, 210, 300)
    assert _sent("kslack(at)", *times) == [100, 50]  # K = 150
    assert _sent("kslack(at, -1, 20)", *times) == [100, 50, 190, 200, 210]


def test_late_events_pass_or_are_discarded() -> None:
    times = (10, 50, 20, 60, 30, 120)
    assert _sent("kslack(at)", *times) == [10, 50, 20, 30]
    assert _sent("kslack(at, true)", *times) == [10, 50, 60, 120]
    assert _sent("kslack(at, -1, true)", *times) == [10, 50, 60, 120]
    assert _sent("kslack(at, -1, 1000L, true)", *times) == [10, 50, 60, 120]


def test_what_has_waited_for_the_timeout_goes_out_at_the_next_tick_with_all_that_precedes_it() -> None:
    runtime, found = _runtime("kslack(at, 1500)")
    for now, time in ((0, 100), (0, 10), (100, 200), (700, 190), (800, 195)):  # K = 190
        runtime.advance_to(now)
        runtime.send("S", [(None, (time, 1.0))])
    assert found == [[100], [10]]
    runtime.advance_to(1999)
    assert len(found) == 2
    runtime.advance_to(2000)  # 200 came at 100, 1900 ago; 190 and 195 go before it
    assert found[2:] == [[190, 195, 200]]
    assert runtime.next_timer() is None


def test_events_younger_than_the_timeout_wait_for_a_later_tick() -> None:
    runtime, found = _runtime("kslack(at, 1500)")
    for now, time in ((0, 100), (0, 10), (100, 200), (700, 210)):
        runtime.advance_to(now)
        runtime.send("S", [(None, (time, 1.0))])
    runtime.advance_to(60_000)
    assert found == [[100], [10], [200], [210]]
    assert runtime.next_timer() is None


def test_what_a_timeout_gave_out_makes_earlier_events_late() -> None:
    runtime, found = _runtime("kslack(at, 500, true)")
    for time in (100, 110):
        runtime.send("S", [(None, (time, 1.0))])
    runtime.send("S", [(None, (105, 1.0))])  # before 110, which is out
    runtime.send("S", [(None, (130, 1.0)), (None, (120, 1.0))])
    runtime.advance_to(5000)
    assert [t for chunk in found for t in chunk] == [100, 110, 130]


def test_a_long_gap_of_a_playback_clock_is_one_step() -> None:
    runtime = Runtime("@app:playback " + _app("kslack(at, 1500)"))
    found: list[Any] = []
    runtime.on_stream("Out", lambda events: found.append([e.row[0] for e in events]))
    runtime.start()
    for ts, time in ((1000, 100), (1000, 10), (1100, 200), (1_600_000_000_000, 210)):
        runtime.send("S", [(ts, (time, 1.0))])
    assert found == [[100], [10], [200]]


def test_a_time_that_is_null_or_no_number_is_an_error_of_that_event_alone() -> None:
    runtime, found = _runtime("kslack(at)")
    for time in (1, None, "soon", 2):
        runtime.send("S", [(None, (time, 1.0))])
    assert found == [[1], [2]]
    assert [f.condition for f in runtime.failures] == ["NULL_VALUE", "CLASS_CAST"]


@settings(deadline=None, max_examples=50)
@given(times=st.lists(st.integers(0, 60), max_size=60), bound=st.sampled_from([-1, 10, 40]))
def test_every_event_comes_out_once_and_without_late_ones_in_order(times: list[int], bound: int) -> None:
    runtime, found = _runtime(f"kslack(at, 1 sec, {bound})" if bound != -1 else "kslack(at, 1 sec)")
    for time in times:
        runtime.send("S", [(None, (time, 1.0))])
    runtime.advance(10_000)
    assert sorted(t for chunk in found for t in chunk) == sorted(times)
    assert all(chunk == sorted(chunk) for chunk in found)


@settings(deadline=None, max_examples=50)
@given(times=st.lists(st.integers(0, 60), max_size=60))
def test_where_late_events_are_discarded_what_comes_out_is_in_order(times: list[int]) -> None:
    runtime, found = _runtime("kslack(at, 1 sec, true)")
    for time in times:
        runtime.send("S", [(None, (time, 1.0))])
    runtime.advance(10_000)
    out = [t for chunk in found for t in chunk]
    assert out == sorted(out)


# ---- AQ-K-slack ----------------------------------------------------------------------------------------------------


def test_until_a_batch_is_full_the_adaptive_one_does_what_the_fixed_one_does() -> None:
    times = (1, 4, 3, 5, 6, 9, 7, 8, 10, 13)
    assert _sent("akslack(at, v)", *times) == _sent("kslack(at)", *times)
    assert _sent("akslack(at, v, 20, -1, 2, true)", *times) == _sent("kslack(at, -1, 2, true)", *times)


def test_after_a_batch_k_is_scaled_by_alpha() -> None:
    """Equal values need nearly all of the window: alpha is small, and events wait less."""
    start = list(range(1, 17))  # the 16th event computes alpha
    late = [50, 30, 60]  # 30 is late by 30
    assert _sent("kslack(at)", *start, *late, 70, 81)[len(start) :] == [50, 30]
    scaled = _sent("akslack(at, v, 15)", *start, *late, 70, 81)[len(start) :]
    assert scaled == [50, 30, 60, 70]


def test_coverage_that_was_reached_counts_what_came_before_the_window_closed() -> None:
    assert coverage_reached([10, 20, 30, 15, 25], 30) == 2 / 5  # what comes at the end itself closes it
    assert coverage_reached([], 30) == 1.0
    assert coverage_reached([40, 50], 30) == 1.0


def test_values_that_differ_more_need_a_smaller_share_of_the_window() -> None:
    alike = coverage_needed([10.0] * 16, 1.96, 0.03)
    unlike = coverage_needed([1.0, 30.0] * 8, 1.96, 0.03)
    assert 0 < unlike < alike < 1
    assert coverage_needed([1.0, -1.0], 1.96, 0.03) == 0.0


def test_a_batch_is_forgotten_once_alpha_is_computed() -> None:
    runtime, _found = _runtime("akslack(at, v, 15)")
    for time in range(1000):
        runtime.send("S", [(None, (time, float(time % 7)))])
    assert runtime.kernel.size()["unnamed_1/akslack_1"] < 50


def test_alpha_follows_the_error_and_its_change() -> None:
    runtime, _found = _runtime("akslack(at, v, 15)")
    alpha = Alpha(15, 0.03, 0.95)
    assert alpha.factor({"alpha": runtime.kernel.flow.store.element("x", alpha.cells).at("")["alpha"]}) == 1.0
    cells = runtime.kernel.flow.store.element("y", alpha.cells).at("")
    for time in range(16):
        alpha.observe(cells, time, 5.0)
        alpha.count(cells, time, 100)
    needed = coverage_needed([5.0] * 16, 1.959963984540054, 0.03)
    assert alpha.factor(cells) == pytest.approx(1.3 * (1 - needed))


# ---- refused -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        ("kslack()", "takes"),
        ("kslack(v)", "'timestamp', must be long"),
        ("kslack(at, 'x')", "takes"),
        ("kslack(at, at)", "takes"),
        ("kslack(at, 0)", "'timeout' must be greater than 0, or -1"),
        ("kslack(at, 1 sec, -5)", "'max.k' must be greater than 0, or -1"),
        ("kslack(at, true, 1 sec)", "takes"),
        ("akslack(at)", "takes"),
        ("akslack(at, v, 14)", "'batch.size' must be at least 15"),
        ("akslack(at, v, at)", "'batch.size', must be a constant"),
        ("akslack(at, v, 20, 1 sec, 10, true, 0.1)", "takes"),
        ("akslack(at, v, 20, 1 sec, 10, true, 0.1, 1.0)", "'confidence.level' must lie between 0 and 1"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_with_the_reason(call: str, reason: str) -> None:
    with pytest.raises(NadiError, match=reason) as refused:
        plan_app(_app(call), default_registry())
    assert refused.value.condition == "WRONG_ARGUMENTS"
