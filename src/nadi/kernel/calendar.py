"""Buckets of incremental aggregations: where they start, and the ranges over which they are read (semantics/aggregations.md#buckets)."""

from __future__ import annotations

import re
from calendar import isleap, monthrange
from datetime import UTC, datetime, timedelta, tzinfo

from nadi.errors import error

_FIXED = {"sec": 1000, "min": 60_000, "hour": 3_600_000, "day": 86_400_000}
_STAMP = re.compile(
    r"(\d{4}|\*{4})-(\d\d|\*\*)-(\d\d|\*\*) (\d\d|\*\*):(\d\d|\*\*):(\d\d|\*\*)(?: ?([+-])(\d\d):?(\d\d))?"
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST, _LAST = -(1 << 62), 1 << 62
_LEAST = (1, 1, 1, 0, 0, 0)


def bucket_start(ts: int, duration: str, zone: tzinfo = UTC) -> int:
    """Start of the bucket of a duration ("sec" … "year") that holds a time, both ms; days, months and years begin at midnight of the zone.

    Raises:
        SiddhiAppRuntimeException: INVALID_TIME.

    >>> bucket_start(1_496_289_950_123, "month")
    1496275200000
    """
    width = _FIXED.get(duration)
    if width is not None and (zone is UTC or duration in ("sec", "min")):
        return ts // width * width
    try:
        moment = (_EPOCH + timedelta(milliseconds=ts)).astimezone(zone)
    except OverflowError as problem:
        raise error("INVALID_TIME", text=ts, reason="it is not in the years 1 to 9999") from problem
    moment = moment.replace(minute=0, second=0, microsecond=0)
    if duration != "hour":
        moment = moment.replace(hour=0)
    if duration in ("month", "year"):
        moment = moment.replace(day=1)
    return _ms(moment.replace(month=1) if duration == "year" else moment)


def time_of_stamp(text: str) -> int:
    """`yyyy-MM-dd HH:mm:ss[ +hh:mm]` (UTC without a zone) as ms.

    Raises:
        SiddhiAppRuntimeException: INVALID_TIME.

    >>> time_of_stamp("2017-06-01 09:35:50 +05:30")
    1496289950000
    """
    start, end = _range_of_stamp(text)
    if end - start != 1000:
        raise error("INVALID_TIME", text=text, reason="a point in time has no wildcards")
    return start


def range_of(within: tuple[object, ...]) -> tuple[int, int]:
    """The range [start, end) in ms that a `within` means: one text that may end in wildcards, or two times, each a long or a text.

    Raises:
        SiddhiAppRuntimeException: INVALID_TIME.

    >>> range_of(("2017-06-** **:**:**",))
    (1496275200000, 1498867200000)
    """
    if len(within) == 1:
        return _range_of_stamp(str(within[0]))
    start, end = (b if isinstance(b, int) else time_of_stamp(str(b)) for b in within)
    if start >= end:
        raise error("INVALID_TIME", text=f"{within[0]}, {within[1]}", reason="the start must be before the end")
    return start, end


def _range_of_stamp(text: str) -> tuple[int, int]:
    found = _STAMP.fullmatch(text.strip())
    if found is None:
        raise error("INVALID_TIME", text=text, reason="it is not like 2024-06-01 00:00:00")
    given = [None if "*" in part else int(part) for part in found.groups()[:6]]
    known = next((i for i, part in enumerate(given) if part is None), 6)
    if any(part is not None for part in given[known:]):
        raise error("INVALID_TIME", text=text, reason="wildcards must be at the end")
    if known == 0:
        return _FIRST, _LAST
    parts = [given[i] if i < known else least for i, least in enumerate(_LEAST)]
    try:
        start = datetime(*parts, tzinfo=UTC)  # type: ignore[arg-type, misc]  # six ints: the known ones, then the least
    except ValueError as problem:
        raise error("INVALID_TIME", text=text, reason=str(problem)) from problem
    zone = int(found[8]) * 60 + int(found[9]) if found[7] else 0
    begin = _ms(start) + (-zone if found[7] == "+" else zone) * 60_000
    return begin, begin + _length(start, known)


def _length(start: datetime, known: int) -> int:
    """How long the stretch is of which the first `known` parts are given, in ms: its end may be behind the last date that Python has."""
    if known == 1:
        return (366 if isleap(start.year) else 365) * _FIXED["day"]
    if known == 2:
        return monthrange(start.year, start.month)[1] * _FIXED["day"]
    return (_FIXED["day"], _FIXED["hour"], _FIXED["min"], _FIXED["sec"])[known - 3]


def _ms(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(milliseconds=1)
