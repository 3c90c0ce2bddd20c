"""Incremental aggregations: buckets, ranges, order of events, purging."""

from __future__ import annotations

from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nadi.errors import NadiError
from nadi.kernel.calendar import bucket_start, range_of, time_of_stamp
from nadi.kernel.rows.javahash import text_buckets
from nadi.runtime import Runtime

JUNE = 1_496_289_950_000  # 2017-06-01 04:05:50
TRADES = """define stream S (k string, price double, ts long);
define aggregation A from S select k, sum(price) as total, count() as n, avg(price) as mean, distinctCount(price) as kinds,
  price as latest group by k aggregate by ts every sec ... year;
"""


@pytest.mark.parametrize(
    ("duration", "stamp"),
    [
        ("sec", "2017-06-01 04:05:50"),
        ("min", "2017-06-01 04:05:00"),
        ("hour", "2017-06-01 04:00:00"),
        ("day", "2017-06-01 00:00:00"),
        ("month", "2017-06-01 00:00:00"),
        ("year", "2017-01-01 00:00:00"),
    ],
)
def test_a_bucket_starts_where_the_calendar_says(duration: str, stamp: str) -> None:
    assert bucket_start(JUNE + 123, duration) == time_of_stamp(stamp)


@pytest.mark.parametrize(
    ("duration", "stamp"),
    [("hour", "2017-06-01 04:00:00"), ("day", "2017-05-31 16:00:00"), ("year", "2016-12-31 16:00:00")],
)
def test_days_and_longer_begin_at_midnight_of_the_time_zone(duration: str, stamp: str) -> None:
    assert bucket_start(JUNE, duration, ZoneInfo("Asia/Singapore")) == time_of_stamp(stamp)


def test_an_hour_of_a_zone_with_half_hours_begins_at_its_own_full_hour() -> None:
    assert bucket_start(JUNE, "hour", ZoneInfo("Asia/Kolkata")) == time_of_stamp("2017-06-01 03:30:00")


def test_an_event_without_the_time_of_aggregate_by_fails_by_name_and_counts_for_nothing() -> None:
    runtime = Runtime(TRADES, now=JUNE)
    runtime.start()
    for ts in (JUNE, None):
        runtime.send("S", [("a", 1.0, ts)])
    (failure,) = runtime.failures
    assert (failure.condition, failure.message) == ("NULL_VALUE", "'aggregate by' of A met null, which it cannot take")
    assert _ask(runtime, "from A within '2017-**-** **:**:**' per 'days' select n") == [(1,)]


def test_the_node_says_in_which_zone_an_aggregation_counts_days() -> None:
    runtime = Runtime(TRADES, now=JUNE, properties={"aggTimeZone": "Asia/Singapore"})
    runtime.start()
    runtime.send("S", [("a", 1.0, JUNE)])
    found = _ask(runtime, "from A within '2017-**-** **:**:**' per 'days' select AGG_TIMESTAMP")
    assert found == [(time_of_stamp("2017-05-31 16:00:00"),)]
    with pytest.raises(NadiError):
        Runtime(TRADES, properties={"aggTimeZone": "Atlantis"})


def test_buckets_before_the_epoch_start_before_their_times() -> None:
    assert bucket_start(-1, "sec") == -1000
    assert bucket_start(-1, "year") == time_of_stamp("1969-01-01 00:00:00")


@pytest.mark.parametrize(
    ("within", "start", "end"),
    [
        (("2017-06-** **:**:**",), "2017-06-01 00:00:00", "2017-07-01 00:00:00"),
        (("2017-12-** **:**:**",), "2017-12-01 00:00:00", "2018-01-01 00:00:00"),
        (("2017-**-** **:**:**",), "2017-01-01 00:00:00", "2018-01-01 00:00:00"),
        (("2017-06-01 04:05:**",), "2017-06-01 04:05:00", "2017-06-01 04:06:00"),
        (("2017-06-01 **:**:** +05:30",), "2017-05-31 18:30:00", "2017-06-01 18:30:00"),
        (("2017-06-01 00:00:00", JUNE), "2017-06-01 00:00:00", "2017-06-01 04:05:50"),
    ],
)
def test_a_range_is_what_its_text_leaves_open(within: tuple[object, ...], start: str, end: str) -> None:
    assert range_of(within) == (time_of_stamp(start), time_of_stamp(end))


