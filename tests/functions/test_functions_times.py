"""The namespace time and Java's date patterns."""

from __future__ import annotations

from typing import Any

import pytest

from nadi.errors import NadiError
from nadi.functions import javadates
from nadi.functions.javadates import format_date, parse_date, zone_of
from nadi.functions.registry import default_registry
from nadi.lang.tree import Type
from nadi.plan.catalog import Argument
from nadi.runtime import Runtime

REGISTRY = default_registry()
MOMENT = 1415712224657  # Tuesday, 2014-11-11 13:23:44.657 GMT


@pytest.mark.parametrize(
    ("pattern", "written"),
    [
        ("G yyyy y yy", "AD 2014 2014 14"),
        ("M MM MMM MMMM", "11 11 Nov November"),
        ("d dd D DDD F", "11 11 315 315 2"),
        ("E EEEE u", "Tue Tuesday 2"),
        ("H k K h a", "13 13 1 1 PM"),
        ("mm:ss.SSS S", "23:44.657 657"),
        ("w W YYYY", "46 3 2014"),
        ("z zzzz Z ZZ ZZZ X XXX", "GMT Greenwich Mean Time +0000 Z +00:00 Z Z"),
        ("'o''clock' ''h''", "o'clock '1'"),
        ("yyyy年", "2014年"),
    ],
)
def test_a_pattern_writes_what_java_writes(pattern: str, written: str) -> None:
    assert format_date(pattern, MOMENT) == written


def test_zones_are_named_as_in_java() -> None:
    assert format_date("HH:mm z Z X XXX", MOMENT, zone_of("+05:30")) == "18:53 GMT+05:30 +0530 +05 +05:30"
    assert format_date("HH:mm z", MOMENT, zone_of("America/New_York")) == "08:23 EST"
    assert zone_of("IST") is zone_of("IST")
    assert format_date("HH:mm", MOMENT, zone_of("PST")) == "05:23"
    for wrong in ("Nowhere/City", "../etc/passwd", "+99:00", ""):
        with pytest.raises(javadates.DateError):
            zone_of(wrong)


@pytest.mark.parametrize(
    ("pattern", "text", "written"),
    [
        ("yyyyMMddHHmmss", "20141111132344", "2014-11-11 13:23:44.000"),
        ("yyyy-MM-dd", "2014-11-11 and more", "2014-11-11 00:00:00.000"),
        ("d MMM yyyy", "1 feb 2014", "2014-02-01 00:00:00.000"),
        ("EEEE, d MMMM yy", "Tuesday, 11 November 14", "2014-11-11 00:00:00.000"),
        ("yyyy-MM-dd", "2014-02-31", "2014-03-03 00:00:00.000"),
        ("yyyy-MM-dd", "2014-14-01", "2015-02-01 00:00:00.000"),
        ("HH:mm", "25:61", "1970-01-02 02:01:00.000"),
        ("hh:mm a", "12:05 AM", "1970-01-01 00:05:00.000"),
        ("hh:mm a", "12:05 pm", "1970-01-01 12:05:00.000"),
        ("kk", "24", "1970-01-01 00:00:00.000"),
        ("yyyy-MM-DD HH:MM:SS", "2007-11-30 10:30:19", "2007-01-30 10:00:00.019"),
        ("yyyy-MM-dd'T'HH:mmXXX", "2014-11-11T13:23+05:30", "2014-11-11 07:53:00.000"),
        ("yyyy-MM-dd HH:mm z", "2014-11-11 13:23 EST", "2014-11-11 18:23:00.000"),
        ("yyyy-MM-dd HH:mm z", "2014-07-11 13:23 Europe/Paris", "2014-07-11 11:23:00.000"),
        ("Y-w-u", "2014-46-2", "2014-11-11 00:00:00.000"),
        ("yyyy-D", "2016-60", "2016-02-29 00:00:00.000"),
        ("yy", "70", "1970-01-01 00:00:00.000"),
        ("yy", "68", "2068-01-01 00:00:00.000"),
        ("s.S", "1.5", "1970-01-01 00:00:01.005"),
    ],
)
def test_a_text_is_read_as_java_reads_it(pattern: str, text: str, written: str) -> None:
    assert format_date("yyyy-MM-dd HH:mm:ss.SSS", parse_date(pattern, text)) == written


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("yyyy-MM-dd", "2014/11/11"),
        ("yyyy", "abc"),
        ("MMM", "xyz"),
        ("yyyy", ""),
        ("G yyyy", "BC 44"),
        ("b", "1"),
        ("'a", "a"),
        ("z", "Nowhere"),
    ],
)
def test_what_does_not_fit_is_refused(pattern: str, text: str) -> None:
    with pytest.raises(javadates.DateError):
        parse_date(pattern, text)


