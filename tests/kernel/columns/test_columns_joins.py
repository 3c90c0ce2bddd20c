"""Joins on columns give what rows give: for generated joins, inputs, splits and restarts."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from nadi.plan.columns.islands import islands
from tests.generate.apps import Generated
from tests.generate.choices import SCHEMA
from tests.generate.feeding import planned
from tests.generate.inputs import Cut, Message, cuts, messages
from tests.generate.joins import joining
from tests.generate.late import late_messages
from tests.kernel.columns import comparing
from tests.kernel.columns.comparing import (
    CHOSEN,
    OF_ONE_APP,
    RESTARTS,
    everywhere,
    same_as_rows,
    same_for_each_key_group,
    some_of,
)


@CHOSEN
@given(made=joining(), sent=messages, parts=cuts, every=RESTARTS)
def test_joins_give_exactly_what_rows_give_for_every_split_and_restart(
    made: Generated, sent: list[Message], parts: list[Cut], every: str
) -> None:
    plan = planned(made)
    assume(islands(plan).columns)
    same_as_rows(made, plan, sent, [], parts, everywhere(sent, every))


@CHOSEN
@given(made=joining(), sent=messages, parts=cuts, buckets=st.sampled_from((2, 3)))
def test_each_key_group_of_a_join_gets_the_same_from_several_buckets(
    made: Generated, sent: list[Message], parts: list[Cut], buckets: int
) -> None:
    same_for_each_key_group(made, sent, parts, buckets)


_WIDE = "define stream S (k string, v int, l long, f float, d double, b bool);\ndefine stream R (b bool, d double, f float, l long, v int, k string);\n"
"""The attributes of R stand in another order, so that nothing that is written for one side fits the other by accident."""

LOOPS = {
    "inner": "from S#window.time(30 milliseconds) as a join R#window.length(3) as b on a.k == b.k and a.d <= b.d"
    " select a.k as x, b.k as y, a.l as p, b.f as q, b.b as r, a.v + b.l as s insert into Out;",
    "full": "from S[v > 0]#window.length(2) as a full outer join R#window.time(75 milliseconds) as b on a.v == b.l"
    " select a.k as x, b.k as y, b.v as p, coalesce(a.d, b.d) as q having not (b.d > 1.0) insert into Out;",
    "external": "from S[l >= 0L]#window.externalTime(l, 30 milliseconds) as a left outer join R#window.length(3) as b on a.k == b.k"
    " select a.k as x, a.d as p, sum(b.l) as s, count() as n group by a.k insert into Out;",
    "a time and a length": "from S#window.timeLength(30 milliseconds, 2) as a left outer join R#window.timeLength(75 milliseconds, 3) as b"
    " on a.k == b.k select a.k as x, b.f as q, sum(b.l) as s, max(a.d) as n group by b.b insert into Out;",
    "a time and a length in a partition": "partition with (k of S, k of R) begin from S#window.timeLength(30 milliseconds, 2) as a"
    " join R#window.timeLength(12 milliseconds, 1) as b on a.v == b.v select a.k as x, b.d as q insert into Out; end;",
    "chunks": "from S#window.batch(2) as a full outer join R#window.batch() as b on a.k == b.k"
    " select a.k as x, b.f as q, sum(b.l) as s, max(a.d) as n, count() as c group by a.k insert into Out;",
    "chunks in a partition": "partition with (k of S, k of R) begin from S#window.batch(2) as a join R#window.time(30 milliseconds) as b"
    " select a.v as x, b.d as q, count() as c insert into Out; end;",
    "chunks of chunks": "partition with (k of S, k of R) begin from S#window.batch() as a left outer join R#window.batch() as b on a.v == b.v"
    " select a.v as x, sum(b.d) as q insert into Out; end;",
    "chunks of one stream": "from S#window.batch() as a join S#window.batch(2) as b select a.v as x, b.d as q, count() as c insert into Out;",
    "batches of a length": "from S[v > 0]#window.lengthBatch(3) as a full outer join R#window.lengthBatch(2) as b on a.k == b.k"
    " select a.k as x, b.f as q, sum(b.l) as s, max(a.d) as n, count() as c group by a.k insert into Out;",
    "batches of a time": "from S#window.timeBatch(30 milliseconds) as a left outer join R#window.time(30 milliseconds) as b on a.v == b.v"
    " select a.k as x, b.b as q, eventTimestamp() as t, currentTimeMillis() as w insert into Out;",
    "batches of a time on both sides": "from S#window.timeBatch(12 milliseconds) as a join R#window.timeBatch(30 milliseconds) as b"
    " select a.k as x, b.d as q, sum(a.v) as s insert into Out;",
    "batches of a time in a partition": "partition with (k of S, k of R) begin from S#window.timeBatch(12 milliseconds) as a"
    " full outer join R#window.timeBatch(30 milliseconds) as b on a.v <= b.v select a.k as x, b.d as q, a.v as v insert into Out; end;",
    "batches of an external time": "from S[l >= 0L]#window.externalTimeBatch(l, 30 milliseconds) as a join R#window.lengthBatch(2) as b on a.k == b.k"
    " select a.l as x, b.f as q, sum(b.l) as s insert into Out;",
    "batches of keys": "from S[v > 0]#window.unique:lengthBatch(k, 2) as a full outer join R#window.unique:timeBatch(v, 30 milliseconds) as b"
    " select a.k as x, b.f as q, sum(b.l) as s, max(a.d) as n insert into Out;",
    "batches of one stream": "from S#window.lengthBatch(2) as a left outer join S#window.timeBatch(30 milliseconds) as b on a.k != b.k"
    " select a.v as x, b.d as q insert into Out;",
    "self": "from S#window.time(30 milliseconds) as a left outer join S#window.time(12 milliseconds) as b on a.v == b.v and a.l < b.l"
    " select a.k as x, b.k as y, b.l as p insert into Out;",
    "partition": "partition with (k of S, k of R) begin from S#window.time(1 sec) as a join R#window.time(30 milliseconds) as b on a.v == b.v"
    " select a.k as x, b.k as y, b.d as p, eventTimestamp() as t insert into Out; end;",
    "totals": "from S[not (k is null)]#window.time(30 milliseconds) as a left outer join R#window.time(12 milliseconds) as b on a.k == b.k"
    " select b.v as v, sum(b.d) as s, avg(a.l) as m, count() as n, max(b.d) as w, distinctCount(a.k) as y group by b.v insert into Out;",
    "emptied": "from S as a right outer join R#window.length(3) as b on a.k == b.k"
    " select a.k as x, sum(b.l) as s, min(b.f) as m, maxForever(b.v) as w group by b.b insert into Out;",
    "totals in a partition": "partition with (v of S, v of R) begin from S#window.length(2) as a join R#window.time(30 milliseconds) as b"
    " select sum(a.d * b.f) as s, count() as n, min(a.l) as m, stdDev(b.v) as w having n > 1L insert into Out; end;",
}


def _reordered(message: Message) -> Message:
    if message.stream == "S":
        return message
    return Message(message.order, "R", tuple((ts, tuple(reversed(row))) for ts, row in message.events))


@pytest.mark.parametrize("name", some_of(LOOPS))
def test_compiled_loops_of_joins_give_exactly_what_rows_give(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparing, "COMPILED", True)
    made = Generated(_WIDE + LOOPS[name], ("Out",), ())
    plan = planned(made)
    assert islands(plan).columns, islands(plan).why

    @OF_ONE_APP
    @given(sent=messages, parts=cuts)
    def holds(sent: list[Message], parts: list[Cut]) -> None:
        same_as_rows(made, plan, [_reordered(message) for message in sent], parts)

    holds()


def test_the_first_chunk_of_a_side_empties_no_aggregators() -> None:
    made = Generated(_WIDE + LOOPS["chunks"], ("Out",), ())
    row = ("a", 0, 0, 0.0, 0.0, False)
    sent = [Message(0, "S", ((0, row),)), Message(0, "R", ((0, row[::-1]),)), Message(0, "R", ((0, row[::-1]),))]
    counted = [text.split(", ")[4] for text in same_as_rows(made, planned(made), sent, [])["Out"]]
    assert counted == ["1", "2", "1"]


_LATE = {
    "of two streams": "from S#window.time(12 milliseconds) as a join R#window.time(30 milliseconds) as b select a.v as v, b.v as w insert into Out;",
    "of one stream": "from S#window.time(30 milliseconds) as a join S#window.time(12 milliseconds) as b select a.v as v, b.v as w insert into Out;",
    "in a partition": "partition with (k of S, k of R) begin from S#window.time(12 milliseconds) as a full outer join R#window.length(2) as b"
    " select a.v as v, b.v as w insert into Out; end;",
    "played back": "from S#window.time(12 milliseconds) as a join R#window.time(30 milliseconds) as b select a.v as v, b.v as w insert into Out;",
    "added up": "from S#window.time(12 milliseconds) as a left outer join R#window.time(30 milliseconds) as b"
    " select sum(a.d * b.d) as s, count() as n, avg(a.v) as m insert into Out;",
    "added up though the other side does not trigger": "from S#window.time(12 milliseconds) as a unidirectional join R#window.time(30 milliseconds) as b"
    " select sum(b.v) as s, avg(b.d) as m, count() as n insert into Out;",
    "read by another query": "from S#window.time(12 milliseconds) as a join R#window.time(30 milliseconds) as b select a.v as v, b.d as d insert into M;"
    " from M#window.time(12 milliseconds) select sum(d) as s, count() as n insert into Out;",
    "emptied again and again": "from S as a right outer join R#window.length(3) as b on a.k == b.k"
    " select b.v as v, sum(b.v) as s, count() as n group by b.v insert into Out;",
    "by a time of its own": "from S[l >= 0L]#window.externalTime(l, 2 milliseconds) as a full outer join R#window.time(30 milliseconds) as b"
    " on a.k == b.k select a.v as v, b.v as w insert into Out;",
    "by a time of its own, added up": "from S[l >= 0L]#window.externalTime(l, 2 milliseconds) as a join R[l >= 0L]#window.externalTime(l, 1 millisecond) as b"
    " select sum(a.d * b.d) as s, count() as n insert into Out;",
    "of a time and a length": "from S#window.timeLength(12 milliseconds, 1) as a join R#window.timeLength(30 milliseconds, 2) as b"
    " select a.v as v, b.v as w insert into Out;",
    "of a time and a length, by equal attributes": "from S#window.timeLength(12 milliseconds, 2) as a full outer join R#window.length(3) as b on a.v == b.v"
    " select a.v as v, b.d as w insert into Out;",
    "of a time and a length in a partition": "partition with (k of S, k of R) begin from S#window.timeLength(12 milliseconds, 1) as a"
    " join R#window.timeLength(30 milliseconds, 2) as b on a.v >= b.v select a.v as v, b.v as w, count() as n insert into Out; end;",
    "of a time and a length, added up": "from S#window.timeLength(12 milliseconds, 1) as a left outer join R#window.timeLength(30 milliseconds, 2) as b"
    " on a.k == b.k select sum(a.d * b.d) as s, count() as n, min(b.v) as m insert into Out;",
    "of a batch beside a time": "from S#window.timeBatch(12 milliseconds) as a full outer join R#window.time(12 milliseconds) as b"
    " select a.v as v, b.v as w insert into Out;",
    "of a time beside a batch": "from S#window.time(30 milliseconds) as a full outer join R#window.timeBatch(30 milliseconds) as b"
    " select a.v as v, b.v as w insert into Out;",
    "of batches": "from S#window.timeBatch(12 milliseconds) as a full outer join R#window.timeBatch(12 milliseconds) as b"
    " select a.v as v, b.v as w insert into Out;",
    "of batches, added up": "from S#window.timeBatch(12 milliseconds) as a left outer join R#window.time(30 milliseconds) as b"
    " select sum(a.d * b.d) as s, count() as n, min(b.v) as m insert into Out;",
    "of a time beside batches, added up": "from S#window.timeLength(12 milliseconds, 2) as a join R#window.timeBatch(12 milliseconds) as b"
    " on a.k == b.k select sum(a.d * b.d) as s, count() as n, max(b.v) as m insert into Out;",
    "of batches in a partition": "partition with (k of S, k of R) begin from S#window.timeBatch(12 milliseconds) as a"
    " full outer join R#window.time(12 milliseconds) as b select a.v as v, b.v as w, a.k as k insert into Out; end;",
    "of batches in a partition, added up": "partition with (k of S, k of R) begin from S#window.time(12 milliseconds) as a"
    " join R#window.timeBatch(30 milliseconds) as b select sum(a.d * b.d) as s, count() as n insert into Out; end;",
    "of batches of one stream": "from S#window.time(12 milliseconds) as a full outer join S#window.lengthBatch(2) as b"
    " select a.v as v, b.v as w insert into Out;",
    "of batches of keys": "from S#window.unique:timeBatch(v, 12 milliseconds) as a full outer join R#window.unique:firstTimeBatch(k, 30 milliseconds) as b"
    " select a.v as v, b.v as w insert into Out;",
    "of timed batches of one stream": "from S#window.timeBatch(12 milliseconds) as a full outer join S#window.time(30 milliseconds) as b"
    " select a.v as v, b.v as w insert into Out;",
    "of one stream, added up": "from S#window.time(30 milliseconds) as a join S#window.time(12 milliseconds) as b"
    " select sum(a.d * b.d) as s, count() as n insert into Out;",
}


@pytest.mark.parametrize("name", _LATE)
def test_a_late_event_is_seen_until_a_timer_or_an_event_of_its_side_lets_it_go(name: str) -> None:
    clock = "@app:playback\n" if name == "played back" else ""
    made = Generated(f"{clock}define stream S ({SCHEMA});\ndefine stream R ({SCHEMA});\n{_LATE[name]}", ("Out",), ())
    plan = planned(made)
    assert islands(plan).columns, islands(plan).why

    @OF_ONE_APP
    @given(sent=late_messages, parts=cuts)
    def holds(sent: list[Message], parts: list[Cut]) -> None:
        same_as_rows(made, plan, sent, parts, everywhere(sent, "deltas"))

    holds()