@pytest.mark.parametrize("within", [("june",), ("2017-**-01 00:00:00",), (5, 5), ("2017-02-30 00:00:00", 9 << 40)])
def test_what_is_no_range_is_named(within: tuple[object, ...]) -> None:
    with pytest.raises(NadiError) as caught:
        range_of(within)
    assert caught.value.condition == "INVALID_TIME"


@pytest.mark.parametrize(
    ("within", "start", "end"),
    [
        (("2017-06-01 00:00:00", "9999-12-31 23:59:59"), "2017-06-01 00:00:00", "9999-12-31 23:59:59"),
        (("0001-01-01 00:00:00", "2017-06-01 00:00:00"), "0001-01-01 00:00:00", "2017-06-01 00:00:00"),
    ],
)
def test_a_range_may_begin_or_end_where_the_calendar_does(within: tuple[object, ...], start: str, end: str) -> None:
    assert range_of(within) == (time_of_stamp(start), time_of_stamp(end))


@pytest.mark.parametrize(
    "text", ["9999-**-** **:**:**", "9999-12-** **:**:**", "9999-12-31 23:**:**", "9999-12-31 23:59:59"]
)
def test_the_last_stretch_of_the_calendar_ends_with_it(text: str) -> None:
    assert range_of((text,))[1] == 253_402_300_800_000
    assert range_of((f"{text} -05:30",))[1] == 253_402_300_800_000 + 19_800_000


def test_an_event_that_an_aggregation_cannot_take_is_counted_nowhere_and_told_why() -> None:
    text = """define stream S (v int, at long);
    define aggregation A from S select sum(v) as total, count() as n aggregate by at every sec ... year;"""
    runtime = Runtime(text, now=JUNE)
    runtime.start()
    for row in ((1, None), (1, 253_402_300_800_000), (1, -(2**63)), ("x", JUNE), (1, 1.5), (7, JUNE)):
        runtime.send("S", [row])
    told = [(f.condition, f.message) for f in runtime.failures]
    assert [condition for condition, _message in told] == [
        "NULL_VALUE",
        "INVALID_TIME",
        "INVALID_TIME",
        "CLASS_CAST",
        "CLASS_CAST",
    ]
    assert told[0][1] == "'aggregate by' of A met null, which it cannot take"
    for duration in ("sec", "min", "hour", "day", "month", "year"):
        every = f"from A within -9223372036854775808L, 9223372036854775807L per '{duration}' select total, n"
        assert _ask(runtime, every) == [(7, 1)], duration


def _filled(*events: tuple[str, float, int]) -> Runtime:
    runtime = Runtime(TRADES, now=JUNE)
    runtime.start()
    for k, price, offset in events:
        runtime.send("S", [(k, price, JUNE + offset)])
    return runtime


def _ask(runtime: Runtime, text: str) -> list[tuple[Any, ...]]:
    return [e.row for e in runtime.query(text) or []]


def test_every_duration_counts_every_event() -> None:
    runtime = _filled(("a", 1.0, 0), ("a", 2.0, 500), ("b", 5.0, 900), ("a", 2.0, 1000), ("a", 9.0, 20_000))
    seconds = _ask(runtime, "from A within '2017-06-** **:**:**' per 'seconds' select * order by AGG_TIMESTAMP")
    assert seconds == [
        (JUNE, "a", 3.0, 2, 1.5, 2, 2.0),
        (JUNE, "b", 5.0, 1, 5.0, 1, 5.0),
        (JUNE + 1000, "a", 2.0, 1, 2.0, 1, 2.0),
        (JUNE + 20_000, "a", 9.0, 1, 9.0, 1, 9.0),
    ]
    years = _ask(runtime, "from A on k == 'a' within '2017-**-** **:**:**' per 'years' select total, n, kinds, latest")
    assert years == [(14.0, 4, 3, 9.0)]
    assert runtime.query("from A within '2018-**-** **:**:**' per 'years'") is None


