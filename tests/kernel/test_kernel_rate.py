"""Rate limiters, fed by hand."""

from typing import Any

import pytest

from nadi.kernel.rows.events import CURRENT, EXPIRED, RESET, Chunk, Event
from nadi.kernel.rows.flow import Flow
from nadi.kernel.rows.rate import make_limiter
from nadi.lang.tree import Events, Type
from nadi.plan.nodes import Attr, Column, InsertIntoStream, Query, Rate, Schema, Selection, SingleInput
from nadi.runtime import Runtime

SCHEMA = Schema((Column("k", Type.STRING), Column("v", Type.INT)))


def _query(rate: Rate, grouped: bool = False) -> Query:
    values = (Attr(0, 0, Type.STRING), Attr(0, 1, Type.INT))
    selection = Selection(values, SCHEMA, group_by=(values[0],) if grouped else ())
    return Query("q", "q", SingleInput("S", (), SCHEMA), selection, InsertIntoStream("Out", Events.ALL), rate)


def _rig(rate: Rate, grouped: bool = False, compat: int = 5) -> tuple[Flow, Any, list[list[Any]]]:
    flow = Flow(lambda _key: 0, compat=compat)
    out: list[list[Any]] = []
    limiter = make_limiter(_query(rate, grouped), flow, lambda chunk: out.append([e.row for e in chunk]))
    return flow, limiter, out


def _feed(limiter: Any, *rows: tuple[str, int]) -> None:
    for row in rows:
        limiter.process([Event(CURRENT, 0, row)], [row[0]])


ROWS = (("a", 1), ("b", 2), ("a", 4), ("a", 8), ("b", 7), ("c", 6))


def test_all_events_are_collected_to_chunks_of_the_size_asked_for() -> None:
    _flow, limiter, out = _rig(Rate("r", "all", events=4))
    _feed(limiter, *ROWS)
    assert out == [list(ROWS[:4])]


def test_expired_events_count_too() -> None:
    _flow, limiter, out = _rig(Rate("r", "all", events=2))
    limiter.process([Event(EXPIRED, 0, ("a", 1)), Event(CURRENT, 0, ("b", 1)), Event(CURRENT, 0, ("c", 1))])
    assert out == [[("a", 1), ("b", 1)]]


def test_what_one_arrival_completes_goes_on_as_one_chunk() -> None:
    for kind in ("all", "last"):
        _flow, limiter, out = _rig(Rate("r", kind, events=2))  # type: ignore[arg-type]
        limiter.process([Event(CURRENT, 0, ("a", v)) for v in range(5)])
        assert out == [[("a", v) for v in range(4) if kind == "all" or v % 2]]


def test_in_4_each_n_events_are_a_chunk_of_their_own() -> None:
    _flow, limiter, out = _rig(Rate("r", "all", events=2), compat=4)
    limiter.process([Event(CURRENT, 0, ("a", v)) for v in range(5)])
    assert out == [[("a", 0), ("a", 1)], [("a", 2), ("a", 3)]]


def test_without_a_group_a_reset_counts_for_the_first_of_each_two() -> None:
    _flow, limiter, out = _rig(Rate("r", "first", events=2))
    limiter.process([Event(RESET, 0, ()), Event(CURRENT, 0, ("a", 1)), Event(CURRENT, 0, ("b", 2))])
    assert out == [[(), ("b", 2)]]


def test_the_first_of_each_two_events_of_a_group_passes() -> None:
    _flow, limiter, out = _rig(Rate("r", "first", events=2), grouped=True)
    _feed(limiter, *ROWS)
    assert out == [[("a", 1)], [("b", 2)], [("a", 8)], [("c", 6)]]


def test_first_of_every_single_event_passes_once_ever() -> None:
    _flow, limiter, out = _rig(Rate("r", "first", events=1))
    for row in ROWS:
        limiter.process([Event(CURRENT, 0, row)])
    assert out == [[("a", 1)]]


def test_the_last_event_of_each_group_passes_after_every_three_events() -> None:
    _flow, limiter, out = _rig(Rate("r", "last", events=3), grouped=True)
    _feed(limiter, *ROWS)
    assert out == [[("a", 4), ("b", 2)], [("a", 8), ("b", 7), ("c", 6)]]


def test_a_period_emits_what_came_in_it_and_nothing_where_nothing_came() -> None:
    flow, limiter, out = _rig(Rate("r", "all", every=1000))
    limiter.begin()
    flow.timers.run_until(500)
    _feed(limiter, *ROWS[:2])
    flow.timers.run_until(3500)
    _feed(limiter, ROWS[2])
    flow.timers.run_until(4000)
    assert out == [list(ROWS[:2]), [ROWS[2]]]


