"""Columns give what rows give: for generated apps, inputs, splits and restarts (columns/index.md#what-holds)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from nadi.kernel.columns import ring
from nadi.plan.columns.islands import islands
from nadi.plan.nodes import App
from tests.generate.apps import Generated
from tests.generate.choices import SCHEMA
from tests.generate.columnar import columnar, partitioned, purged
from tests.generate.feeding import Feeding, planned
from tests.generate.inputs import Cut, Message, cuts, messages
from tests.kernel.columns import comparing
from tests.kernel.columns.comparing import (
    CHOSEN,
    OF_ONE_APP,
    RESTARTS,
    ColumnsFeeding,
    everywhere,
    same_as_rows,
    same_for_each_key_group,
    some_of,
)


@pytest.fixture(autouse=True, scope="module")
def _small_rings() -> Iterator[None]:
    """So few events come that the places of a ring would never be taken again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ring, "_FEWEST", 2)
        yield


def _counts(made: Generated, plan: App, sent: list[Message], kind: type[Feeding]) -> dict[str, int]:
    run = kind(made, plan)
    batches = list(run._batches(sent, 0))
    return run.kernels[0].process(batches, sent[-1].order).counts


@CHOSEN
@given(made=columnar(), sent=messages, parts=cuts, every=RESTARTS)
def test_columns_give_exactly_what_rows_give_for_every_split_and_restart(
    made: Generated, sent: list[Message], parts: list[Cut], every: str
) -> None:
    plan = planned(made)
    assume(islands(plan).columns)
    same_as_rows(made, plan, sent, [], parts, everywhere(sent, every))


@CHOSEN
@given(made=columnar(), sent=messages)
def test_columns_count_the_events_of_streams_as_rows_do(made: Generated, sent: list[Message]) -> None:
    plan = planned(made)
    assume(islands(plan).columns)
    assert _counts(made, plan, sent, ColumnsFeeding) == _counts(made, plan, sent, Feeding)


@CHOSEN
@given(made=columnar(shapes=(partitioned, purged)), sent=messages, parts=cuts, buckets=st.sampled_from((2, 3)))
def test_each_key_group_gets_the_same_from_several_buckets(
    made: Generated, sent: list[Message], parts: list[Cut], buckets: int
) -> None:
    same_for_each_key_group(made, sent, parts, buckets)


