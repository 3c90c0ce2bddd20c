"""An app of which a part runs on columns gives exactly what rows give alone: for generated apps, inputs, splits and restarts (columns/index.md#what-holds)."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from nadi.plan.columns.islands import islands
from tests.generate.apps import Generated
from tests.generate.choices import SCHEMA
from tests.generate.feeding import planned
from tests.generate.inputs import Cut, Message, cuts, messages
from tests.generate.mixed import mixed
from tests.kernel.columns.comparing import CHOSEN, MixedFeeding, accepted, all_of, everywhere, same_as_rows


@CHOSEN
@given(made=mixed(), sent=messages, parts=cuts, every=st.sampled_from(("dump", "deltas")))
def test_a_mixed_app_gives_exactly_what_rows_give_for_every_split_and_restart(
    made: Generated, sent: list[Message], parts: list[Cut], every: str
) -> None:
    plan = accepted(made)
    found = islands(plan)
    event(
        f"{'mixed' if found.mixed else 'columns' if found.columns else 'rows'}{', handed on' if found.handed else ''}"
    )
    assume(found.order)
    same_as_rows(made, plan, sent, [], parts, everywhere(sent, every), on=MixedFeeding, seen=all_of)


@CHOSEN
@given(made=mixed(), sent=messages, parts=cuts, every=st.integers(2, 5))
def test_events_that_are_sent_again_for_a_stream_that_a_query_makes_go_the_same_ways(
    made: Generated, sent: list[Message], parts: list[Cut], every: int
) -> None:
    plan = accepted(made)
    found = islands(plan)
    middles = [key for key in plan.streams if key.startswith("Mid")]
    assume(found.order and middles and plan.playback is None)
    streams = ("S", "R", *middles)
    moved = [replace(m, stream=middles[i % len(middles)]) if i % every == 0 else m for i, m in enumerate(sent)]
    again = sorted(moved, key=lambda m: (m.order, streams.index(m.stream)))
    event("handed on" if found.handed else "mixed" if found.mixed else "columns")
    same_as_rows(made, plan, again, [], parts, on=MixedFeeding, seen=all_of, streams=streams)


# ---- what ties queries to rows ---------------------------------------------------------------------------------------

_TABLE = f"define table T ({SCHEMA});\n"
_IN = "from S select k, v, l, f, d, b insert into T;\n"
_MIDDLE = "from S[v > 0] select k, v, l, f, d, b insert into Mid;\n"
_JOINED = "from Mid join T[v > -9] on Mid.k == T.k select T.k as k, T.v as v insert into Out;\n"
_SUMS = (
    "from S#window.length(2) select k, sum(v) as s insert into A;"
    " from S#window.length(3) select k, sum(v) as s insert into B;\n"
)
_BOTH = (
    "from A#window.lengthBatch(2) join B#window.length(1) on A.k == B.k select A.s as x, B.s as y insert into Out;\n"
)

TIES: dict[str, tuple[str, tuple[str, ...], str]] = {
    "rows read the stream before and behind": (
        f"{_TABLE} from S as x left outer join T[v > -9] on T.k == x.k select x.v as v insert into N; {_MIDDLE} {_JOINED} {_IN}",
        (),
        "'S' is read on rows before and behind it",
    ),
    "rows read the stream behind": (_TABLE + _MIDDLE + _JOINED + _IN, ("unnamed_1",), ""),
    "rows that cannot fail read it before": (_TABLE + _IN + _MIDDLE + _JOINED, ("unnamed_2",), ""),
    "rows that may fail read it before": (
        f"{_TABLE} from S select str:length(k) as n insert into N; {_MIDDLE} {_JOINED} {_IN}",
        (),
        "which that fails goes no further",
    ),
    "keys of one partition": (
        "partition with (k of S, k of R) begin from S#window.length(3) select sum(v) as x insert into Out;\n"
        "from every not R for 40 milliseconds select 1 as y insert into Out2; end;",
        (),
        "the keys of 'S' are keys of both",
    ),
    "a partition that hands on twice": (
        f"partition with (k of S) begin {_SUMS} end; {_BOTH}",
        (),
        "rows get what it makes key by key, in turn with other streams",
    ),
    "two streams of one": (_SUMS + _BOTH, ("unnamed_1", "unnamed_2"), ""),
    "what rows make": (
        "from S#window.frequent(9, k) select k, v insert into M; from M[v > 1] select k insert into Out;",
        (),
        "makes on rows",
    ),
    "matches that wait for a rate": (
        "from every e1=S -> e2=S[v > e1.v] select e1.k as k, e2.v as v output last every 75 milliseconds insert into M;"
        " from M#window.frequent(9, k) select k, v insert into Out;",
        (),
        "cannot be handed on",
    ),
    "what another one on rows inserts into, too": (
        "from S select k, v insert into Out; from R#window.frequent(9, k) select k, v insert into Out;",
        (),
        "inserts into 'Out' on rows",
    ),
    "the clock of events": (
        "@app:playback define trigger X at every 1 sec; from S select k insert into Out;"
        " from X select triggered_time as t insert into Out2;",
        (),
        "@app:playback moves one clock",
    ),
}


def _steady(count: int) -> list[Message]:
    """Messages of several events and keys, none of them null, now and then of the other stream."""
    made = []
    for i in range(count):
        rows = tuple(
            (30 * i, ("abca"[(i + j) % 4], (i * 3 + j) % 5, 30 * i, j / 2, i * 0.3, True)) for j in range(1 + i % 3)
        )
        made.append(Message(30 * i, "R" if i % 5 == 4 else "S", rows))
    return made


@pytest.mark.parametrize("what", TIES)
def test_queries_are_on_columns_where_rows_would_have_seen_the_same(what: str) -> None:
    text, on_columns, reason = TIES[what]
    streams = "".join(f"define stream {name} ({SCHEMA});\n" for name in ("S", "R"))
    clock = "@app:playback " if text.startswith("@app:playback ") else ""
    outputs = ("Out", *(("Out2",) if "Out2" in text else ()))
    made = Generated(clock + streams + text.removeprefix(clock), outputs, ())
    plan = planned(made)
    found = islands(plan)
    assert set(found.order) == set(on_columns), found.queries
    assert not reason or any(reason in island.why for island in found.queries.values()), found.queries
    sent = _steady(12)
    rows = same_as_rows(made, plan, sent, [], everywhere(sent, "deltas"), on=MixedFeeding, seen=all_of)
    assert rows["Out"]