def test_after_a_long_jump_of_the_clock_the_ticks_keep_their_phase() -> None:
    flow = Flow(lambda _key: 0, playback=True)
    out: list[Chunk] = []
    limiter = make_limiter(_query(Rate("r", "all", every=1000)), flow, out.append)
    limiter.begin()
    flow.timers.jump_to(1_500_000_000_300)
    _feed(limiter, ROWS[0])
    flow.timers.jump_to(1_500_000_000_999)
    assert out == []
    flow.timers.jump_to(1_500_000_001_000)
    assert [e.row for e in out[0]] == [ROWS[0]]


def test_first_of_a_period_needs_no_timer() -> None:
    flow, limiter, out = _rig(Rate("r", "first", every=1000))
    for now, row in ((0, ("a", 1)), (999, ("b", 2)), (1000, ("c", 3))):
        flow.timers.run_until(now)
        limiter.process([Event(CURRENT, now, row)])
    assert flow.timers.next_due() is None
    assert out == [[("a", 1)], [("c", 3)]]


def test_a_snapshot_without_a_window_repeats_the_last_event() -> None:
    flow, limiter, out = _rig(Rate("r", "snapshot", every=1000))
    limiter.begin()
    for row in ROWS[:2]:
        limiter.process([Event(CURRENT, 0, row)])
    flow.timers.run_until(2000)
    assert out == [[("b", 2)], [("b", 2)]]


def _shown(text: str, sent: tuple[tuple[int, str, float], ...], until: int) -> list[object]:
    """The rows of a snapshot over S(k, d)."""
    app = Runtime(f"define stream S (k string, d double); {text} output snapshot every 1 sec insert all events into O;")
    rows: list[object] = []
    app.on_stream("O", lambda chunk: rows.extend(e.row for e in chunk))
    app.start()
    for at, k, d in sent:
        app.advance(at)
        app.send("S", [(k, d)])
    app.advance(until)
    return rows


def test_a_row_with_nan_leaves_a_snapshot_as_any_other() -> None:
    nan = float("nan")
    found = _shown("from S#window.length(1) select k, d * 2.0 as e", ((0, "a", nan), (10, "b", 1.0)), 1000)
    assert found == [("b", 2.0)]


def test_a_snapshot_has_a_row_for_the_group_of_the_empty_text_as_for_any_other() -> None:
    found = _shown("from S#window.length(3) select k, sum(d) as s group by k", ((0, "", 1.0), (10, "", 2.0)), 1000)
    assert found == [("", 3.0)]


_EVENTS = ((300, "a", 1.0), (700, "b", 2.0), (700, "a", 5.0))
_OUTPUTS = tuple[list[object] | None, list[object] | None]


def _ticks(text: str, sent: tuple[tuple[int, str, float], ...], until: int, before: str = "") -> list[_OUTPUTS]:
    """The rows of C and X of each tick of a snapshot over S(k, d), T(k, e) and the table U(k, d), which has a row ("a", 1.0)."""
    app = Runtime(
        f"{before} define stream S (k string, d double); define stream T (k string, e double); define stream F (k string, d double); "
        f"define table U (k string, d double); from F insert into U; @info(name='q') {text}"
    )
    found: list[_OUTPUTS] = []
    app.on_query("q", lambda _ts, came, left: found.append((_rows(came), _rows(left))))
    app.start()
    app.send("F", [("a", 1.0)])
    for at, k, d in sent:
        while (due := app.next_timer()) is not None and due < at:
            app.advance_to(due)
        app.advance_to(at)
        app.send("S", [(k, d)])
        app.send("T", [(k, d)])
    while (due := app.next_timer()) is not None and due <= until:
        app.advance_to(due)
    return found


def _rows(events: list[Event] | None) -> list[object] | None:
    return None if events is None else [e.row[0] if len(e.row) == 1 else tuple(e.row) for e in events]


_SHOWN = "output snapshot every 1 sec insert all events into O;"
_NOTHING = (None, None)


def test_a_sum_alone_is_not_shown_from_when_an_event_leaves_until_the_next_one_comes() -> None:
    found = _ticks(f"from S#window.time(1500) select sum(d) as s {_SHOWN}", (*_EVENTS, (2100, "a", 9.0)), 4000)
    assert found == [([8.0], None), _NOTHING, _NOTHING, _NOTHING]


def test_a_sum_alone_is_shown_where_one_comes_as_another_leaves() -> None:
    found = _ticks(f"from S#window.length(2) select sum(d) as s {_SHOWN}", _EVENTS, 2000)
    assert found == [([7.0], None)] * 2


def test_the_sum_of_a_group_that_an_event_has_left_comes_as_an_expired_event() -> None:
    found = _ticks(f"from S#window.time(1500) select sum(d) as s group by k {_SHOWN}", _EVENTS, 3000)
    assert found == [([6.0, 2.0], None), ([2.0], [5.0]), _NOTHING]


