"""The namespace `reorder`: signatures of the stream processors that put events in the order of a time attribute.

Parameters are those of Siddhi's extension siddhi-execution-reorder 5.0; where it wants a long, an int will do. -1 stands for no timeout and no bound.
What they do is in `nadi.kernel.rows.processors.slack`.
"""

from __future__ import annotations

from nadi.functions.entries import Entry
from nadi.functions.signatures import NUMBERS, TIME, Arguments, Parameter, constant, match
from nadi.functions.streams import processor
from nadi.lang.tree import Type
from nadi.plan.catalog import Column, SignatureError

_TIMESTAMP = Parameter("timestamp", (Type.LONG,))
_TIMEOUT = constant("timeout", *TIME)
_MOST = constant("max.k", *TIME)
_DISCARD = constant("discard.late.arrival", Type.BOOL)
_ADAPTIVE = (
    _TIMESTAMP,
    Parameter("correlation.field", NUMBERS),
    constant("batch.size", *TIME),
    _TIMEOUT,
    _MOST,
    _DISCARD,
    constant("error.threshold", Type.DOUBLE),
    constant("confidence.level", Type.DOUBLE),
)
LEAST_BATCH = 15


def _check_slack(args: Arguments) -> tuple[Column, ...]:
    found = match(
        args,
        (_TIMESTAMP,),
        (_TIMESTAMP, _TIMEOUT),
        (_TIMESTAMP, _DISCARD),
        (_TIMESTAMP, _TIMEOUT, _MOST),
        (_TIMESTAMP, _TIMEOUT, _DISCARD),
        (_TIMESTAMP, _TIMEOUT, _MOST, _DISCARD),
    )
    _check_numbers(args, found)
    return ()


def _check_adaptive(args: Arguments) -> tuple[Column, ...]:
    found = match(args, *(_ADAPTIVE[:n] for n in (2, 3, 4, 5, 6, 8)))
    _check_numbers(args, found)
    return ()


def _check_numbers(args: Arguments, parameters: tuple[Parameter, ...]) -> None:
    for argument, parameter in zip(args, parameters, strict=True):
        value, name = argument.value, parameter.name
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            continue
        if name in ("timeout", "max.k") and value != -1 and value <= 0:
            raise SignatureError(f"'{name}' must be greater than 0, or -1 for none, it is {value}")
        if name == "batch.size" and value < LEAST_BATCH:
            raise SignatureError(f"'{name}' must be at least {LEAST_BATCH}, it is {value}")
        if name in ("error.threshold", "confidence.level") and not 0 < value < 1:
            raise SignatureError(f"'{name}' must lie between 0 and 1, it is {value}")


ENTRIES: tuple[Entry, ...] = (
    processor(
        "reorder:kslack",
        _check_slack,
        "Holds events back and gives them out in the order of a time, as late as the latest event was so far (K-slack).",
        ("timestamp", "timeout", "max.k", "discard.late.arrival"),
        "#reorder:kslack(eventTimestamp(), 5 sec) → ()",
    ),
    processor(
        "reorder:akslack",
        _check_adaptive,
        "Like kslack, but waits less where the aggregate of a field would hardly change (AQ-K-slack).",
        tuple(p.name for p in _ADAPTIVE),
        "#reorder:akslack(eventTimestamp(), given, 20) → ()",
    ),
)
