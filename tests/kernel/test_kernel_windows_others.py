"""session, sort, frequent, lossyFrequent (semantics/windows.md)."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from windowrig import Rig, attr

from nadi.errors import NadiError
from nadi.kernel.rows.events import CURRENT, Event
from nadi.kernel.rows.windows.frequency import _hash_order
from nadi.lang.tree import Type
from nadi.plan.nodes import Const, Expr
from nadi.runtime import Runtime


def test_a_session_ends_a_gap_after_its_last_event_and_takes_earlier_events_in_front() -> None:
    """Observed: gap 1 s, a1@1000 a2@1500, clock 2550; a4@2560 a5@2000 a6@2450, clock 9000."""
    rig = Rig("session", 1000, "key")
    rig.send(1000, 1, key="a")
    rig.send(1500, 2, key="a")
    rig.clock(2550)
    rig.send(2560, 4, key="a")
    rig.send(2000, 5, key="a")
    rig.send(2450, 6, key="a")
    assert rig.content() == [5, 4, 6]
    rig.clock(9000)
    assert rig.take() == [
        "C1@1000",
        "C2@1500",
        "X1@1000 X2@1500",
        "C4@2560",
        "C5@2000",
        "C6@2450",
        "X5@2000 X4@2560 X6@2450",
    ]
    assert rig.content() == []


def test_sessions_of_several_keys_end_in_the_order_of_their_ends() -> None:
    rig = Rig("session", 1000, "key")
    rig.send(1000, 1, key="a")
    rig.send(1200, 2, key="b")
    rig.send(1300, 3, key="a")
    rig.clock(9000)
    assert rig.take()[3:] == ["X2@1200", "X1@1000 X3@1300"]


def test_sessions_that_end_at_the_same_time_leave_in_the_order_of_javas_hashes() -> None:
    rig = Rig("session", 1000, "key")
    for v, key in ((1, "WSO2"), (2, "IBM"), (3, "GOOG")):
        rig.send(1000, v, key=key)
    rig.clock(2000)
    assert rig.take()[3:] == ["X3@1000 X2@1000 X1@1000"]


def test_each_timer_of_a_session_ends_what_ends_by_its_own_time() -> None:
    rig = Rig("session", 1000, "key")
    rig.send(1000, 1, key="a")
    rig.send(1200, 2, key="b")
    rig.clock(9000)
    assert rig.take()[2:] == ["X1@1000", "X2@1200"]


def test_a_live_session_expires_at_its_end() -> None:
    rig = Rig("session", 1000, live=True)
    rig.send(1000, 1)
    rig.send(1500, 2)
    rig.clock(9000)
    assert rig.out[-1] == (2500, "X1@1000 X2@1500")
    assert rig.flow.timers.next_due() is None


def test_an_event_too_early_for_its_session_is_dropped() -> None:
    rig = Rig("session", 1000)
    rig.send(5000, 1)
    rig.send(3900, 2)
    assert rig.take() == ["C1@5000"]


def test_a_finished_session_waits_for_late_events() -> None:
    rig = Rig("session", 1000, "key", 500, live=True)
    rig.send(1000, 1, key="a")
    rig.clock(2100)
    assert rig.take() == ["C1@1000"]
    rig.window.process([_event(1900, 2)])
    rig.clock(9000)
    assert rig.out == [(2100, "C2@1900"), (3400, "X1@1000 X2@1900")]


def test_a_late_event_that_closes_the_distance_joins_both_sessions() -> None:
    rig = Rig("session", 1000, "key", 1000, live=True)
    rig.send(1000, 1, key="a")
    rig.send(2500, 2, key="a")
    rig.window.process([_event(1800, 3)])
    assert rig.content() == [1, 3, 2]
    rig.clock(9000)
    assert rig.take() == ["C1@1000", "C2@2500", "C3@1800", "X1@1000 X3@1800 X2@2500"]


def _event(ts: int, v: int) -> Event:
    return Event(CURRENT, ts, (v, 0, "a"))


def test_a_sort_window_lets_the_greatest_go_after_the_new_event() -> None:
    rig = Rig("sort", 2, "v")
    for v in (5, 3, 4, 9, 1):
        rig.send(10, v)
    assert rig.take() == ["C5@10", "C3@10", "C4@10 X5@10", "C9@10 X9@10", "C1@10 X4@10"]
    assert rig.content() == [1, 3]


def test_a_sort_window_orders_by_several_attributes_up_and_down() -> None:
    rig = Rig("sort", 2, "key", "desc", "v", "asc")
    for key, v in (("a", 1), ("b", 2), ("b", 1), ("c", 7)):
        rig.send(10, v, key=key)
    assert rig.take() == ["C1@10", "C2@10", "C1@10 X1@10", "C7@10 X2@10"]


def test_the_newest_of_equals_leaves_a_sort_window() -> None:
    rig = Rig("sort", 1, "key")
    rig.send(10, 1, key="a")
    rig.send(20, 2, key="a")
    assert rig.take() == ["C1@10", "C2@20 X2@20"]


def test_a_sort_window_takes_null_until_it_has_to_compare() -> None:
    rig = Rig("sort", 1, "key")
    rig.send(10, 1, key=None)  # type: ignore[arg-type]
    with pytest.raises(NadiError, match="NULL_VALUE"):
        rig.send(10, 2, key="a")
    assert rig.take() == ["C1@10"]
    assert rig.content() == [1]


def test_a_sort_window_compares_a_later_attribute_only_where_those_before_are_equal() -> None:
    rig = Rig("sort", 1, "v", "desc", "key", "asc")
    rig.send(10, 1, key=None)  # type: ignore[arg-type]
    rig.send(10, 2, key="a")
    assert rig.take() == ["C1@10", "C2@10 X1@10"]
    with pytest.raises(NadiError, match="NULL_VALUE"):
        rig.send(10, 2, key=None)  # type: ignore[arg-type]


def test_frequent_counts_all_keys_down_when_there_is_no_room() -> None:
    rig = Rig("frequent", 2, "key")
    for v, key in ((1, "a"), (2, "a"), (3, "b"), (4, "c"), (5, "c"), (6, "d"), (7, "a")):
        rig.send(10, v, key=key)
    # c (a 2, b 1) takes b's place; d (a 1, c 2) takes a's place; a (c 1, d 1) takes both
    assert rig.take() == ["C1@10", "C2@10", "C3@10", "X3@10 C4@10", "C5@10", "X2@10 C6@10", "X5@10 X6@10 C7@10"]


def test_an_event_that_finds_no_room_is_dropped_silently() -> None:
    rig = Rig("frequent", 1, "key")
    for v, key in ((1, "a"), (2, "a"), (3, "b")):
        rig.send(10, v, key=key)
    assert rig.take() == ["C1@10", "C2@10"]
    assert rig.content() == [2]


def test_lossy_frequent_passes_keys_above_the_share_and_prunes_by_bucket() -> None:
    rig = Rig("lossyFrequent", 0.5, 0.25, "key")
    for v, key in ((1, "a"), (2, "a"), (3, "b"), (4, "a"), (5, "c")):
        rig.send(10, v, key=key)
    # b has 1 of 3 (0.25 * 3 asked), and is pruned with the fourth event
    assert rig.take() == ["C1@10", "C2@10", "C3@10", "C4@10 X3@10"]


@pytest.mark.parametrize(
    ("shown", "chunks"),
    [
        (None, ["C1@10", "C1@10", "X1@10 C2@10"]),  # of a named window the whole event is the key
        ((attr("v"), Const(7, Type.INT)), ["C1@10", "C1@10", "C1@10"]),
        (
            (Const(7, Type.INT),),
            ["C1@10", "C1@10", "C1@10", "C2@10"],
        ),  # what is computed is null as long as the event is in the window
    ],
)
def test_without_attributes_the_key_is_what_the_query_shows_unchanged(
    shown: tuple[Expr, ...] | None, chunks: list[str]
) -> None:
    rig = Rig("frequent", 1, shown=shown)
    for v, key in ((1, "a"), (1, "a"), (1, "b"), (2, "b")):
        rig.send(10, v, key=key)
    assert rig.take() == chunks


def test_keys_leave_in_the_order_of_javas_hashes() -> None:
    # spread hashes mod 16: 5, 7 and 1
    assert _hash_order(["IBM", "WSO2", "GOOG"]) == ["GOOG", "IBM", "WSO2"]


@pytest.mark.parametrize(("name", "args"), [("frequent", (3, "key")), ("lossyFrequent", (0.5, 0.25, "key"))])
def test_what_is_found_in_a_window_of_frequent_keys_stands_in_the_order_of_javas_hashes(
    name: str, args: tuple[object, ...]
) -> None:
    rig = Rig(name, *args)
    for v, key in ((1, "IBM"), (2, "WSO2"), (3, "GOOG")):
        rig.send(10, v, key=key)
    assert rig.content() == [3, 1, 2]


def test_an_expression_window_drops_the_oldest_until_the_expression_holds() -> None:
    rig = Rig("expression", "sum(v) < 10 and last.at - first.at <= 5")
    for v, at in ((4, 0), (5, 1), (3, 2), (1, 7), (20, 8)):
        rig.send(at, v, at=at)
    # 20 fails alone: it leaves itself
    assert rig.take() == ["C4@0", "C5@1", "X4@2 C3@2", "X5@7 C1@7", "X3@8 X1@8 X20@8 C20@8"]
    assert rig.content() == []


def test_an_expression_may_come_with_the_events_and_applies_to_what_is_held() -> None:
    rig = Rig("expression", "key")
    for v, text in ((1, "count() <= 3"), (2, "count() <= 3"), (3, "count() <= 3"), (4, "count() <= 2")):
        rig.send(v, v, key=text)
    assert rig.take() == ["C1@1", "C2@2", "C3@3", "X1@4 X2@4 C4@4"]


def test_an_expression_that_is_not_one_is_an_error() -> None:
    with pytest.raises(NadiError, match="CONDITION_NOT_BOOL"):
        Rig("expression", "count()")
    with pytest.raises(NadiError, match="ATTRIBUTE_NOT_FOUND"):
        Rig("expression", "volume > 5")
    with pytest.raises(NadiError, match="SYNTAX"):
        Rig("expression", "count( <")


def test_an_expression_batch_is_flushed_by_the_event_at_which_it_fails() -> None:
    rig = Rig("expressionBatch", "count() <= 2")
    for v in (1, 2, 3, 4, 5):
        rig.send(v * 10, v)
    # batches carry the time of the flush, C as well
    assert rig.take() == ["C1@30 C2@30", "X1@50 X2@50 C3@50 C4@50"]
    assert rig.content() == [5]  # what is found in it is the batch that is being collected


def test_an_expression_batch_can_include_the_event_at_which_it_fails() -> None:
    rig = Rig("expressionBatch", "sum(v) < 5", True)
    for now, v in ((10, 1), (20, 4), (30, 0), (40, 3)):
        rig.send(now, v)
    assert rig.take() == ["C1@20 C4@20", "X1@40 X4@40 C0@40 C3@40"]


def test_a_streaming_expression_batch_passes_events_and_expires_with_the_one_that_fails() -> None:
    rig = Rig("expressionBatch", "count() <= 2", False, True)
    for v in (1, 2, 3):
        rig.send(v * 10, v)
    assert rig.take() == ["C1@10", "C2@20", "X1@30 X2@30 C3@30"]


def test_an_event_that_fails_alone_leaves_an_expression_batch_before_it_comes_and_counts_for_the_next() -> None:
    for streams in (False, True):
        rig = Rig("expressionBatch", "sum(v) < 5", False, streams)
        for now, v in ((10, 7), (20, 1), (30, 2)):
            rig.send(now, v)
        assert rig.take() == ["X7@10 C7@10", "X1@20 C1@20", *(["C2@30"] if streams else [])]


def test_what_ends_a_batch_and_is_part_of_it_counts_for_the_next_one() -> None:
    rig = Rig("expressionBatch", "count() <= 2", True)
    for v in range(1, 7):
        rig.send(v, v)
    assert rig.take() == ["C1@3 C2@3 C3@3", "X1@5 X2@5 X3@5 C4@5 C5@5"]


def test_a_streaming_expression_batch_expires_after_the_event_that_ends_it_if_this_is_part_of_it() -> None:
    rig = Rig("expressionBatch", "count() <= 2", True, True)
    for v in (1, 2, 3):
        rig.send(v * 10, v)
    assert rig.take() == ["C1@10", "C2@20", "C3@30 X1@30 X2@30 X3@30"]


def test_cron_emits_at_its_fires_and_only_if_events_came() -> None:
    rig = Rig("cron", "*/10 * * * * ?", live=True)
    rig.send(1000, 1)
    rig.send(2000, 2)
    rig.clock(60000)
    rig.send(61000, 3)
    rig.clock(90000)
    assert rig.out == [(10000, "C1@1000 C2@2000"), (70000, "X1@70000 X2@70000 C3@61000")]
    assert rig.flow.timers.next_due() is None


def test_a_cron_window_whose_expression_is_none_is_refused_with_the_app() -> None:
    with pytest.raises(NadiError, match="'every minute' is not a cron expression") as refused:
        Rig("cron", "every minute")
    assert refused.value.condition == "INVALID_CRON"


@settings(deadline=None, max_examples=50)
@given(values=st.lists(st.integers(0, 20), max_size=30))
def test_aggregates_of_an_expression_window_are_those_of_what_it_holds(values: list[int]) -> None:
    rig = Rig("expression", "sum(v) <= 40 and max(v) - min(v) <= 12 and count() <= 5")
    held: list[int] = []
    for now, value in enumerate(values):
        rig.send(now, value)
        held.append(value)
        while held and not (sum(held) <= 40 and max(held) - min(held) <= 12 and len(held) <= 5):
            held.pop(0)
        assert rig.content() == held


@settings(deadline=None, max_examples=50)
@given(values=st.lists(st.integers(0, 20), max_size=30))
def test_aggregates_of_an_expression_batch_begin_anew_with_each_batch(values: list[int]) -> None:
    rig = Rig("expressionBatch", "sum(v) <= 40 and max(v) - min(v) <= 12")
    batches, batch = [], []  # type: ignore[var-annotated]
    for now, value in enumerate(values):
        rig.send(now, value)
        if sum([*batch, value]) <= 40 and max([*batch, value]) - min([*batch, value]) <= 12:
            batch.append(value)
        else:
            batches.append(batch)
            batch = [value]
    emitted = [[int(part[1:].split("@")[0]) for part in text.split() if part[0] == "C"] for text in rig.take()]
    assert emitted == batches


def test_an_event_at_which_an_aggregator_fails_is_not_in_the_window() -> None:
    app = (
        "define stream S (v int, ok bool);"
        "from S#window.expression('sum(v) < 100 and and(ok) and count() < 3') select sum(v) as t insert into Out;"
    )
    runtime = Runtime(app)
    found: list[object] = []
    runtime.on_stream("Out", lambda events: found.extend(e.row[0] for e in events))
    runtime.start()
    for row in ((1, True), (50, None), (2, True), (4, True)):
        runtime.send("S", [(None, row)])
    assert [f.condition for f in runtime.failures] == ["NULL_VALUE"]
    assert found == [1, 3, 6]