def test_a_group_whose_events_have_left_is_shown_no_more_and_comes_last_when_it_comes_again() -> None:
    sent = ((300, "a", 1.0), (700, "b", 2.0), (1300, "b", 3.0), (2300, "c", 1.0), (2300, "a", 2.0))
    found = _ticks(f"from S#window.length(2) select count() as n, sum(d) as s group by k {_SHOWN}", sent, 3000)
    assert found == [([(1, 1.0), (1, 2.0)], None), ([(2, 5.0)], None), ([(1, 1.0), (1, 2.0)], None)]


def test_a_group_that_is_in_the_next_batch_keeps_its_place() -> None:
    sent = ((300, "a", 1.0), (300, "b", 2.0), (1300, "c", 3.0), (1300, "b", 4.0))
    found = _ticks(f"from S#window.lengthBatch(2) select sum(d) as s group by k {_SHOWN}", sent, 2000)
    assert found == [([1.0, 2.0], None), ([4.0, 3.0], None)]


def test_a_group_with_other_columns_shows_the_event_that_came_first() -> None:
    found = _ticks(f"from S#window.time(1500) select k, d, sum(d) as s group by k {_SHOWN}", _EVENTS, 2000)
    assert found == [
        ([("a", 1.0, 6.0), ("b", 2.0, 2.0)], None),
        ([("b", 2.0, 2.0), ("a", 5.0, 5.0)], None),
    ]


@pytest.mark.parametrize("chosen", ["S.k as k, S.d as d", "sum(U.d) as s", "sum(U.d) as s group by S.k"])
def test_a_join_holds_nothing_of_a_stream_without_a_window(chosen: str) -> None:
    assert _ticks(f"from S join U on S.k == U.k select {chosen} {_SHOWN}", _EVENTS, 1000) == [_NOTHING]


def test_what_a_stream_without_a_window_meets_clears_what_the_window_of_the_other_side_met() -> None:
    assert _ticks(f"from S#window.length(2) join T on S.k == T.k select d, e {_SHOWN}", _EVENTS, 1000) == [_NOTHING]


def test_a_snapshot_learns_what_leaves_whatever_its_output_says() -> None:
    text = "from S#window.length(1) select k, d output snapshot every 1 sec insert into O;"
    assert _ticks(text, _EVENTS, 1000) == [([("a", 5.0)], None)]


def test_under_compat_4_a_snapshot_learns_only_what_its_output_says() -> None:
    text = "from S#window.length(1) select k, d output snapshot every 1 sec insert into O;"
    assert _ticks(text, _EVENTS, 1000, "@app:compat('4')") == [([("a", 1.0), ("b", 2.0), ("a", 5.0)], None)]


def test_under_compat_4_a_snapshot_learns_that_a_batch_has_ended_by_its_reset() -> None:
    text = "from S#window.lengthBatch(1) select k, d output snapshot every 1 sec insert into O;"
    assert _ticks(text, _EVENTS, 1000, "@app:compat('4')") == [([("a", 5.0)], None)]


@pytest.mark.parametrize("chosen", ["count() as n", "count() as n group by k", "k, count() as n group by k", "k"])
def test_a_snapshot_goes_on_from_any_event_after_a_dump(chosen: str) -> None:
    text = f"define stream S (k string); from S#window.time(1500) select {chosen} {_SHOWN}"
    sent = [(300 * n, "abca"[n % 4]) for n in range(9)]

    def shown(moves: bool) -> list[object]:
        app = Runtime(text)
        found: list[object] = []
        app.on_stream("O", lambda chunk: found.append((app.now, [e.row for e in chunk])))
        app.start()
        for at, k in [*sent, (6000, "")]:
            while (due := app.next_timer()) is not None and due <= min(at, 5000):
                app.advance_to(due)
                if moves:
                    app.move(list(app.kernel.dump()))
            app.advance_to(at)
            app.send("S", [(k,)])
            if moves:
                app.move(list(app.kernel.dump()))
        return found

    assert shown(True) == shown(False) != []


def test_the_reset_of_a_batch_counts_for_the_first_of_each_two_where_nothing_is_aggregated() -> None:
    app = Runtime(
        "define stream S (k string); from S#window.timeBatch(1 sec) select k output first every 2 events insert into O;"
    )
    rows: list[object] = []
    app.on_stream("O", lambda chunk: rows.extend(e.row[0] for e in chunk))
    app.start()
    for k in ("a1", "b2", "a3", "a4", "c5", "b6", "c7"):
        app.send("S", [(None, (k,))])
    app.advance(2000)
    assert rows == ["b2", "a4", "b6"]


def test_the_reset_of_a_batch_stays_where_it_is_when_the_batch_is_ordered() -> None:
    app = Runtime(
        "define stream S (v int); from S#window.lengthBatch(2) select v order by v output first every 2 events insert into O;"
    )
    rows: list[object] = []
    app.on_stream("O", lambda chunk: rows.extend(e.row[0] for e in chunk))
    app.start()
    for v in (2, 1, 4, 3):
        app.send("S", [(None, (v,))])
    assert rows == [2, 3]
