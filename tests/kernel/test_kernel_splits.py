"""The kernel's one promise: results depend on the arrivals, not on how they were split, saved, or spread over buckets (principle.md#the-one-principle)."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nadi.functions.registry import default_registry
from nadi.kernel.arrow import arrow_schema
from nadi.kernel.contract import ARRIVAL_COLUMNS, ArrivalBatch
from nadi.kernel.keys import key_group
from nadi.kernel.rows.engine import RowsKernel
from nadi.plan import plan_app

WINDOWS = """define stream S (k string, v int);
@info(name='a') from S#window.time(30 milliseconds) select k, sum(v) as x group by k insert all events into Out;
@info(name='b') from S#window.timeBatch(25 milliseconds) select k, count() as x insert into Other;
@info(name='c') from S#window.lengthBatch(3) select k, max(v) as x insert all events into Out2;
from S#window.session(20 milliseconds, k) select k, count() as x insert all events into Out3;
from Out2 select k, x output last every 40 milliseconds insert into Limited;
"""
PATTERNS = """define stream S (k string, v int);
from every e1=S[v > 2] -> e2=S[k == e1.k and v < e1.v] within 50 milliseconds select e1.k as k, e2.v as x insert into Out;
from every e1=S, e2=S[v > e1.v]+, e3=S[v < e2[last].v] select e1.k as k, e3.v as x insert into Out2;
from every not S[v > 3] for 20 milliseconds -> e2=S select e2.k as k, e2.v as x insert into Out3;
"""
TABLES = """define stream S (k string, v int);
define trigger Tick at every 35 milliseconds;
@primaryKey('k') define table T (k string, v int);
define window W (k string, v int) length(4);
from S[v > 1] update or insert into T set T.v = v on T.k == k;
from S[v == 0] delete T on T.k == k;
from S insert into W;
from S join T on S.k == T.k select S.k as k, T.v as x insert into Out;
from S#window.length(3) as a join W as b on a.k == b.k select a.k as k, b.v as x insert all events into Out2;
from Tick join T select T.k as k, T.v as x insert into Out3;
"""
KEYED = """define stream S (k string, v int);
partition with (k of S) begin
  from S#window.time(30 milliseconds) select k, sum(v) as x insert all events into Out;
  from every e1=S[v > 2] -> e2=S[v < e1.v] select e1.k as k, e2.v as x insert into Out2;
  from S select k, v as x output every 20 milliseconds insert into Out3;
  from S#window.unique:time(v, 30 milliseconds) select k, sum(v) as x insert all events into Out4;
  from S#unique:deduplicate(v, 20 milliseconds)#reorder:kslack(eventTimestamp() - v, 1 sec) select k, v as x insert into Out5;
end;
"""
UNIQUE = """define stream S (k string, v int);
from S#window.unique:ever(k, v) select k, sum(v) as x insert all events into Out;
from S#window.unique:first(v) select k, v as x insert into Out2;
from S#window.unique:length(k, 2) select k, sum(v) as x insert all events into Out3;
from S#window.unique:time(k, 30 milliseconds) select k, sum(v) as x insert all events into Out4;
from S#window.unique:lengthBatch(k, 3) select k, sum(v) as x insert all events into Out5;
from S#window.unique:firstLengthBatch(k, 2) select k, v as x insert all events into Out6;
from S#window.unique:timeBatch(k, 25 milliseconds) select k, v as x insert all events into Out7;
from S#window.unique:firstTimeBatch(k, 25 milliseconds, 3) select k, v as x insert all events into Out8;
from S#window.unique:timeLengthBatch(k, 40 milliseconds, 2) select k, v as x insert all events into Out9;
from S select k, v, eventTimestamp() as t insert into Timed;
from Timed#window.unique:externalTimeBatch(k, t, 30, 0, 20) select k, v as x insert all events into Out10;
from S#unique:deduplicate(k, 20 milliseconds) select k, v as x insert into Out11;
from S as a join S#window.unique:ever(v) as b on a.k == b.k select a.k as k, b.v as x insert into Out12;
"""
REORDER = """define stream S (k string, v int);
from S#reorder:kslack(eventTimestamp() - 10 * v) select k, v as x insert into Out;
from S#reorder:kslack(eventTimestamp() - 10 * v, 1 sec, 25, true) select k, v as x insert into Out2;
from S#reorder:akslack(eventTimestamp() - 10 * v, v, 15) select k, v as x insert into Out3;
from S#reorder:akslack(eventTimestamp() - 10 * v, v, 15, 500, 30, true, 0.1, 0.9)#window.length(3)
  select k, stats:median(v) as x insert all events into Out4;
