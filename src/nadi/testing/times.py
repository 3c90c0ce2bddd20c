"""Times in tests: ms or `1 min 30 sec` since the start of a scenario, or a date with its time."""

from __future__ import annotations

from datetime import UTC, datetime

from nadi.errors import NadiError, error
from nadi.lang import parse_time

Time = int | float | str

_UNITS = (("day", 86_400_000), ("hour", 3_600_000), ("min", 60_000), ("sec", 1000), ("millisec", 1))


def duration(given: Time) -> int:
    """A stretch of time, ms: a number of ms, or Siddhi's words.

    Raises:
        CannotLoadConfigurationException: TEST_TIME.

    >>> duration("1 min 30 sec"), duration(250)
    (90000, 250)
    """
    if isinstance(given, (int, float)) and given >= 0 and not isinstance(given, bool):
        return int(given)
    try:
        return parse_time(str(given)).milliseconds
    except NadiError as problem:
        raise error("TEST_TIME", text=given) from problem


def instant(given: Time, start: int) -> int:
    """A point in time, ms since 1970: a stretch of time since `start`, or `2013-01-01T06:00:00Z` (UTC where no zone is given).

    >>> instant("2 sec", 1000), instant("1970-01-01T00:01:00Z", 1000)
    (3000, 60000)
    """
    if isinstance(given, str) and given[:4].isdigit() and given[4:5] == "-":
        try:
            read = datetime.fromisoformat(given)
        except ValueError as problem:
            raise error("TEST_TIME", text=given) from problem
        zoned = read if read.tzinfo is not None else read.replace(tzinfo=UTC)
        since = zoned - datetime(1970, 1, 1, tzinfo=UTC)
        return (since.days * 86_400 + since.seconds) * 1000 + since.microseconds // 1000
    return start + duration(given)


def words(ms: int) -> str:
    """A stretch of time as one writes it in a test.

    >>> words(90_250)
    '1 min 30 sec 250 millisec'
    """
    if ms <= 0:
        return "0 sec" if ms == 0 else f"{ms} millisec"
    parts = []
    for unit, size in _UNITS:
        count, ms = divmod(ms, size)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts)