def test_an_event_out_of_order_is_counted_and_is_not_the_latest() -> None:
    runtime = _filled(("a", 1.0, 5000), ("a", 2.0, 4000))
    found = _ask(runtime, "from A within '2017-06-** **:**:**' per 'min' select total, latest")
    assert found == [(3.0, 1.0)]


def test_a_join_reads_the_range_that_its_event_asks_for() -> None:
    text = (
        TRADES
        + """define stream Q (k string, start long, stop long, per string);
    from Q as q join A as a on a.k == q.k within q.start, q.stop per q.per select a.AGG_TIMESTAMP as t, a.total as total
    insert into Out;"""
    )
    runtime = Runtime(text, now=JUNE)
    rows: list[Any] = []
    runtime.on_stream("Out", lambda events: rows.extend(e.row for e in events))
    runtime.start()
    for k, price, offset in (("a", 1.0, 0), ("b", 2.0, 0), ("a", 4.0, 1000), ("a", 8.0, 2000)):
        runtime.send("S", [(k, price, JUNE + offset)])
    runtime.send("Q", [("a", JUNE, JUNE + 2000, "seconds")])
    assert rows == [(JUNE, 1.0), (JUNE + 1000, 4.0)]
    runtime.send("Q", [("a", JUNE, JUNE + 2000, "fortnights")])
    assert [f.condition for f in runtime.failures] == ["DURATION_NOT_KEPT"]


def test_a_filter_on_an_aggregation_in_a_join_is_refused_with_a_way_out() -> None:
    text = "define stream Q (k string); from Q join A[n > 1] as a within '2017-**-** **:**:**' per 'sec' select a.n as n insert into O;"
    with pytest.raises(NadiError, match="after 'on'"):
        Runtime(TRADES + text)


def test_old_buckets_are_purged_and_the_coarser_ones_stay() -> None:
    runtime = _filled(("a", 1.0, 0))
    runtime.advance(15 * 60_000)
    assert runtime.query("from A within '2017-06-** **:**:**' per 'seconds'") is None
    assert _ask(runtime, "from A within '2017-06-** **:**:**' per 'minutes' select total") == [(1.0,)]
    runtime.send("S", [("a", 2.0, JUNE)])
    assert _ask(runtime, "from A within '2017-06-** **:**:**' per 'seconds' select total, kinds") == [(2.0, 1)]


def test_an_aggregation_survives_a_restore() -> None:
    first = _filled(("a", 1.0, 0), ("a", 3.0, 10))
    second = Runtime(TRADES, now=JUNE)
    second.restore(first.persist())
    second.start()
    second.send("S", [("a", 3.0, JUNE + 20)])
    assert _ask(second, "from A within '2017-06-** **:**:**' per 'sec' select total, n, kinds") == [(7.0, 3, 2)]


def test_rows_come_in_the_order_of_siddhis_hash_map_by_bucket_and_group() -> None:
    """The map's keys are the bucket's start and each group value, all followed by ":-:"; a Java HashMap spreads them so."""
    runtime = _filled(("WSO2", 1.0, 0), ("IBM", 2.0, 0), ("WSO2", 3.0, 1000), ("CISCO", 4.0, 1000))
    found = _ask(runtime, "from A within '2017-06-** **:**:**' per 'seconds' select AGG_TIMESTAMP as t, k")
    assert sorted(found) == [(JUNE, "IBM"), (JUNE, "WSO2"), (JUNE + 1000, "CISCO"), (JUNE + 1000, "WSO2")]
    keys = [f"{t}:-:{k}:-:" for t, k in sorted(found)]
    assert found == [row for _place, row in sorted(zip(text_buckets(keys), sorted(found), strict=True))]


def test_without_a_time_of_its_own_finished_buckets_come_before_the_running_one() -> None:
    runtime = Runtime(
        "define stream S (k string); define aggregation A from S select k, count() as n group by k aggregate every sec, min;"
    )
    runtime.start()
    for _second in range(5):
        for k in "abcdef":
            runtime.send("S", [(k,)])
        runtime.advance(1000)
    runtime.send("S", [("a",)])
    runtime.send("S", [("z",)])
    found = _ask(runtime, "from A within 0L, 10000L per 'seconds' select AGG_TIMESTAMP as t, k, n")
    assert sorted(found[-2:]) == [(5000, "a", 1), (5000, "z", 1)]
    assert len(found) == 32


