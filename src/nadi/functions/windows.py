"""The signatures of the windows (semantics/windows.md). What they do is in `nadi.kernel.rows.windows`."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from nadi.functions.entries import WindowSpec
from nadi.functions.signatures import (
    NUMBERS,
    TIME,
    Arguments,
    Overload,
    Parameter,
    attribute,
    constant,
    match,
    non_negative,
    positive,
)
from nadi.lang.tree import Type
from nadi.plan.catalog import SignatureError
from nadi.plan.cron import next_fire
from nadi.plan.windowtraits import (
    BATCHES,
    DELAYS,
    EXPIRING,
    EXTERNAL,
    HANDED,
    HOARDING,
    NOTHING,
    OF_BATCH,
    OF_TIME_BATCH,
    PASSING,
    SHOWN,
    SLIDING,
    STAGED_IN_JOINS,
    STARTING,
    TIMED,
    TIMED_IN_JOINS,
    UNORDERED,
    Attributes,
    Resized,
    WindowTraits,
)

_LENGTH = constant("window.length", Type.INT)
_TIME = constant("window.time", *TIME)
_START = constant("start.time", *TIME)
_STREAM_CURRENT = constant("stream.current.event", Type.BOOL)
_TIMESTAMP = attribute("timestamp", Type.LONG)
_SORTABLE = (*NUMBERS, Type.STRING)

Check = Callable[[Arguments], None]


def _sizes(*overloads: Overload) -> Check:
    """Fits one of the overloads, and no number among the constants is negative."""

    def check(args: Arguments) -> None:
        for parameter, argument in zip(match(args, *overloads), args, strict=True):
            if argument.is_constant:
                non_negative(argument, parameter.name)

    return check


def _periods(*overloads: Overload) -> Check:
    """Like `_sizes`, and a period (window.time, timeout) is longer than nothing: its end would never come."""

    def check(args: Arguments) -> None:
        for parameter, argument in zip(match(args, *overloads), args, strict=True):
            if argument.is_constant and parameter.name in ("window.time", "timeout"):
                positive(argument, parameter.name)

    return check


def _check_external_batch(args: Arguments) -> None:
    start = Parameter("start.time", TIME)
    timeout = constant("timeout", *TIME)
    replace = constant("replace.with.batchtime", Type.BOOL)
    full = (_TIMESTAMP, _TIME, start, timeout, replace)
    _periods(*(full[:n] for n in range(2, 6)))(args)
    if len(args) > 2 and not args[2].is_constant and args[2].attribute is None:
        raise SignatureError("'start.time' must be a constant or an attribute, not an expression")
    if len(args) > 2 and not args[2].is_constant and args[2].type is not Type.LONG:
        raise SignatureError(f"'start.time' must be long where it is an attribute, not {args[2].type}")


def _check_session(args: Arguments) -> None:
    gap, key = constant("window.session", Type.LONG), attribute("window.key", Type.STRING)
    latency = constant("window.allowed.latency", Type.LONG)
    _sizes((gap,), (gap, key), (gap, key, latency))(args)
    if len(args) == 3 and _number(args, 2) > _number(args, 0):
        raise SignatureError("'window.allowed.latency' must not be greater than 'window.session'")


def _number(args: Arguments, index: int) -> float:
    value = args[index].value
    return value if isinstance(value, (int, float)) else 0


def _check_sort(args: Arguments) -> None:
    if not args:
        raise SignatureError("takes (<int> window.length, attribute [, 'asc'|'desc'], …), found no parameters")
    match(args[:1], (_LENGTH,))
    non_negative(args[0], "window.length")
    if len(args) < 2:
        raise SignatureError("needs at least one attribute to sort by")
    for before, argument in itertools.pairwise(args):
        if argument.is_constant:
            if str(argument.value).lower() not in ("asc", "desc") or before.attribute is None:
                raise SignatureError(f"an attribute may be followed by 'asc' or 'desc', found {argument.value!r}")
        elif argument.attribute is None:
            raise SignatureError("sorts by attributes, not by expressions")
        elif argument.type not in _SORTABLE:
            raise SignatureError(f"sorts by numbers and texts, not by a {argument.type} as '{argument.attribute}'")


def _check_frequent(args: Arguments) -> None:
    match(args, (constant("event.count", Type.INT), attribute("attribute", rest=True)))
    positive(args[0], "event.count")


def _check_lossy(args: Arguments) -> None:
    support, bound = constant("support.threshold", Type.DOUBLE), constant("error.bound", Type.DOUBLE)
    rest = attribute("attribute", rest=True)
    match(args, (support,), (support, bound, rest))
    for argument, name in zip(args[:2], ("support.threshold", "error.bound"), strict=False):
        if argument.is_constant and not 0 < _number((argument,), 0) <= 1:
            raise SignatureError(f"'{name}' must be above 0 and at most 1, it is {argument.value}")


def _check_expression(*more: Parameter) -> Check:
    expression = Parameter("expression", (Type.STRING,))

    def check(args: Arguments) -> None:
        full = (expression, *more)
        match(args, *(full[:n] for n in range(1, len(full) + 1)))
        if not args[0].is_constant and args[0].attribute is None:
            raise SignatureError("'expression' must be a constant text or a string attribute")

    return check


def _check_cron(args: Arguments) -> None:
    match(args, (constant("cron.expression", Type.STRING),))
    next_fire(str(args[0].value), 0)


WINDOWS: tuple[WindowSpec, ...] = (
    WindowSpec(
        "length",
        _sizes((_LENGTH,)),
        "The last n events.",
        traits=WindowTraits(
            timed=False,
            first=False,
            phase=0,
            sure=True,
            resized=Resized.ROOM,
            attributes=Attributes.TAKEN,
            columns=SLIDING | EXPIRING | SHOWN | HANDED,
        ),
    ),
    WindowSpec(
        "lengthBatch",
        _sizes((_LENGTH,), (_LENGTH, _STREAM_CURRENT)),
        "Batches of n events.",
        traits=WindowTraits(
            timed=False,
            first=False,
            phase=0,
            sure=True,
            resized=Resized.ROOM,
            attributes=Attributes.TAKEN,
            columns=BATCHES | STAGED_IN_JOINS | HOARDING | SHOWN,
        ),
        batch=True,
    ),
    WindowSpec(
        "time",
        _sizes((_TIME,)),
        "The events of the last t.",
        traits=WindowTraits(
            timed=True,
            first=False,
            phase=0,
            sure=True,
            resized=Resized.TIME,
            attributes=Attributes.TAKEN,
            columns=SLIDING | EXPIRING | SHOWN | HANDED,
        ),
    ),
    WindowSpec(
        "timeBatch",
        _periods((_TIME,), (_TIME, _START), (_TIME, _STREAM_CURRENT), (_TIME, _START, _STREAM_CURRENT)),
        "Batches of t.",
        traits=OF_TIME_BATCH,
        batch=True,
    ),
    WindowSpec(
        "timeLength",
        _sizes((_TIME, _LENGTH)),
        "The last n events of the last t.",
        traits=WindowTraits(
            timed=True,
            first=False,
            phase=0,
            sure=True,
            resized=Resized.TIME,
            attributes=Attributes.TAKEN,
            columns=SLIDING | TIMED_IN_JOINS | HANDED,
        ),
    ),
    WindowSpec(
        "externalTime",
        _sizes((_TIMESTAMP, _TIME)),
        "The events of the last t by a time attribute.",
        traits=WindowTraits(
            timed=False,
            first=False,
            phase=0,
            sure=False,
            resized=Resized.ANY,
            attributes=Attributes.TAKEN,
            columns=SLIDING | EXPIRING | EXTERNAL | SHOWN,
        ),
    ),
    WindowSpec(
        "externalTimeBatch",
        _check_external_batch,
        "Batches of t by a time attribute.",
        traits=WindowTraits(
            timed=True,
            first=False,
            phase=0,
            sure=False,
            resized=Resized.RESET,
            attributes=Attributes.TAKEN,
            columns=BATCHES | STAGED_IN_JOINS | EXTERNAL | STARTING | SHOWN,
        ),
        batch=True,
    ),
    WindowSpec("batch", _sizes((), (_LENGTH,)), "The events that arrived together.", traits=OF_BATCH, batch=True),
    WindowSpec(
        "session",
        _check_session,
        "Events of a key that follow each other within a gap.",
        traits=WindowTraits(
            timed=True,
            first=False,
            phase=0,
            sure=False,
            resized=Resized.RESET,
            attributes=Attributes.TAKEN,
            columns=UNORDERED | PASSING,
        ),
    ),
    WindowSpec(
        "delay",
        _sizes((constant("window.delay", *TIME),)),
        "Holds events back for t.",
        traits=WindowTraits(
            timed=True,
            first=False,
            phase=0,
            sure=True,
            resized=Resized.TIME,
            attributes=Attributes.TAKEN,
            columns=DELAYS | TIMED,
        ),
    ),
    WindowSpec(
        "sort",
        _check_sort,
        "The n least events in an order.",
        traits=WindowTraits(
            timed=False,
            first=False,
            phase=0,
            sure=False,
            resized=Resized.ROOM,
            attributes=Attributes.TAKEN,
            columns=UNORDERED,
        ),
    ),
    WindowSpec(
        "frequent",
        _check_frequent,
        "The latest events of the most frequent keys (Misra-Gries).",
        traits=WindowTraits(
            timed=False,
            first=False,
            phase=0,
            sure=False,
            resized=Resized.RESET,
            attributes=Attributes.KEYS,
            columns=NOTHING,
        ),
    ),
    WindowSpec(
        "lossyFrequent",
        _check_lossy,
        "The latest events of keys above a share (lossy counting).",
        traits=WindowTraits(
            timed=False,
            first=False,
            phase=0,
            sure=False,
            resized=Resized.RESET,
            attributes=Attributes.KEYS,
            columns=NOTHING,
        ),
    ),
    WindowSpec(
        "expression",
        _check_expression(),
        "The newest events for which an expression holds.",
        traits=WindowTraits(
            timed=False,
            first=False,
            phase=0,
            sure=False,
            resized=Resized.RESET,
            attributes=Attributes.REFUSED,
            columns=NOTHING,
        ),
        conditional=True,
    ),
    WindowSpec(
        "expressionBatch",
        _check_expression(Parameter("include.triggering.event", (Type.BOOL,)), _STREAM_CURRENT),
        "Batches that end when an expression fails.",
        traits=WindowTraits(
            timed=False,
            first=False,
            phase=0,
            sure=False,
            resized=Resized.RESET,
            attributes=Attributes.REFUSED,
            columns=NOTHING,
        ),
        batch=True,
        cancels=True,
        conditional=True,
    ),
    WindowSpec(
        "cron",
        _check_cron,
        "Batches by a cron expression.",
        traits=WindowTraits(
            timed=True,
            first=True,
            phase=0,
            sure=False,
            resized=Resized.RESET,
            attributes=Attributes.TAKEN,
            columns=NOTHING,
        ),
        batch=True,
    ),
)
