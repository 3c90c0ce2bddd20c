"""The built-in stream functions (semantics/events.md#stream-functions), and how stream processors are declared."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import Any

from nadi.errors import error
from nadi.errors.readable import readable
from nadi.functions.arithmetic import java_text
from nadi.functions.entries import StreamFunctionSpec
from nadi.functions.signatures import Arguments, Parameter, constant, match
from nadi.lang.tree import Type
from nadi.plan.catalog import Column, SignatureError

_LEVELS = {
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "WARN": logging.WARNING,
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "OFF": logging.NOTSET,
    "TRACE": logging.DEBUG,
}
LOGGER = logging.getLogger("nadi.log")


def _check_log(args: Arguments) -> tuple[Column, ...]:
    priority, message = constant("priority", Type.STRING), Parameter("log.message", (Type.STRING,))
    logged = constant("is.event.logged", Type.BOOL)
    match(args, (), (message,), (logged,), (message, logged), (priority, message), (priority, message, logged))
    if _has_priority(tuple(a.type for a in args)) and str(args[0].value).upper() not in _LEVELS:
        raise SignatureError(f"'{args[0].value}' is not a priority; priorities are {', '.join(_LEVELS)}")
    return ()


def _has_priority(types: tuple[Type, ...]) -> bool:
    return types[:2] == (Type.STRING, Type.STRING)


def _make_log(types: tuple[Type, ...]) -> Callable[[tuple[Any, ...]], tuple[Any, ...] | None]:
    """Writes to the logger `nadi.log`; who runs the app decides where that goes."""
    has_priority = _has_priority(types)

    def log(values: tuple[Any, ...]) -> tuple[Any, ...]:
        level = _LEVELS[str(values[0]).upper()] if has_priority else logging.INFO
        texts = [java_text(v) for v, t in zip(values, types, strict=True) if t is Type.STRING]
        if level:
            LOGGER.log(level, "%s", readable(texts[-1]) if texts else "")
        return ()

    return log


def _check_polar(args: Arguments) -> tuple[Column, ...]:
    double = (Type.DOUBLE,)
    theta, rho, z = Parameter("theta", double), Parameter("rho", double), Parameter("z", double)
    match(args, (theta, rho), (theta, rho, z))
    names = ("x", "y", "z")[: len(args)]
    return tuple(Column(n, Type.DOUBLE) for n in names)


def _make_polar(types: tuple[Type, ...]) -> Callable[[tuple[Any, ...]], tuple[Any, ...] | None]:
    def cartesian(values: tuple[Any, ...]) -> tuple[Any, ...]:
        if None in values:
            raise error("NULL_VALUE", where=f"parameter {values.index(None) + 1} of 'pol2Cart'")
        theta, rho = math.radians(values[0]), values[1]
        if not math.isfinite(theta):  # there is no sine of it; Java's is no number either
            return (math.nan, math.nan, *values[2:])
        return (rho * math.cos(theta), rho * math.sin(theta), *values[2:])

    return cartesian


def processor(
    name: str, adds: Callable[[Arguments], tuple[Column, ...]], doc: str, parameters: tuple[str, ...], example: str
) -> StreamFunctionSpec:
    """A stream processor: stands where a stream function does, but keeps state and may hold events back.

    Its work is in the kernel, under the same name (`nadi.kernel.rows.processors`): who asks for a function of values instead, as patterns do, gets
    NOT_SUPPORTED.
    """

    def make(types: tuple[Type, ...]) -> Callable[[tuple[Any, ...]], Any]:
        raise error(
            "NOT_SUPPORTED", what=f"'{name}', which keeps events, in this place", alternative="a query before it"
        )

    return StreamFunctionSpec(name, adds, make, doc, parameters, (example,))


STREAM_FUNCTIONS: tuple[StreamFunctionSpec, ...] = (
    StreamFunctionSpec(
        "log",
        _check_log,
        _make_log,
        "Logs a message for each event.",
        ("priority", "log.message", "is.event.logged"),
        ("#log('INFO', 'an order came') → ()",),
    ),
    StreamFunctionSpec(
        "pol2Cart",
        _check_polar,
        _make_polar,
        "Adds the Cartesian coordinates of a point given by angle (degrees) and distance.",
        ("theta", "rho", "z"),
        ("#pol2Cart(0.0, 5.0) → (5.0, 0.0)",),
    ),
)
