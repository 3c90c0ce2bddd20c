"""The namespace `time`: dates as text and timestamps in ms (patterns: see `javadates`).

The current time is the app's clock, never the machine's; without another zone times are GMT. A text that does not fit its pattern is an error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nadi.functions import javadates
from nadi.functions.declare import GIVEN, NULL, failed, scalar, text
from nadi.functions.entries import Entry, ScalarFunction
from nadi.functions.signatures import Arguments, Overload, Parameter, constant
from nadi.lang.tree import Type
from nadi.plan.catalog import SignatureError

DEFAULT, SECONDS, DATE = "yyyy-MM-dd HH:mm:ss.SSS", "yyyy-MM-dd HH:mm:ss", "yyyy-MM-dd"
_DAY = 86_400_000

_VALUE, _FORMAT = text("date.value"), text("date.format")
_MILLIS = Parameter("timestamp.in.milliseconds", (Type.LONG,))
_AMOUNT = Parameter("expr", (Type.INT,))
_UNIT = constant("unit", Type.STRING)
_LOCALE = constant("locale", Type.STRING)


def _guarded(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Dates that cannot be read are errors of the event."""

    def call(*values: Any) -> Any:
        try:
            return function(*values)
        except javadates.DateError as reason:
            raise failed(name, reason) from reason

    return call


def _constants_checked(result: Type, *patterns: int) -> Callable[[Arguments], Type]:
    """Refuses constant patterns that cannot be used, when the app is made."""

    def returns(args: Arguments) -> Type:
        for place in patterns:
            if place < len(args) and args[place].is_constant and args[place].type is Type.STRING:
                try:
                    javadates.fields_of(str(args[place].value))
                except javadates.DateError as reason:
                    raise SignatureError(str(reason)) from reason
        return result

    return returns


# ---- the clock -----------------------------------------------------------------------------------------------------


def _timestamp(now: int, zone: str | None = None) -> str:
    return javadates.format_date(SECONDS, now, javadates.zone_of("GMT" if zone is None else zone))


def _to_millis(now: int, value: str | None = None, *pattern: str | None) -> int | None:
    if value is None:
        return None if pattern else now  # as in Siddhi, a single null means now
    if pattern and pattern[0] is None:
        return None
    return javadates.parse_date(pattern[0] if pattern and pattern[0] else DEFAULT, value)


# ---- arithmetic ----------------------------------------------------------------------------------------------------


def _moved(sign: int) -> Callable[[Arguments, Type], Callable[..., Any]]:
    def make(args: Arguments, result: Type) -> Callable[..., Any]:
        unit = str(args[2].value).upper()

        def of_text(value: str, amount: int, _unit: str, pattern: str = DEFAULT) -> str:
            moved = javadates.added(javadates.parse_date(pattern, value), sign * amount, unit)
            return javadates.format_date(pattern, moved)

        def of_millis(value: int, amount: int, _unit: str) -> str:
            return str(javadates.added(value, sign * amount, unit))

        name = "time:dateAdd" if sign > 0 else "time:dateSub"
        return _guarded(name, of_millis if args[0].type is Type.LONG else of_text)

    return make


def _days_between(first: Any, second: Any, *patterns: str) -> int:
    if isinstance(first, str):
        left = patterns[0] if patterns else DEFAULT
        right = patterns[1] if len(patterns) > 1 else DEFAULT
        first, second = javadates.parse_date(left, first), javadates.parse_date(right, second)
    size: int = abs(first - second) // _DAY
    return size if first >= second else -size


# ---- parts ---------------------------------------------------------------------------------------------------------


def _reformatted(value: Any, target: str, source: str = DEFAULT) -> str:
    ms = javadates.parse_date(source, value) if isinstance(value, str) else value
    return javadates.format_date(target, ms)


def _day_of_week(value: str, *pattern: str) -> str:
    ms = javadates.parse_date(pattern[0], value) if pattern else javadates.parse_date(DATE, value)
    return javadates.format_date("EEEE", ms)


def _extract_type(args: Arguments) -> Type:
    by_millis = args[0].type is Type.LONG
    if not args[1 if by_millis else 0].is_constant:
        raise SignatureError("'unit' must be a constant")
    locale = args[2:3] if by_millis else args[3:4]
    if locale:
        try:
            javadates.weeks_of(str(locale[0].value))
        except javadates.DateError as reason:
            raise SignatureError(str(reason)) from reason
    return Type.INT