def test_weeks_at_the_turn_of_the_year_follow_the_locale() -> None:
    day = javadates.at(parse_date("yyyy-MM-dd", "2016-01-01")).date()
    assert javadates.SUNDAYS.week(day) == (2016, 1)
    assert javadates.ISO.week(day) == (2015, 53)
    last = javadates.at(parse_date("yyyy-MM-dd", "9999-12-31")).date()
    assert javadates.ISO.week(last) == (9999, 52)
    first = javadates.at(-62135596800000).date()
    assert javadates.SUNDAYS.week(first)[1] == 1


@pytest.mark.parametrize(
    ("unit", "amount", "written"),
    [
        ("MONTH", 1, "2024-02-29"),
        ("MONTH", -2, "2023-11-30"),
        ("YEAR", 1, "2025-01-31"),
        ("QUARTER", 1, "2024-04-30"),
        ("WEEK", 1, "2024-02-07"),
        ("DAY", -31, "2023-12-31"),
        ("CENTURY", 1, "2024-01-31"),
        ("MONTH", 11, "2024-12-31"),
    ],
)
def test_adding_stays_within_the_month_reached(unit: str, amount: int, written: str) -> None:
    begin = parse_date("yyyy-MM-dd", "2024-01-31")
    assert format_date("yyyy-MM-dd", javadates.added(begin, amount, unit)) == written


def call(name: str, *values: Any, now: int | None = None, kinds: tuple[Type, ...] = ()) -> Any:
    function = REGISTRY.function(f"time:{name}")
    assert function is not None
    types = kinds or tuple({str: Type.STRING, type(None): Type.STRING, int: Type.LONG}[type(v)] for v in values)
    args = tuple(Argument(t, t is Type.STRING and v is not None, v) for t, v in zip(types, values, strict=True))
    given = values if now is None else (now, *values)
    return function.make(args, function.returns(args))(*given)


def test_nulls_make_null_or_an_error_as_in_siddhi() -> None:
    assert call("date", None, "yyyy") is None
    assert call("dateFormat", None, "yyyy") is None
    assert call("timestampInMilliseconds", None, now=7) == 7
    assert call("timestampInMilliseconds", None, "yyyy", now=7) is None
    assert call("dateDiff", None, "2014-11-11 00:00:00.000") is None
    assert call("dateDiff", "2014-11-11", "2014-11-11", None, "yyyy") is None
    with pytest.raises(NadiError, match="met null"):
        call("extract", "YEAR", None)


def test_a_difference_is_cut_toward_zero() -> None:
    assert call("dateDiff", 0, 86_400_000 * 2 - 1) == -1
    assert call("dateDiff", 86_400_000 * 2 - 1, 0) == 1


def test_a_text_that_does_not_fit_is_the_events_error_and_a_wrong_pattern_the_apps() -> None:
    with pytest.raises(NadiError, match="does not fit") as caught:
        call("date", "x", "yyyy")
    assert caught.value.condition == "FUNCTION_FAILED"
    with pytest.raises(NadiError, match=r"WRONG_ARGUMENTS.*means nothing"):
        Runtime("define stream In (d string); from In select time:date(d, 'bb') as x insert into Out;")


def test_the_current_time_is_the_clock_of_the_app() -> None:
    app = "define stream In (x int); from In select time:currentTime() as t, time:timestampInMilliseconds() as ms insert into Out;"
    runtime, found = Runtime(app, now=1000), []
    runtime.on_stream("Out", lambda events: found.extend(e.row for e in events))
    runtime.start()
    runtime.send("In", [(None, (1,))])
    runtime.advance(3_600_000)
    runtime.send("In", [(None, (1,))])
    assert found == [("00:00:01", 1000), ("01:00:01", 3_601_000)]
