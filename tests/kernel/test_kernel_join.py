"""Joins of windows, streams and tables (semantics/joins.md)."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nadi.functions.registry import default_registry
from nadi.kernel.rows.events import CURRENT, EXPIRED, RESET, Chunk, Event, Group, Row
from nadi.kernel.rows.flow import Flow
from nadi.kernel.rows.join import JoinRuntime
from nadi.lang.tree import Events, JoinKind, Type
from nadi.plan import nodes
from nadi.plan.windowtraits import OF_BATCH
from nadi.runtime import Runtime

SCHEMA = nodes.Schema((nodes.Column("k", Type.STRING), nodes.Column("v", Type.INT)))
ON_KEY = nodes.Comparison(
    "==", nodes.Attr(0, 0, Type.STRING, name="k"), nodes.Attr(1, 0, Type.STRING, name="k"), Type.STRING
)
LARGER = nodes.Comparison("<", nodes.Attr(0, 1, Type.INT, name="v"), nodes.Attr(1, 1, Type.INT, name="v"), Type.INT)
BOTH = nodes.Logic("and", ON_KEY, LARGER)
KINDS = {CURRENT: "", EXPIRED: "x", RESET: "reset"}


class Rows:
    """A table of fixed rows."""

    def __init__(self, *rows: Row) -> None:
        self._rows = rows

    def rows(self) -> Iterable[Row]:
        return self._rows


class Rig:
    """Runs one join; `seen` has the groups as lists of chunks as lists of texts: "1 10", "x1 10" where expired, "1 -" without a match."""

    def __init__(
        self,
        left: str | None = "length:2",
        right: str | None = "length:2",
        on: nodes.Expr | None = ON_KEY,
        outer: str = "",
        unidirectional: str = "",
        events: Events = Events.ALL,
        compat: int = 5,
        kinds: tuple[str, str] = ("stream", "stream"),
        tables: dict[str, Rows] | None = None,
        filters: dict[str, nodes.Expr] | None = None,
    ) -> None:
        self.flow = Flow(lambda key: 0, compat=compat)
        self.seen: list[list[list[str]]] = []
        sides = [
            self._side(name, window, kind, outer, unidirectional, (filters or {}).get(name))
            for name, window, kind in (("left", left, kinds[0]), ("right", right, kinds[1]))
        ]
        plan = nodes.JoinInput("q/join", sides[0], sides[1], JoinKind.INNER, on)
        selection = nodes.Selection((), nodes.Schema(()))
        query = nodes.Query("q", "q", plan, selection, nodes.InsertIntoStream("Out", events))
        self.join = JoinRuntime(plan, query, self.flow, tables or {}, default_registry(), self._take)
        self.join.begin()

    def _side(
        self, name: str, window: str | None, kind: str, outer: str, only: str, condition: nodes.Expr | None
    ) -> nodes.JoinSide:
        steps: list[nodes.Step] = [] if condition is None else [nodes.FilterStep(condition)]
        if window is not None:
            function, argument = window.split(":")
            size = nodes.Const(int(argument), Type.INT)
            steps.append(nodes.WindowStep(nodes.WindowCall(f"q/{name}.window", function, (size,), OF_BATCH)))
        triggers = kind in ("stream", "window") and only in ("", name)
        return nodes.JoinSide(kind, nodes.SingleInput(name, tuple(steps), SCHEMA), triggers, outer in (name, "full"))

    def _take(self, group: Group) -> None:
        self.seen.append([[self._text(event) for event in chunk] for chunk in group])

    def _text(self, event: Event) -> str:
        if event.kind == RESET:
            return "reset"
        values = ["-" if side is None else str(side[1]) for side in event.row]  # type: ignore[index]  # slots of a join
        return KINDS[event.kind] + " ".join(values)

    def send(self, side: str, *values: tuple[str, int], chunk: bool = False) -> list[list[list[str]]]:
        """Feeds a side ("l" or "r"), event by event or as one chunk; returns the groups that came of it."""
        before = len(self.seen)
        events: Chunk = []
        for k, v in values:
            self.flow.timers.run_until(self.flow.now + 10)
            events.append(Event(CURRENT, self.flow.now, (k, v)))
        for part in [events] if chunk else [[e] for e in events]:
            self.join.receive({"l": "left", "r": "right"}[side], part)
        return self.seen[before:]


def test_expiry_of_a_window_joins_like_its_arrivals() -> None:
    rig = Rig()
    assert rig.send("l", ("a", 1)) == []
    assert rig.send("r", ("a", 10)) == [[["1 10"]]]
    assert rig.send("r", ("a", 20)) == [[["1 20"]]]
    assert rig.send("l", ("a", 2)) == [[["2 10", "2 20"]]]
    assert rig.send("l", ("b", 3)) == [[["x1 10", "x1 20"]]]
    assert rig.send("r", ("a", 30)) == [[["x2 10"], ["2 30"]]]


def test_siddhi_4_delivers_the_matches_of_each_triggering_event_by_themselves() -> None:
    rig = Rig(compat=4)
    rig.send("l", ("a", 1))
    rig.send("r", ("a", 10), ("a", 20))
    rig.send("l", ("a", 2), ("b", 3))
    assert rig.send("r", ("a", 30)) == [[["x2 10"]], [["2 30"]]]


def test_what_expires_carries_the_timestamp_of_its_trigger() -> None:
    rig = Rig("length:1", "length:1")
    times: list[int] = []
    rig.join._emit = lambda group: times.extend(e.ts for chunk in group for e in chunk)
    rig.send("l", ("a", 1))
    rig.send("r", ("a", 10))
    rig.send("l", ("a", 2))
    assert times == [20, 30, 30]  # the old left row leaves at 30, when the new one comes


def test_an_unmatched_row_of_the_outer_side_comes_with_nulls_and_is_never_retracted() -> None:
    rig = Rig("length:1", "length:1", outer="left")
    assert rig.send("l", ("a", 1)) == [[["1 -"]]]
    assert rig.send("r", ("a", 10)) == [[["1 10"]]]
    assert rig.send("r", ("a", 20)) == [[["x1 10"], ["1 20"]]]
    assert rig.send("r", ("b", 30)) == [[["x1 20"]]]
    assert rig.send("l", ("c", 2)) == [[["x1 -"], ["2 -"]]]


def test_a_full_outer_join_keeps_unmatched_rows_of_both_sides() -> None:
    rig = Rig("length:1", "length:1", outer="full")
    assert rig.send("l", ("a", 1)) == [[["1 -"]]]
    assert rig.send("r", ("b", 9)) == [[["- 9"]]]


def test_only_the_unidirectional_side_triggers() -> None:
    rig = Rig(unidirectional="left")
    assert rig.send("r", ("a", 10)) == []
    assert rig.send("l", ("a", 1)) == [[["1 10"]]]
    assert rig.send("r", ("a", 20)) == []


def test_a_side_without_a_window_triggers_resets_and_holds_nothing() -> None:
    rig = Rig(None, "length:2", events=Events.CURRENT)
    assert rig.send("l", ("a", 1)) == [[["reset"]]]
    assert rig.send("r", ("a", 10)) == []
    assert rig.send("l", ("a", 2)) == [[["2 10"], ["reset"]]]
    assert rig.send("l", ("a", 3), ("a", 4), chunk=True) == [[["3 10"], ["reset"], ["4 10"], ["reset"]]]


def test_a_side_without_a_window_expires_at_once_if_the_output_wants_it() -> None:
    rig = Rig(None, "length:2")
    rig.send("r", ("a", 10))
    assert rig.send("l", ("a", 2)) == [[["2 10"], ["x2 10"], ["reset"]]]


def test_filters_come_before_the_window() -> None:
    small = nodes.Comparison("<", nodes.Attr(0, 1, Type.INT, name="v"), nodes.Const(5, Type.INT), Type.INT)
    rig = Rig(filters={"left": small})
    rig.send("l", ("a", 7), ("a", 1))
    assert rig.send("r", ("a", 10)) == [[["1 10"]]]


def test_without_a_condition_all_rows_match() -> None:
    rig = Rig(on=None)
    rig.send("l", ("a", 1), ("b", 2))
    assert rig.send("r", ("c", 10)) == [[["1 10", "2 10"]]]


def test_null_keys_match_nothing() -> None:
    rig = Rig()
    rig.send("l", (None, 1))  # type: ignore[arg-type]
    assert rig.send("r", (None, 10)) == []  # type: ignore[arg-type]


def test_more_than_equality_is_checked_on_what_is_equal() -> None:
    rig = Rig(on=BOTH, left="length:3")
    rig.send("l", ("a", 1), ("a", 50), ("b", 2))
    assert rig.send("r", ("a", 10)) == [[["1 10"]]]


def test_a_table_is_searched_and_never_triggers() -> None:
    table = Rows(("a", 10), ("b", 20), ("a", 30))
    rig = Rig("length:1", None, kinds=("stream", "table"), tables={"right": table})
    assert rig.send("l", ("a", 1)) == [[["1 10", "1 30"]]]
    assert rig.send("l", ("b", 2)) == [[["x1 10", "x1 30"], ["2 20"]]]


def test_a_named_window_triggers_with_what_it_emits_and_is_searched_for_what_it_holds() -> None:
    window = Rows(("a", 10))
    rig = Rig("length:1", None, kinds=("stream", "window"), tables={"right": window})
    assert rig.send("l", ("a", 1)) == [[["1 10"]]]
    rig.join.receive("right", [Event(EXPIRED, 5, ("a", 9)), Event(CURRENT, 5, ("a", 10))])
    assert rig.seen[-1] == [["x1 9"], ["1 10"]]


def test_a_time_window_joins_what_leaves_it_by_timer() -> None:
    rig = Rig("time:100", "length:5")
    rig.send("r", ("a", 10))
    rig.send("l", ("a", 1))
    rig.flow.timers.run_until(1000)
    assert rig.seen[-1] == [["x1 10"]]


def _batches(events: Events, compat: int = 5) -> list[list[list[str]]]:
    """What a right event meets after two batches of the left side."""
    rig = Rig("lengthBatch:2", "length:5", events=events, compat=compat)
    assert rig.send("l", ("a", 1), ("a", 2)) == ([[["reset"]]] if compat == 5 else [])
    assert rig.send("l", ("a", 3)) == []
    assert rig.send("r", ("a", 10)) == [[["1 10", "2 10"]]]  # not what waits for its batch
    rig.send("l", ("a", 4))
    return rig.send("r", ("a", 20))


def test_a_batch_window_holds_the_last_batch_where_expired_events_are_wanted() -> None:
    assert _batches(Events.ALL) == [[["3 20", "4 20"]]]
    assert _batches(Events.EXPIRED) == [[["3 20", "4 20"]]]


def test_a_batch_window_holds_every_batch_where_only_current_events_are_wanted() -> None:
    assert _batches(Events.CURRENT) == [[["1 20", "2 20", "3 20", "4 20"]]]


def test_a_batch_window_holds_the_last_batch_in_siddhi_4() -> None:
    assert _batches(Events.CURRENT, compat=4) == [[["3 20", "4 20"]]]


def test_time_batches_are_held_like_those_of_a_length_and_set_no_timer_for_nothing() -> None:
    rig = Rig("timeBatch:30", "length:5", events=Events.CURRENT)
    rig.send("l", ("a", 1))
    rig.flow.timers.run_until(100)
    assert rig.flow.timers.next_due() is None
    rig.send("l", ("a", 2))
    rig.flow.timers.run_until(200)
    assert rig.send("r", ("a", 20)) == [[["1 20", "2 20"]]]


def test_a_period_without_events_lets_a_batch_go_and_resets_nothing() -> None:
    rig = Rig("timeBatch:30", "length:5")
    rig.send("r", ("a", 10))
    rig.send("l", ("a", 1))
    rig.flow.timers.run_until(200)
    assert rig.seen == [[["reset"], ["1 10"]], [["x1 10"]]]


def test_windows_are_kept_per_key() -> None:
    rig = Rig()
    rig.flow.key = "p"
    rig.send("l", ("a", 1))
    rig.flow.key = "q"
    assert rig.send("r", ("a", 10)) == []
    rig.flow.key = "p"
    assert rig.send("r", ("a", 20)) == [[["1 20"]]]


ARRIVALS = st.lists(
    st.tuples(st.sampled_from("lr"), st.sampled_from("ab"), st.integers(0, 9)),
    max_size=30,
)


@settings(max_examples=60, deadline=None)
@given(
    arrivals=ARRIVALS, cut=st.integers(0, 30), windows=st.sampled_from([("length:2", "time:25"), (None, "length:3")])
)
def test_dump_and_load_anywhere_change_nothing(
    arrivals: list[tuple[str, str, int]], cut: int, windows: tuple[str | None, str]
) -> None:
    whole, before, after = (Rig(*windows, on=BOTH, outer="left") for _ in range(3))
    for side, k, v in arrivals:
        whole.send(side, (k, v))
    for side, k, v in arrivals[:cut]:
        before.send(side, (k, v))
    after.flow.store.load(list(before.flow.store.dump()))
    after.flow.now = before.flow.now
    after.flow.timers.rebuild()
    after.seen = before.seen
    for side, k, v in arrivals[cut:]:
        after.send(side, (k, v))
    assert after.seen == whole.seen


@settings(max_examples=60, deadline=None)
@given(
    arrivals=st.lists(
        st.tuples(st.sampled_from("lr"), st.sampled_from("abc"), st.integers(0, 9)), min_size=60, max_size=120
    ),
    size=st.integers(17, 40),
    cut=st.integers(0, 120),
)
def test_large_windows_are_searched_by_an_index_with_the_same_matches(
    arrivals: list[tuple[str, str, int]], size: int, cut: int
) -> None:
    def run(on: nodes.Expr) -> Rig:
        rig = Rig(f"length:{size}", f"time:{size * 10}", on=on, outer="left")
        for number, (side, k, v) in enumerate(arrivals):
            if number == cut:
                rig.flow.store.load(list(rig.flow.store.dump()))
                rig.flow.timers.rebuild()
            rig.send(side, (k, v))
        return rig

    scanned = nodes.Negation(nodes.Comparison("!=", ON_KEY.left, ON_KEY.right, Type.STRING))
    assert run(ON_KEY).seen == run(scanned).seen
    assert run(nodes.Logic("and", LARGER, ON_KEY)).seen == run(nodes.Logic("and", LARGER, scanned)).seen


# ---- with a selector -------------------------------------------------------------------------------------------------


def _calls(source: str, chosen: str, sent: str, compat: int = 4, events: str = "") -> list[str]:
    """What a query callback is given: of L(k, v) and R(k, w), which get the pairs of a text such as "La1 Rb2", those with a comma between as a chunk."""
    text = (
        f"@app:compat('{compat}') define stream L (k string, v int); define stream R (k string, w int); "
        f"@info(name='q') from {source} select {chosen} insert {events} into O;"
    )
    return _called(text, sent)


def _called(text: str, sent: str) -> list[str]:
    """The same of an app."""
    app = Runtime(text)
    calls: list[str] = []
    app.on_query("q", lambda _ts, came, left: calls.append(f"+{_rows(came)} -{_rows(left)}"))
    app.start()
    for chunk in sent.split():
        app.send(chunk[0], [(None, (pair[1], int(pair[2:]))) for pair in chunk.split(",")])
    return calls


def _rows(events: Chunk | None) -> str:
    return ",".join("/".join(map(str, e.row)) for e in events or ())


_TWO = "L#window.length(2) join R#window.length(2) on L.k == R.k"


@pytest.mark.parametrize(
    ("sides", "calls"),
    [
        ("W as a join W as b", ["+7/7 -", "+5/5 -", "+ -7/9", "+9/9 -", "+8/9,8/8 -"]),
        ("W as a unidirectional join W as b", ["+7/7 -", "+5/5 -", "+ -7/9", "+9/9 -", "+8/9,8/8 -"]),
        ("W as a join W as b unidirectional", []),
    ],
)
@pytest.mark.parametrize("compat", [4, 5])
def test_of_a_named_window_on_both_sides_only_the_left_one_is_given_events(
    sides: str, calls: list[str], compat: int
) -> None:
    text = (
        f"@app:compat('{compat}') define stream L (k string, v int); define window W (k string, v int) length(2); "
        f"from L insert into W; @info(name='q') from {sides} on a.k == b.k select a.v as v, b.v as w insert all events into O;"
    )
    assert _called(text, "La7 Lb5 La9 La8") == calls


def test_of_a_named_window_on_both_sides_an_outer_side_on_the_right_gives_no_row_of_its_own() -> None:
    text = (
        "define stream L (k string, v int); define window W (k string, v int) length(2); from L insert into W; "
        "@info(name='q') from W as a %s outer join W as b on a.k == b.k and a.v < b.v select a.v as v, b.v as w insert into O;"
    )
    assert _called(text % "right", "La7 Lb5") == []
    assert _called(text % "full", "La7 Lb5") == ["+7/None -", "+5/None -"]


def test_an_event_that_leaves_first_meets_what_the_other_window_still_holds() -> None:
    text = (
        "define stream L (k string, v int); define stream R (k string, w int); @info(name='q') "
        "from L#window.time(1 sec) join R#window.time(1 sec) on L.k == R.k select v, w insert all events into O;"
    )
    app = Runtime(text)
    calls: list[str] = []
    app.on_query("q", lambda _ts, came, left: calls.append(f"{app.now} +{_rows(came)} -{_rows(left)}"))
    app.start()
    for at, stream, row in ((0, "L", ("a", 1)), (0, "R", ("a", 5)), (0, "L", ("b", 2)), (500, "L", ("a", 3))):
        app.advance_to(at)
        app.send(stream, [row])
    app.advance_to(1000)
    app.advance_to(2000)
    assert calls == ["0 +1/5 -", "500 +3/5 -", "1000 + -1/5", "1000 + -3/5"]


@pytest.mark.parametrize("group", ["", " group by L.k"])
def test_under_compat_4_an_aggregate_gives_one_row_for_the_matches_of_an_event(group: str) -> None:
    calls = _calls(_TWO, f"w, sum(w) as s{group}", "Ra1 Ra2 La7 La9")
    assert calls == ["+2/3 -", "+2/6 -"]


def test_under_compat_4_what_leaves_and_what_comes_are_calls_of_their_own() -> None:
    calls = _calls(_TWO, "w, sum(w) as s", "Ra1 Ra2 La7 Ra3 Ra4", events="all events")
    assert calls == ["+2/3 -", "+ -1/2", "+3/5 -", "+ -2/3", "+4/7 -"]


def test_under_compat_4_a_join_with_an_aggregate_that_meets_nothing_calls_nobody() -> None:
    source = "L join R#window.length(1) on L.k == R.k"
    assert _calls(source, "w, count() as n", "Ra1 Lb2 La3 Lc4") == ["+1/1 -"]
    assert _calls(source, "w", "Ra1 Lb2 La3") == ["+ -", "+1 -", "+ -"]


def test_under_compat_4_no_reset_comes_before_the_first_batch() -> None:
    source = "L#window.lengthBatch(2) join R#window.length(2) on L.k == R.k"
    assert _calls(source, "v", "Ra1 La1 Lb2 La3 Lb4") == ["+1 -", "+ -", "+3 -"]
    assert _calls(source, "v", "Ra1 La1 Lb2 La3 Lb4", compat=5) == ["+1 -", "+3 -"]


def test_without_a_match_the_first_batch_calls_nobody_where_no_reset_comes_before_it() -> None:
    """The window `batch` has none in 5.1 either."""
    for window, sent in (("batch()", "La1,Lb2 La3,Lb4"), ("lengthBatch(2)", "La1 Lb2 La3 Lb4")):
        source = f"L#window.{window} join R#window.length(2) on L.k == R.k"
        assert _calls(source, "v", sent) == ["+ -"]
        assert _calls(source, "v", sent, compat=5) == ["+ -"] * (1 if window == "batch()" else 2)


def test_a_sum_of_longs_keeps_what_is_left_when_more_was_taken_off_than_put_in() -> None:
    text = """define stream L (k string, v long); define stream R (k string, v long);
    from L#window.length(1) right outer join R#window.length(2) on L.k == R.k select sum(R.v) as s insert into O;"""
    app, seen = Runtime(text), []
    app.on_stream("O", lambda events: seen.extend(e.row for e in events))
    app.start()
    for stream, k, v in (
        ("R", "b", 3), ("L", "a", 0), ("R", "a", 9_000_000_000_000), ("L", "z", 0), ("R", "c", 8_999_999_999_999), ("R", "d", 10)
    ):  # fmt: skip
        app.send(stream, [(k, v)])
    assert seen[-1] == (9,)