"""
PLAYBACK = """@app:playback(idle.time='40 millisec', increment='15 millisec')
define stream S (k string, v int);
define trigger Tick at every 60 milliseconds;
from S#window.time(30 milliseconds) select k, sum(v) as x group by k insert all events into Out;
from Tick select triggered_time as x insert into Out2;
from every e1=S[v > 3] -> not S[v == 0] for 20 milliseconds select e1.k as k, e1.v as x insert into Out3;
"""
SUMS = """define stream S (k string, v int);
define aggregation A from S select k, sum(v) as x, distinctCount(v) as n group by k aggregate every sec, min;
from S select k, eventTimestamp() as t insert into Timed;
from Timed#window.externalTimeBatch(t, 30) select k, count() as x insert all events into Out2;
from S[v == 0] join A as a within '1970-**-** **:**:**' per 'sec' select a.k as k, a.x as x, a.n as n insert into Out;
from S select k, v as x output first every 2 events insert into Out3;
"""
APPS = {
    "windows": (WINDOWS, ("Out", "Other", "Out2", "Out3", "Limited")),
    "patterns": (PATTERNS, ("Out", "Out2", "Out3")),
    "tables": (TABLES, ("Out", "Out2", "Out3")),
    "playback": (PLAYBACK, ("Out", "Out2", "Out3")),
    "sums": (SUMS, ("Out", "Out2", "Out3")),
    "keyed": (KEYED, tuple("Out" + n for n in ("", "2", "3", "4", "5"))),
    "unique": (UNIQUE, ("Out", *(f"Out{n}" for n in range(2, 13)))),
    "reorder": (REORDER, ("Out", "Out2", "Out3", "Out4")),
}

Arrival = tuple[int, str, int]  # order time, key, value
EVENTS = st.lists(st.tuples(st.integers(0, 25), st.sampled_from("abcd"), st.integers(0, 5)), min_size=1, max_size=40)
_END = 2000


def _kernel(name: str) -> RowsKernel:
    text, outputs = APPS[name]
    registry = default_registry()
    return RowsKernel(plan_app(text, registry), registry, outputs)


def _arrivals(gaps: list[tuple[int, str, int]]) -> list[Arrival]:
    found, now = [], 0
    for gap, key, value in gaps:
        now += gap
        found.append((now, key, value))
    return found


def _batch(kernel: RowsKernel, arrivals: list[Arrival], first: int) -> list[ArrivalBatch]:
    if not arrivals:
        return []
    schema = pa.schema([*arrow_schema(kernel.app.streams["S"].schema), *ARRIVAL_COLUMNS])
    columns: list[list[Any]] = [
        [k for _t, k, _v in arrivals],
        [v for _t, _k, v in arrivals],
        [t for t, _k, _v in arrivals],
        list(range(first, first + len(arrivals))),
        [0] * len(arrivals),
        [t for t, _k, _v in arrivals],
        [key_group(k) for _t, k, _v in arrivals],
    ]
    arrays = [pa.array(c, f.type) for c, f in zip(columns, schema)]
    return [ArrivalBatch("S", 0, 0, pa.RecordBatch.from_arrays(arrays, schema=schema))]


class _Run:
    """Feeds a kernel and collects what it gives, per output."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.kernel = _kernel(name)
        self.kernel.start(0)
        self.rows: dict[str, list[tuple[Any, ...]]] = {}
        self.saved: list[Any] = list(self.kernel.dump())

    def feed(self, arrivals: list[Arrival], first: int, until: int) -> None:
        out = self.kernel.process(_batch(self.kernel, arrivals, first), until)
        assert out.failures == ()
        for stream, batch in out.batches.items():
            self.rows.setdefault(stream, []).extend(tuple(r.values()) for r in batch.to_pylist())

    def restart(self) -> None:
        self.saved.append(self.kernel.delta())
        self.kernel = _kernel(self.name)
        self.kernel.load(self.saved)


@pytest.mark.parametrize("name", list(APPS))
@settings(deadline=None, max_examples=25)
@given(gaps=EVENTS, cuts=st.lists(st.integers(0, 40), max_size=6), restarts=st.booleans())
def test_any_split_and_any_restart_give_the_same_numbered_rows(
    name: str, gaps: list[tuple[int, str, int]], cuts: list[int], restarts: bool
) -> None:
    arrivals = _arrivals(gaps)
    whole = _Run(name)
    whole.feed(arrivals, 0, _END)
    parts = _Run(name)
    start = 0
    for end in [*sorted(c for c in cuts if c < len(arrivals)), len(arrivals)]:
        until = arrivals[end - 1][0] if end else 0
        parts.feed(arrivals[start:end], start, until if end < len(arrivals) else _END)
        if restarts:
            parts.restart()
        start = end
    assert parts.rows == whole.rows


@settings(deadline=None, max_examples=25)
@given(gaps=EVENTS)
def test_buckets_together_give_what_one_kernel_gives_per_key_group(gaps: list[tuple[int, str, int]]) -> None:
    arrivals = _arrivals(gaps)
    whole = _Run("keyed")
    assert whole.kernel.app.sharding.kind == "key"
    whole.feed(arrivals, 0, _END)
    rows: dict[str, list[tuple[Any, ...]]] = {}
    for bucket in range(2):
        run = _Run("keyed")
        run.feed([a for a in arrivals if key_group(a[1]) % 2 == bucket], 0, _END)
        for stream, given_rows in run.rows.items():
            rows.setdefault(stream, []).extend(given_rows)
    by_group = _by_group(whole.rows)
    assert _by_group(rows) == by_group


def _by_group(rows: dict[str, list[tuple[Any, ...]]]) -> dict[tuple[str, int], list[tuple[Any, ...]]]:
    found: dict[tuple[str, int], list[tuple[Any, ...]]] = {}
    for stream, those in rows.items():
        for row in those:
            found.setdefault((stream, row[-1]), []).append(row)
    return found