def _make_extract(args: Arguments, result: Type) -> Callable[..., Any]:
    by_millis = args[0].type is Type.LONG
    unit = str(args[1 if by_millis else 0].value).upper()
    locale = args[2:3] if by_millis else args[3:4]
    weeks = javadates.weeks_of(str(locale[0].value)) if locale else javadates.SUNDAYS

    def part(ms: int) -> int:
        moment = javadates.at(ms)
        match unit:
            case "YEAR" | "MONTH" | "DAY" | "HOUR" | "MINUTE" | "SECOND":
                return int(getattr(moment, unit.lower()))
            case "WEEK":
                return weeks.week(moment.date())[1]
            case "QUARTER":
                return (moment.month - 1) // 3 + 1
            case _:
                return 0

    def of_text(_unit: str, value: str, pattern: str = DEFAULT, _locale: str = "") -> int:
        return part(javadates.parse_date(pattern, value))

    return _guarded("time:extract", (lambda ms, *_: part(ms)) if by_millis else of_text)


def _converted(value: str, pattern: str, target: str, source: str = "GMT") -> str:
    ms = javadates.parse_date(pattern, value, javadates.zone_of(source))
    return javadates.format_date(pattern, ms, javadates.zone_of(target))


# ---- entries -------------------------------------------------------------------------------------------------------


def _entry(
    name: str,
    doc: str,
    examples: tuple[str, ...],
    result: Type,
    overloads: list[Overload],
    function: Callable[..., Any],
    nulls: str = NULL,
    patterns: tuple[int, ...] = (),
    clock: bool = False,
) -> ScalarFunction:
    full = f"time:{name}"
    needs = ("now",) if clock else ()
    checked = _constants_checked(result, *patterns)
    return scalar(full, doc, examples, checked, overloads, _guarded(full, function), nulls=nulls, needs=needs)


_S = Type.STRING

