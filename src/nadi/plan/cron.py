"""When a cron expression of Quartz fires, in UTC: second minute hour day-of-month month day-of-week [year]. `cronfields` reads the fields."""

from __future__ import annotations

import calendar
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache

from nadi.errors import error
from nadi.plan.cronfields import CronError, Expression, expression_of

_LAST_YEAR = 2299


def next_fire(text: str, after: int) -> int | None:
    """The first time of the expression after `after` (both ms since the epoch); None where there is none (a year that has passed).

    Raises:
        SiddhiAppCreationException: INVALID_CRON.

    >>> next_fire("*/5 * * * * ?", 1_000)
    5000
    """
    expression = _read(text)
    start = datetime.fromtimestamp(after // 1000, UTC) + timedelta(seconds=1)
    for day in _days(expression, start.date()):
        begin = (start.hour, start.minute, start.second) if day == start.date() else (0, 0, 0)
        if (time := _first_time(expression, begin)) is not None:
            return int(datetime(day.year, day.month, day.day, *time, tzinfo=UTC).timestamp()) * 1000
    return None


@lru_cache(maxsize=256)
def _read(text: str) -> Expression:
    try:
        return expression_of(text)
    except CronError as reason:
        raise error("INVALID_CRON", text=text, reason=str(reason)) from reason


def _first_time(expression: Expression, begin: tuple[int, int, int]) -> tuple[int, int, int] | None:
    """The first hour, minute and second of a day from `begin` on."""
    for hour in expression.hours:
        for minute in expression.minutes if hour >= begin[0] else ():
            if (hour, minute) < begin[:2]:
                continue
            for second in expression.seconds:
                if (hour, minute, second) >= begin:
                    return hour, minute, second
    return None


def _days(expression: Expression, begin: date) -> Iterator[date]:
    """The days of the expression from `begin` on, in order."""
    for year in range(begin.year, _LAST_YEAR + 1):
        if expression.years is not None and year not in expression.years:
            continue
        for month in expression.months:
            if (year, month) >= (begin.year, begin.month):
                for day in _days_of_month(expression, year, month):
                    if (found := date(year, month, day)) >= begin:
                        yield found


def _days_of_month(expression: Expression, year: int, month: int) -> list[int]:
    first, last = calendar.monthrange(year, month)
    if expression.weekdays is not None:
        return _by_weekday(expression, expression.weekdays, first, last)
    chosen = list(expression.days) if expression.from_last is None else [last - expression.from_last]
    chosen = [day for day in chosen if 1 <= day <= last]
    return [_working_day(day, first, last) for day in chosen] if expression.nearest_working_day else chosen


def _by_weekday(expression: Expression, weekdays: tuple[int, ...], first: int, last: int) -> list[int]:
    found = [day for day in range(1, last + 1) if (first + day - 1) % 7 in weekdays]
    if expression.last_of_weekday:
        return found[-1:]
    return found if expression.nth is None else found[expression.nth - 1 : expression.nth]


def _working_day(day: int, first: int, last: int) -> int:
    """The working day of the same month that is nearest to a day."""
    match (first + day - 1) % 7:
        case calendar.SATURDAY:
            return day - 1 if day > 1 else day + 2
        case calendar.SUNDAY:
            return day + 1 if day < last else day - 2
    return day
