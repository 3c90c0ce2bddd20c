"""Joins of windows, streams and tables, against the observations in the language text §8."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given, settings
from hypothesis import strategies as st

from nadi.functions.registry import default_registry
from nadi.kernel.rows.events import CURRENT, EXPIRED, RESET, Chunk, Event, Group, Row
from nadi.kernel.rows.flow import Flow
from nadi.kernel.rows.join import JoinRuntime
from nadi.lang.tree import Events, JoinKind, Type
from nadi.plan import nodes

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
            steps.append(nodes.WindowStep(nodes.WindowCall(f"q/{name}.window", function, (size,))))
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