ENTRIES: tuple[Entry, ...] = (
    _entry(
        "currentDate",
        "The app's clock as `yyyy-MM-dd`.",
        ("time:currentDate() → '2020-09-13'",),
        _S,
        [()],
        lambda now: javadates.format_date(DATE, now),
        clock=True,
    ),
    _entry(
        "currentTime",
        "The app's clock as `HH:mm:ss`.",
        ("time:currentTime() → '12:26:40'",),
        _S,
        [()],
        lambda now: javadates.format_date("HH:mm:ss", now),
        clock=True,
    ),
    _entry(
        "currentTimestamp",
        "The app's clock as `yyyy-MM-dd HH:mm:ss`, in a zone if one is given.",
        (
            "time:currentTimestamp() → '2020-09-13 12:26:40'",
            "time:currentTimestamp('Asia/Kolkata') → '2020-09-13 17:56:40'",
        ),
        _S,
        [(), (text("timezone"),)],
        _timestamp,
        GIVEN,
        clock=True,
    ),
    _entry(
        "date",
        "The day of a date, as `yyyy-MM-dd`.",
        ("time:date('2014/11/11 13:23:44', 'yyyy/MM/dd HH:mm:ss') → '2014-11-11'",),
        _S,
        [(_VALUE,), (_VALUE, _FORMAT)],
        lambda value, pattern=DEFAULT: _reformatted(value, DATE, pattern),
        patterns=(1,),
    ),
    scalar(
        "time:dateAdd",
        "A date some units later, in its format; of a timestamp the timestamp as text. Units: YEAR, QUARTER, MONTH, WEEK, DAY, HOUR, MINUTE, SECOND.",
        (
            "time:dateAdd('2014-11-11 13:23:44.657', 5, 'YEAR') → '2019-11-11 13:23:44.657'",
            "time:dateAdd(1415712224000L, 1, 'HOUR') → '1415715824000'",
        ),
        _constants_checked(_S, 3),
        [(_VALUE, _AMOUNT, _UNIT), (_VALUE, _AMOUNT, _UNIT, _FORMAT), (_MILLIS, _AMOUNT, _UNIT)],
        make=_moved(1),
        nulls=NULL,
    ),
    _entry(
        "dateDiff",
        "How many whole days the first date is after the second; null if one is null.",
        (
            "time:dateDiff('2014-11-13', '2014-11-9 13:23:44', 'yyyy-MM-dd', 'yyyy-MM-dd HH:mm:ss') → 3L",
            "time:dateDiff(1415692424000L, 1412841224000L) → 33L",
        ),
        Type.LONG,
        [
            (text("date.value1"), text("date.value2")),
            (text("date.value1"), text("date.value2"), text("date.format1")),
            (text("date.value1"), text("date.value2"), text("date.format1"), text("date.format2")),
            (_MILLIS, _MILLIS),
        ],
        _days_between,
        patterns=(2, 3),
    ),
    _entry(
        "dateFormat",
        "A date in another format; the source format is `yyyy-MM-dd HH:mm:ss.SSS` if none is given.",
        (
            "time:dateFormat('2014/11/11 13:23:44', 'mm:ss', 'yyyy/MM/dd HH:mm:ss') → '23:44'",
            "time:dateFormat(1415692424000L, 'yyyy-MM-dd') → '2014-11-11'",
        ),
        _S,
        [
            (_VALUE, text("date.target.format")),
            (_VALUE, text("date.target.format"), text("date.source.format")),
            (_MILLIS, text("date.target.format")),
        ],
        _reformatted,
        patterns=(1, 2),
    ),
    scalar(
        "time:dateSub",
        "A date some units earlier, in its format; of a timestamp the timestamp as text.",
        (
            "time:dateSub('2014-03-31', 1, 'MONTH', 'yyyy-MM-dd') → '2014-02-28'",
            "time:dateSub(1415712224000L, 1, 'HOUR') → '1415708624000'",
        ),
        _constants_checked(_S, 3),
        [(_VALUE, _AMOUNT, _UNIT), (_VALUE, _AMOUNT, _UNIT, _FORMAT), (_MILLIS, _AMOUNT, _UNIT)],
        make=_moved(-1),
        nulls=NULL,
    ),
    _entry(
        "dayOfWeek",
        "The name of the day.",
        ("time:dayOfWeek('2014/12/11 13:23:44', 'yyyy/MM/dd HH:mm:ss') → 'Thursday'",),
        _S,
        [(_VALUE,), (_VALUE, _FORMAT)],
        _day_of_week,
        patterns=(1,),
    ),
    scalar(
        "time:extract",
        "One unit of a date, as a number; the locale decides how weeks are counted.",
        (
            "time:extract('YEAR', '2019/11/11 13:23:44.657', 'yyyy/MM/dd HH:mm:ss.SSS') → 2019",
            "time:extract(1394556804000L, 'HOUR') → 16",
            "time:extract(1394556804000L, 'WEEK', 'fr_FR') → 11",
        ),
        _extract_type,
        [
            (text("unit"), _VALUE),
            (text("unit"), _VALUE, _FORMAT),
            (text("unit"), _VALUE, _FORMAT, _LOCALE),
            (_MILLIS, _UNIT),
            (_MILLIS, _UNIT, _LOCALE),
        ],
        make=_make_extract,
    ),
    _entry(
        "timestampInMilliseconds",
        "The timestamp of a date; the app's clock without one, or for null.",
        (
            "time:timestampInMilliseconds() → 1600000000000L",
            "time:timestampInMilliseconds('2007-11-30 10:30:19.000') → 1196418619000L",
            "time:timestampInMilliseconds('2007-11-30 10:30 +0530', 'yyyy-MM-dd HH:mm Z') → 1196398800000L",
        ),
        Type.LONG,
        [(), (_VALUE,), (_VALUE, _FORMAT)],
        _to_millis,
        GIVEN,
        (1,),
        clock=True,
    ),
    _entry(
        "timezoneConvert",
        "A date in another zone, in the same format; the source zone is GMT if none is given.",
        ("time:timezoneConvert('2014/11/11 13:23:44', 'yyyy/MM/dd HH:mm:ss', 'UTC', 'IST') → '2014/11/11 07:53:44'",),
        _S,
        [
            (_VALUE, text("date.source.format"), text("target.timezone")),
            (_VALUE, text("date.source.format"), text("target.timezone"), text("source.timezone")),
        ],
        _converted,
        patterns=(1,),
    ),
    _entry(
        "utcTimestamp",
        "The app's clock in UTC, as `yyyy-MM-dd HH:mm:ss` or in a format.",
        ("time:utcTimestamp() → '2020-09-13 12:26:40'", "time:utcTimestamp('HH:mm') → '12:26'"),
        _S,
        [(), (_FORMAT,)],
        lambda now, pattern=SECONDS: javadates.format_date(pattern or SECONDS, now),
        GIVEN,
        (0,),
        clock=True,
    ),
)