def test_buckets_that_begin_before_the_retention_go_and_the_others_stay() -> None:
    runtime = Runtime(
        "define stream S (k string); @purge(interval='1 min') define aggregation A from S select count() as n aggregate every sec, min;"
    )
    runtime.start()
    for _second in range(10):
        runtime.send("S", [("a",)])
        runtime.advance(10_000)
    runtime.advance(80_500)
    found = _ask(runtime, "from A within 0L, 999999L per 'seconds' select AGG_TIMESTAMP as t order by t")
    assert found == [(t,) for t in range(60_000, 100_000, 10_000)]  # looked after at 180 s, kept for 120 s
    assert _ask(runtime, "from A within 0L, 999999L per 'min' select AGG_TIMESTAMP as t, n order by t") == [
        (0, 6),
        (60_000, 4),
    ]


def test_the_buckets_of_an_aggregation_with_one_duration_stay_for_nothing_coarser_has_them() -> None:
    runtime = Runtime(
        "define stream S (k string); define aggregation A from S select count() as n aggregate every sec;"
    )
    runtime.start()
    runtime.send("S", [("a",)])
    runtime.advance(3_600_000)
    assert _ask(runtime, "from A within 0L, 999999L per 'seconds' select n") == [(1,)]


SHARED = "@PartitionById " + "define aggregation A from S select k, count() as n group by k aggregate every sec, min;"


def test_a_shared_aggregation_needs_to_know_which_node_this_is() -> None:
    text = "define stream S (k string); "
    with pytest.raises(NadiError, match="shardId") as caught:
        Runtime(text + SHARED)
    assert caught.value.siddhi_class == "SiddhiAppCreationException"
    with pytest.raises(NadiError, match="shardId"):
        Runtime(
            text + SHARED.replace("@PartitionById", "@PartitionById(enable='false')"),
            properties={"partitionById": "true"},
        )
    Runtime(text + SHARED.replace("@PartitionById", "@PartitionById(enable='false')"))


def test_a_shared_aggregation_has_what_this_node_counted() -> None:
    runtime = Runtime("define stream S (k string); " + SHARED, properties={"shardId": "node-1"})
    runtime.start()
    runtime.send("S", [("a",), ("b",), ("a",)])
    assert _ask(runtime, "from A within 0L, 999L per 'seconds' select k, n order by k") == [("a", 2), ("b", 1)]


EVENTS = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(-9, 9), st.integers(0, 7_300_000), st.booleans()), max_size=25
)


@settings(max_examples=100, deadline=None)
@given(EVENTS)
def test_events_in_any_order_and_with_restarts_give_what_counting_them_by_bucket_gives(
    events: list[tuple[str, int, int, bool]],
) -> None:
    text = """define stream S (k string, v int, ts long); define aggregation A from S
    select k, sum(v) as total, count() as n, min(v) as least, max(v) as most, v as latest group by k aggregate by ts every sec ... day;"""
    runtime = Runtime(text, now=JUNE)
    runtime.start()
    saved: list[Any] = list(runtime.kernel.dump())
    for k, v, offset, moves in events:
        runtime.send("S", [(k, v, JUNE + offset)])
        if moves:
            saved.append(runtime.kernel.delta())
            runtime.move(saved)
    for duration in ("sec", "min", "hour", "day"):
        groups: dict[tuple[int, str], list[tuple[int, int]]] = {}
        for k, v, offset, _moves in events:
            groups.setdefault((bucket_start(JUNE + offset, duration), k), []).append((offset, v))
        counted = [
            (
                start,
                k,
                sum(v for _, v in held),
                len(held),
                min(v for _, v in held),
                max(v for _, v in held),
                _latest(held),
            )
            for (start, k), held in groups.items()
        ]
        found = _ask(runtime, f"from A within {JUNE - (1 << 30)}L, {JUNE + (1 << 30)}L per '{duration}'")
        assert sorted(found) == sorted(counted)


def _latest(held: list[tuple[int, int]]) -> int:
    """The value of the latest event by its own time; of several with one time, of the one that came last."""
    newest = max(ts for ts, _v in held)
    return [v for ts, v in held if ts == newest][-1]