LOOPS = {
    "filter": "from S[d > 0.5 and k != 'b'] select k, v * 2 as w, f / d as x, l % 7L as y insert into Out;",
    "arithmetic": "from S select v / (v - 2) as a, v % (v - 2) as b, l / (l + 1L) as c, l % 3L as e, f % 1.5f as g, d % (d - 0.6) as h,"
    " f + l as i, v * 1000000007 as j, l * 9223372036854775807L as m, v - f as n, d / 0.0 as o, f / (f - 1.0f) as p insert into Out;",
    "functions": "from S select ifThenElse(v > 1, l, 7L) as a, coalesce(v, 3) as c, default(b, false) as e, ifThenElse(b, v, v) as g,"
    " eventTimestamp() as h, currentTimeMillis() - eventTimestamp() as i, v is null as j, not b as m insert into Out;",
    "running": "from S select k, sum(l) as s, min(d) as m, max(v) as x group by k insert into Out;",
    "time": "from S#window.time(30 millisec) select k, avg(d) as a, sum(v) as s, count() as n group by k insert into Out;",
    "length": "from S#window.length(3) select sum(f) as s, avg(l) as a having s > 0.0 insert into Out;",
    "extremes": "from S#window.timeLength(30 millisec, 3) select k, min(d) as a, max(l) as c, stdDev(v) as e, and(v > 1) as g, maxForever(f) as h"
    " group by k insert into Out;",
    "behind": "from S#window.length(3)[v > 1] select sum(l) as s, min(f) as m, k insert into Out;",
    "behind without aggregators": "from S#window.length(3)[v > 1] select k, v insert into Out;",
    "sort": "from S[v > 0 and d >= 0.0]#window.sort(2, d, 'desc', v) select k, sum(d) as s, avg(f) as a, min(d) as m group by k insert into Out;",
    "latest of keys": "from S#window.unique:ever(k, v)[b] select k, sum(d) as s, distinctCount(v) as n insert into Out;",
    "last keys": "from S#window.unique:length(v, 2) select v, sum(d) as s, count() as n group by b insert into Out;",
    "keys of a time": "from S#window.unique:time(k, 30 millisec) select sum(f) as s, stdDev(d) as e, max(l) as m insert into Out;",
    "first of keys": "from S#window.unique:first(v) select k, d * 2.0 as e insert into Out;",
    "sorted in a partition": "partition with (k of S) begin from S[not (v is null)]#window.sort(2, v) select k, avg(d) as a insert into Out; end;",
    "unique in a partition": "partition with (k of S) begin from S#window.unique:length(v, 2) select k, b, sum(d) as a group by b insert into Out; end;",
    "delay": "from S#window.delay(30 millisec)[v > 0] select k, d * 2.0 as e, sum(v) as s group by b insert into Out;",
    "delay in a partition": "partition with (k of S) begin from S#window.delay(12 millisec) select k, v, b insert into Out; end;",
    "what leaves": "from S#window.time(30 millisec)[v > 0] select k, v, d, eventTimestamp() as at insert expired events into Out;",
    "groups of what leaves": "from S#window.length(3) select k, sum(d) as s, max(v) as m, distinctCount(v) as n group by k insert all events into Out;",
    "what leaves by a time": "from S[l > -9L]#window.externalTime(l, 30 millisec) select avg(d) as s, stdDev(v) as e insert expired events into Out;",
    "what leaves of keys": "partition with (k of S) begin from S#window.time(30 millisec)"
    " select k, v, sum(d) as s group by v insert all events into Out; end;",
    "session": "from S#window.session(12 millisec, k) select k, sum(f) as s, avg(d) as a, distinctCount(v) as n group by b insert into Out;",
    "session in a partition": "partition with (k of S) begin from S#window.session(30 millisec) select k, sum(f) as s, max(d) as m insert into Out; end;",
    "session of keys in a partition": "partition with (v of S) begin from S#window.session(12 millisec, k)"
    " select v, sum(f) as s, count() as n insert into Out; end;",
    "session with late events": "from S#window.session(12 millisec, k, 5 millisec) select k, sum(f) as s, max(d) as m insert into Out;",
    "late events in a partition": "partition with (v of S) begin from S#window.session(30 millisec, k, 30 millisec)"
    " select v, sum(f) as s, count() as n group by b insert into Out; end;",
    "batch of keys in a partition": "partition with (k of S) begin from S[v > 0]#window.unique:timeBatch(v, 30 millisec)[b]"
    " select k, sum(d) as s, v insert into Out; end;",
    "first of keys in a partition": "partition with (k of S) begin from S#window.unique:firstLengthBatch(v, 2) select k, v, d * 2.0 as e insert into Out; end;",
    "pieces of keys": "partition with (k of S) begin from S#window.batch(2)[v > 0] select k, v order by v desc limit 1 insert into Out; end;",
    "first of groups": "from S select k, sum(d) as s group by k, b output first every 2 events insert into Out;",
    "last of groups": "from S select k, f, sum(d) as s group by v output last every 30 millisec insert into Out;",
    "snapshot": "from S[v > 0] select k, b, max(d) as m group by k output snapshot every 75 millisec insert into Out;",
    "first of a key": "partition with (k of S) begin from S select k, v output first every 12 millisec insert into Out; end;",
    "batch of keys": "from S[v > 0]#window.unique:timeBatch(k, 30 millisec)[b] select k, sum(d) as s, min(v) as m insert into Out;",
    "time batch": "from S#window.timeBatch(30 millisec) select k, f, d, sum(d) as s, stdDev(l) as e, count() as n group by k having n > 1L"
    " order by s desc, k limit 2 insert into Out;",
    "length batch": "from S#window.lengthBatch(3) select min(d) as a, max(v) as c, avg(f) as e, k insert into Out;",
    "batch": "from S#window.batch(2)[b] select sum(v) as s, b, k group by b insert into Out;",
    "waiting": "from S#window.timeBatch(30 millisec, 7) select k, v, b, d * 2.0 as e having e > 0.1 insert into Out;",
    "limited": "from S select k, f, l % 7L as m order by k limit 2 output last every 30 millisec insert into Out;",
    "batches of keys": "partition with (k of S) begin from S#window.timeBatch(30 millisec) select k, v, max(d) as m group by v insert into Out; end;",
    "groups of keys": "partition with (k of S) begin from S#window.time(1 sec)[v > 1] select k, max(d) as m, avg(f) as s group by v insert into Out; end;",
    "ranges": "partition with (v > 1 as 'more' or d > 0.5 as 'far' of S) begin from S#window.length(2) select k, sum(l) as s insert into Out; end;",
    "inner": "partition with (v % 2 of S) begin from S#window.lengthBatch(2) select k, v, max(d) as m insert into #In;"
    " from #In[m > 0.1]#window.length(2) select k, sum(v) as s insert into Out; end;",
    "whole batches of keys": "partition with (k of S) begin from S#window.timeBatch(30 millisec)[v > 0] select k, f, b, v + 1 as w insert into Out; end;",
    "groups in batches of keys": "partition with (k of S) begin from S#window.lengthBatch(3)"
    " select k, b, distinctCount(v) as n, sum(d) as s group by b insert into Out; end;",
    "partition": "@purge(enable='true', idle.period='30 millisec', interval='1 millisec') partition with (k of S) begin from S#window.timeLength(1 sec, 2)"
    " select k, avg(d + 0.1) as a, sum(v * 2) as s insert into Out; end;",
}


@pytest.mark.parametrize("name", some_of(LOOPS))
def test_compiled_loops_give_exactly_what_rows_give(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparing, "COMPILED", True)
    text = f"define stream S ({SCHEMA});\ndefine stream R (k string);\n{LOOPS[name]}"
    made = Generated(text, ("Out",), ())
    plan = planned(made)
    assert islands(plan).columns

    @OF_ONE_APP
    @given(sent=messages, parts=cuts)
    def holds(sent: list[Message], parts: list[Cut]) -> None:
        sent = [Message(m.order, "S", m.events) for m in sent]
        same_as_rows(made, plan, sent, parts)

    holds()
