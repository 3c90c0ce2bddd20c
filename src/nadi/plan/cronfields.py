"""The fields of a cron expression, as Quartz reads them.

A field is a list of `*`, `n`, `n-m`, each with or without `/step`; a range that ends before it begins goes on at the least value. Months and weekdays have
names, of which three letters count; weekdays begin with 1, a Sunday. Exactly one of day-of-month and day-of-week is `?`. Day-of-month knows `L`, `L-n`,
`LW`, `L-nW` and `nW`, day-of-week `L` (a Saturday), `nL` and `n#k`, each of them alone in its field.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace


class CronError(ValueError):
    """What is wrong with an expression, as the end of a sentence."""


@dataclass(frozen=True, slots=True)
class Expression:
    """When an expression fires. All values are sorted; `years` None means all. `weekdays` count from 0, a Monday; None: days of the month decide."""

    seconds: tuple[int, ...]
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    months: tuple[int, ...]
    years: frozenset[int] | None
    days: tuple[int, ...] = ()
    from_last: int | None = None
    nearest_working_day: bool = False
    weekdays: tuple[int, ...] | None = None
    last_of_weekday: bool = False
    nth: int | None = None


@dataclass(frozen=True, slots=True)
class _Field:
    """`steps` is the greatest step."""

    name: str
    least: int
    most: int
    steps: int
    names: tuple[str, ...] = ()


_TIMES = _Field("second", 0, 59, 59), _Field("minute", 0, 59, 59), _Field("hour", 0, 23, 23)
_DAYS = _Field("day-of-month", 1, 31, 31)
_MONTHS = _Field(
    "month", 1, 12, 12, ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
)
_WEEKDAYS = _Field("day-of-week", 1, 7, 7, ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"))
_YEARS = _Field("year", 1970, 2299, 2299)

_PART = re.compile(r"(?:\*|(?P<first>\d+|[A-Z]{3,})(?:-(?P<last>\d+|[A-Z]{3,}))?)?(?:/(?P<step>\d+))?\Z")
_OF_LAST = re.compile(r"L(?:-(?P<before>\d+))?(?P<working>W)?\Z")
_OF_WEEKDAY = re.compile(r"(?P<day>\d+|[A-Z]{3,}?)(?:(?P<last>L)|#(?P<nth>\d+))\Z")


def expression_of(text: str) -> Expression:
    """What the text says.

    Raises:
        CronError: it says nothing that Quartz would take, or a list with L, W or #, of which Quartz heeds a part only.

    >>> expression_of("0 0 12 ? * FRI#3").nth
    3
    """
    parts = text.upper().split()
    if len(parts) not in (6, 7):
        raise CronError(f"it has {len(parts)} fields")
    day, weekday = parts[3], parts[5]
    if (day == "?") == (weekday == "?"):
        raise CronError("of day-of-month and day-of-week exactly one must be '?'")
    years = _values(_YEARS, parts[6]) if len(parts) == 7 and parts[6] != "*" else None
    seconds, minutes, hours = (_values(field, part) for field, part in zip(_TIMES, parts[:3], strict=True))
    when = Expression(seconds, minutes, hours, _values(_MONTHS, parts[4]), None if years is None else frozenset(years))
    return _with_days(when, day) if weekday == "?" else _with_weekdays(when, weekday)


def _with_days(when: Expression, text: str) -> Expression:
    if found := _OF_LAST.match(text):
        before = int(found["before"] or 0)
        if before > 30:
            raise CronError(f"'{text}' is more than 30 days before the last one")
        return replace(when, from_last=before, nearest_working_day=found["working"] is not None)
    if found := re.match(r"(\d+)W\Z", text):
        return replace(when, days=_values(_DAYS, found[1]), nearest_working_day=True)
    return replace(when, days=_values(_DAYS, text))


def _with_weekdays(when: Expression, text: str) -> Expression:
    if text == "L":
        return replace(when, weekdays=_from_monday((7,)))
    if found := _OF_WEEKDAY.match(text):
        nth = int(found["nth"]) if found["nth"] else None
        if nth is not None and not 1 <= nth <= 5:
            raise CronError(f"'#' in '{text}' needs a number from 1 to 5")
        weekdays = _from_monday((_value(_WEEKDAYS, found["day"]),))
        return replace(when, weekdays=weekdays, last_of_weekday=nth is None, nth=nth)
    return replace(when, weekdays=_from_monday(_values(_WEEKDAYS, text)))


def _from_monday(weekdays: Sequence[int]) -> tuple[int, ...]:
    return tuple(sorted((day + 5) % 7 for day in weekdays))


def _values(field: _Field, text: str) -> tuple[int, ...]:
    """The values of a list."""
    found: set[int] = set()
    for part in text.split(","):
        found.update(_of_part(field, part))
    return tuple(sorted(found))


def _of_part(field: _Field, part: str) -> range | list[int]:
    read = _PART.match(part)
    if not part or read is None:
        raise CronError(f"'{part}' is nothing that the field {field.name} can be")
    step = 1 if read["step"] is None else int(read["step"])
    if read["last"] is None and step > field.steps:
        raise CronError(f"the step of '{part}' in the field {field.name} is greater than {field.steps}")
    if read["first"] is None:
        return range(field.least, field.most + 1, step or 1)
    _check_names(part, read["first"], read["last"], read["step"])
    first = _value(field, read["first"])
    if read["last"] is None:
        single = read["step"] is None or step == 0
        return [first] if single else range(first, field.most + 1, step)
    last = _value(field, read["last"])
    if last < first and field is _YEARS:
        raise CronError(f"'{part}' ends before it begins")
    size = field.most - field.least + 1
    end = last + size if last < first else last
    return [(value - field.least) % size + field.least for value in range(first, end + 1, step or 1)]


def _check_names(part: str, first: str, last: str | None, step: str | None) -> None:
    """Quartz leaves out a step behind a name, and has no range from a name to a number."""
    named = not first.isdigit()
    if named and step is not None:
        raise CronError(f"'{part}' has a step behind a name; write the number")
    if last is not None and last.isdigit() is named:
        raise CronError(f"'{part}' goes from a name to a number, or from a number to a name")


def _value(field: _Field, text: str) -> int:
    if not text.isdigit():
        if text[:3] not in field.names:
            raise CronError(f"'{text}' is no {field.name}")
        return field.names.index(text[:3]) + 1
    value = int(text)
    if not field.least <= value <= field.most:
        raise CronError(f"{field.name} must be from {field.least} to {field.most}, not {value}")
    return value
