"""Dates as text by the patterns of Java's `SimpleDateFormat` (as `FastDateFormat` reads them), in English, on the proleptic Gregorian calendar.

Letters: G era, y year, Y week year, M L month, w week of year, W week of month, D day of year, d day of month, F which such weekday of the month,
E name of the day, u number of the day (Monday 1), a AM/PM, H 0-23, k 1-24, K 0-11, h 1-12, m minute, s second, S millisecond, z name of the zone,
Z +0530 (ZZ +05:30), X +05 (XX +0530, XXX +05:30, Z for none). `'text'` stands for itself, `''` is a quote; weeks begin on Sunday.

Reading is lenient as in Java: the 32nd of a month is the 1st of the next, and what follows the last field is not looked at. Two digits of a year
mean 1969 to 2068. A day of the week counts only beside a week of the year. Without a zone in the text, times are GMT: never the zone of a machine,
which would make results depend on where an app runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo

GMT = UTC
_EPOCH = datetime(1970, 1, 1, tzinfo=GMT)
_DAY = 86_400_000
MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December",
)  # fmt: skip
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


class DateError(ValueError):
    """A pattern, zone or text that cannot be used, as a sentence."""


@dataclass(frozen=True, slots=True)
class Weeks:
    """How a country counts weeks: the first day (Monday 0), and how many days of the year the first week must have."""

    first: int = 6
    least: int = 1

    def week(self, day: date) -> tuple[int, int]:
        """Year and number of the week that a day lies in."""
        for year in (day.year + 1, day.year, day.year - 1):
            begin = self._begin(year)
            if day.toordinal() >= begin:
                return year, (day.toordinal() - begin) // 7 + 1
        raise DateError(f"{day} lies in no week")

    def _begin(self, year: int) -> int:
        """The day number on which the first week of a year begins."""
        new_year = date(max(year, 1), 1, 1).toordinal() if year < 10_000 else date.max.toordinal() + 1
        return self._week_of(new_year)

    def _week_of(self, first_day: int) -> int:
        since = (first_day + 6 - self.first) % 7  # day numbers: 1 is a Monday
        begin = first_day - since
        return begin if 7 - since >= self.least else begin + 7

    def week_of_month(self, day: date) -> int:
        return (day.toordinal() - self._week_of(day.replace(day=1).toordinal())) // 7 + 1

    def day(self, year: int, week: int, weekday: int) -> date:
        """The day with a weekday (Monday 0) in a week."""
        return date.fromordinal(self._begin(year) + (week - 1) * 7 + (weekday - self.first) % 7)


SUNDAYS, ISO = Weeks(), Weeks(0, 4)
_COUNTRIES = "AD AT BE BG CH CZ DE DK EE ES FI FO FR GB GR HU IE IS IT LI LT LU MC NL NO PL RU SE SK SM"
_ISO_COUNTRIES = frozenset(re.findall(r"\w+", _COUNTRIES))


def weeks_of(locale: str) -> Weeks:
    """`en_US` counts from Sunday, most of Europe as ISO 8601 does.

    >>> weeks_of("fr_FR").first, weeks_of("en_US").first
    (0, 6)
    """
    if not re.fullmatch(r"[a-z]{2,3}(_([A-Z]{2}|[0-9]{3}))?(_\w+)?", locale):
        raise DateError(f"{locale!r} is not a locale such as en_US")
    country = locale.partition("_")[2][:2]
    return ISO if country in _ISO_COUNTRIES else SUNDAYS


# ---- zones ---------------------------------------------------------------------------------------------------------

_SHORT = {
    "EST": "-05:00", "MST": "-07:00", "HST": "-10:00", "ACT": "Australia/Darwin", "AET": "Australia/Sydney",
    "AGT": "America/Argentina/Buenos_Aires", "ART": "Africa/Cairo", "AST": "America/Anchorage", "BET": "America/Sao_Paulo",
    "BST": "Asia/Dhaka", "CAT": "Africa/Harare", "CNT": "America/St_Johns", "CST": "America/Chicago", "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa", "ECT": "Europe/Paris", "IET": "America/Indiana/Indianapolis", "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo", "MIT": "Pacific/Apia", "NET": "Asia/Yerevan", "NST": "Pacific/Auckland", "PLT": "Asia/Karachi",
    "PNT": "America/Phoenix", "PRT": "America/Puerto_Rico", "PST": "America/Los_Angeles", "SST": "Pacific/Guadalcanal",
    "VST": "Asia/Ho_Chi_Minh",
}  # fmt: skip
_OFFSET = re.compile(r"(?:GMT|UTC|UT)?([+-])(\d{1,2})(?::?(\d{2}))?(?::?(\d{2}))?\Z")


@lru_cache(maxsize=1024)
def zone_of(name: str) -> tzinfo:
    """A zone by its name (`Asia/Kolkata`), Java's short name (`IST`) or offset (`+05:30`, `GMT+5`).

    >>> zone_of("+05:30").utcoffset(None)
    datetime.timedelta(seconds=19800)

    Raises:
        DateError: there is no such zone.
    """
    if name in ("GMT", "UTC", "UT", "Z"):
        return GMT
    name = _SHORT.get(name, name)
    if found := _OFFSET.match(name):
        seconds = int(found[2]) * 3600 + int(found[3] or 0) * 60 + int(found[4] or 0)
        if seconds <= 18 * 3600:
            return timezone(timedelta(seconds=-seconds if found[1] == "-" else seconds))
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, LookupError) as reason:
        raise DateError(f"{name!r} is not a time zone") from reason


def at(ms: int, zone: tzinfo = GMT) -> datetime:
    """The date and time of a timestamp in ms."""
    try:
        return (_EPOCH + timedelta(milliseconds=ms)).astimezone(zone)
    except OverflowError as reason:
        raise DateError(f"{ms} ms is not in the years 1 to 9999") from reason


def ms_of(moment: datetime) -> int:
    """The timestamp in ms of a moment with a zone."""
    return (moment - _EPOCH) // timedelta(milliseconds=1)


# ---- patterns ------------------------------------------------------------------------------------------------------

_LETTERS = frozenset("GyYMLwWDdFEuaHkKhmsSzZX")
_NUMBERS = frozenset("yYwWDdFuHkKhmsS")
Field = tuple[str, int]
"""A letter and how often it stands there, or a text and 0."""


@lru_cache(maxsize=512)
def fields_of(pattern: str) -> tuple[Field, ...]:
    """The fields of a pattern.

    >>> fields_of("yyyy'T'HH")
    (('y', 4), ('T', 0), ('H', 2))

    Raises:
        DateError: a letter that means nothing, a quote that is not closed.
    """
    fields: list[Field] = []
    place = 0
    while place < len(pattern):
        char = pattern[place]
        if char == "'":
            text, place = _quoted(pattern, place + 1)
            fields.append((text, 0))
        elif char.isascii() and char.isalpha():
            if char not in _LETTERS:
                raise DateError(f"the letter {char!r} means nothing in the date pattern {pattern!r}")
            end = place
            while end < len(pattern) and pattern[end] == char:
                end += 1
            fields.append((char, end - place))
            place = end
        else:
            fields.append((char, 0))
            place += 1
    return tuple(fields)


def _quoted(pattern: str, place: int) -> tuple[str, int]:
    if pattern.startswith("'", place):
        return "'", place + 1
    text = ""
    while place < len(pattern):
        if pattern[place] != "'":
            text += pattern[place]
            place += 1
        elif pattern.startswith("''", place):
            text += "'"
            place += 2
        else:
            return text, place + 1
    raise DateError(f"a quote in the date pattern {pattern!r} is not closed")


# ---- writing -------------------------------------------------------------------------------------------------------


def format_date(pattern: str, ms: int, zone: tzinfo = GMT) -> str:
    """A timestamp as text.

    >>> format_date("EEE, d MMM yyyy HH:mm:ss Z", 0)
    'Thu, 1 Jan 1970 00:00:00 +0000'
    """
    moment = at(ms, zone)
    return "".join(_WRITE[letter](moment, count) if count else letter for letter, count in fields_of(pattern))


def _year(year: int, count: int) -> str:
    return f"{year % 100:02}" if count == 2 else str(year).zfill(max(count, 4))


def _month(moment: datetime, count: int) -> str:
    name = MONTHS[moment.month - 1]
    return str(moment.month).zfill(count) if count < 3 else name[:3] if count == 3 else name


def _number(value: Callable[[datetime], int]) -> Callable[[datetime, int], str]:
    return lambda moment, count: str(value(moment)).zfill(count)


def _minutes(moment: datetime) -> int:
    offset = moment.utcoffset() or timedelta()
    return offset // timedelta(minutes=1)


def _offset(minutes: int, colon: str) -> str:
    size = abs(minutes)
    return f"{'-' if minutes < 0 else '+'}{size // 60:02}{colon}{size % 60:02}"


def _rfc(moment: datetime, count: int) -> str:
    minutes = _minutes(moment)
    if count == 2 and minutes == 0:
        return "Z"
    return _offset(minutes, "" if count == 1 else ":")


def _iso(moment: datetime, count: int) -> str:
    minutes = _minutes(moment)
    if minutes == 0:
        return "Z"
    return _offset(minutes, "")[:3] if count == 1 else _offset(minutes, "" if count == 2 else ":")


def _zone_name(moment: datetime, count: int) -> str:
    if moment.tzinfo is GMT:
        return "GMT" if count < 4 else "Greenwich Mean Time"
    if isinstance(moment.tzinfo, ZoneInfo):
        return (moment.tzname() or "") if count < 4 else str(moment.tzinfo)
    return f"GMT{_offset(_minutes(moment), ':')}"


_WRITE: dict[str, Callable[[datetime, int], str]] = {
    "G": lambda moment, count: "AD",
    "y": lambda moment, count: _year(moment.year, count),
    "Y": lambda moment, count: _year(SUNDAYS.week(moment.date())[0], count),
    "M": _month,
    "L": _month,
    "w": _number(lambda m: SUNDAYS.week(m.date())[1]),
    "W": _number(lambda m: SUNDAYS.week_of_month(m.date())),
    "D": _number(lambda m: m.timetuple().tm_yday),
    "d": _number(lambda m: m.day),
    "F": _number(lambda m: (m.day - 1) // 7 + 1),
    "E": lambda moment, count: DAYS[moment.weekday()][: 3 if count < 4 else None],
    "u": _number(lambda m: m.isoweekday()),
    "a": lambda moment, count: "AM" if moment.hour < 12 else "PM",
    "H": _number(lambda m: m.hour),
    "k": _number(lambda m: m.hour or 24),
    "K": _number(lambda m: m.hour % 12),
    "h": _number(lambda m: m.hour % 12 or 12),
    "m": _number(lambda m: m.minute),
    "s": _number(lambda m: m.second),
    "S": _number(lambda m: m.microsecond // 1000),
    "z": _zone_name,
    "Z": _rfc,
    "X": _iso,
}


# ---- reading -------------------------------------------------------------------------------------------------------


def parse_date(pattern: str, text: str, zone: tzinfo = GMT) -> int:
    """The timestamp in ms that a text begins with.

    >>> parse_date("yyyy-MM-dd HH:mm:ss.SSS", "2014-11-11 13:23:44.657")
    1415712224657

    Raises:
        DateError: the text does not begin as the pattern says.
    """
    fields = fields_of(pattern)
    found = _Found({})
    place = 0
    for number, (letter, count) in enumerate(fields):
        end = _read(fields, number, text, place, found)
        if end is None:
            wanted = letter * count if count else letter
            raise DateError(f"{text!r} does not fit the date pattern {pattern!r}: {wanted!r} expected at {place}")
        place = end
    try:
        return _moment(found, zone)
    except (OverflowError, ValueError) as reason:
        raise DateError(f"{text!r} is not in the years 1 to 9999") from reason


@dataclass(slots=True)
class _Found:
    """What was read: numbers by letter, in order, and the zone."""

    numbers: dict[str, int]
    zone: tzinfo | None = None


_ZONE_TEXT = re.compile(r"(?:GMT|UTC)?[+-]\d{1,2}:?\d{0,2}|[A-Za-z]+(?:[/_+-][A-Za-z0-9_]+)*")
_AM_PM, _ERAS = ("am", "pm"), ("bc", "ad")


def _read(fields: tuple[Field, ...], number: int, text: str, place: int, found: _Found) -> int | None:
    """Reads one field; the place behind it, or None."""
    letter, count = fields[number]
    if not count:
        return place + len(letter) if text.startswith(letter, place) else None
    if letter in "zZX":
        return _read_zone(text, place, found)
    if letter == "E" or (letter in "ML" and count > 2):
        names = DAYS if letter == "E" else MONTHS
        return _read_name(tuple(n.lower() for n in names), text, place, found, "E" if letter == "E" else "M")
    if letter in "aG":
        return _read_name(_AM_PM if letter == "a" else _ERAS, text, place, found, letter)
    follows = fields[number + 1] if number + 1 < len(fields) else ("", 0)
    adjacent = follows[1] > 0 and (follows[0] in _NUMBERS or (follows[0] in "ML" and follows[1] < 3))
    return _read_number("M" if letter == "L" else letter, count, adjacent, text, place, found)


def _read_number(letter: str, count: int, fixed: bool, text: str, place: int, found: _Found) -> int | None:
    while place < len(text) and text[place].isspace():
        place += 1
    digits = re.compile(rf"[0-9]{{{f'1,{count}' if fixed else '1,9'}}}").match(text, place)
    if digits is None:
        return None
    value = int(digits[0])
    if letter in "yY" and count < 3 and value < 100:
        value += 1900 if value >= 69 else 2000
    found.numbers.pop(letter, None)  # the order in which fields came decides between them
    found.numbers[letter] = value
    return digits.end()


def _read_name(names: tuple[str, ...], text: str, place: int, found: _Found, letter: str) -> int | None:
    rest = text[place : place + 9].lower()
    for number, name in enumerate(names):
        for form in (name, name[:3]):
            if rest.startswith(form):
                found.numbers[letter] = number + 1 if letter == "M" else number
                return place + len(form)
    return None


def _read_zone(text: str, place: int, found: _Found) -> int | None:
    match = _ZONE_TEXT.match(text, place)
    if match is None:
        return None
    found.zone = zone_of(match[0])
    return match.end()


def _moment(read: _Found, zone: tzinfo) -> int:
    found = read.numbers
    if found.get("G") == 0:
        raise ValueError("years before 1")
    local = datetime.combine(_date(found), datetime.min.time(), read.zone or zone)
    clock = timedelta(
        hours=_hour(found), minutes=found.get("m", 0), seconds=found.get("s", 0), milliseconds=found.get("S", 0)
    )
    return ms_of(local + clock)


def _date(found: dict[str, int]) -> date:
    year = found.get("y", found.get("Y", 1970))
    order = list(found)
    if "w" in found and not {"d", "D"} & found.keys():
        weekday = found["E"] if "E" in found else (found["u"] - 1) % 7 if "u" in found else SUNDAYS.first
        return SUNDAYS.day(found.get("Y", year), found["w"], weekday)
    if "D" in found and ("d" not in found or order.index("D") > order.index("d")):
        return date(year, 1, 1) + timedelta(days=found["D"] - 1)
    more, month = divmod(found.get("M", 1) - 1, 12)
    return date(year + more, month + 1, 1) + timedelta(days=found.get("d", 1) - 1)


def _hour(found: dict[str, int]) -> int:
    if "H" in found:
        return found["H"]
    if "k" in found:
        return found["k"] % 24
    half = found["K"] if "K" in found else found["h"] % 12 if "h" in found else 0
    return half + 12 * found.get("a", 0)


# ---- adding --------------------------------------------------------------------------------------------------------

_STEPS = {
    "SECOND": 1000,
    "MINUTE": 60_000,
    "HOUR": 3_600_000,
    "DAY": _DAY,
    "WEEK": 7 * _DAY,
}
_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}


def added(ms: int, amount: int, unit: str) -> int:
    """A timestamp moved by units; a day that the month reached does not have becomes its last one. Units that are none move nothing.

    >>> format_date("yyyy-MM-dd", added(parse_date("yyyy-MM-dd", "2024-01-31"), 1, "MONTH"))
    '2024-02-29'
    """
    if unit in _STEPS:
        return ms + amount * _STEPS[unit]
    if unit not in _MONTHS:
        return ms
    moment = at(ms)
    year, month = divmod(moment.year * 12 + moment.month - 1 + amount * _MONTHS[unit], 12)
    if not 1 <= year <= 9999:
        raise DateError(f"the year {year} is not in the years 1 to 9999")
    last = 31 if month == 11 else (date(year, month + 2, 1) - timedelta(days=1)).day
    return ms_of(moment.replace(year=year, month=month + 1, day=min(moment.day, last)))
