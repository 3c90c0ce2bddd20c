"""The namespace `throttler`: how WSO2's API Manager counts requests and tells who sends too many (semantics/windows.md#throttling)."""

from __future__ import annotations

from nadi.functions.entries import Entry
from nadi.functions.signatures import TIME, Arguments, Parameter, constant, match, non_negative, positive
from nadi.functions.streams import processor
from nadi.lang.tree import Type
from nadi.plan.catalog import Column

_TIME, _START = constant("window.time", *TIME), constant("start.time", *TIME)


def _batch(args: Arguments) -> tuple[Column, ...]:
    match(args, (_TIME,), (_TIME, _START))
    positive(args[0], "window.time")
    if len(args) == 2:
        non_negative(args[1], "start.time")
    return (Column("expiryTimeStamp", Type.LONG),)


def _state_change(args: Arguments) -> tuple[Column, ...]:
    match(args, (Parameter("key", (Type.STRING,)), Parameter("is.throttled", (Type.BOOL,))))
    return ()


ENTRIES: tuple[Entry, ...] = (
    processor(
        "throttler:timeBatch",
        _batch,
        "Lets events pass at once, with the end of their period as `expiryTimeStamp`; there all of the period expire.",
        ("window.time", "start.time"),
        "#throttler:timeBatch(1 min) → (1600000060000L)",
    ),
    processor(
        "throttler:emitOnStateChange",
        _state_change,
        "Drops events that are not throttled, where the one before them with the same key was not either.",
        ("key", "is.throttled"),
        "#throttler:emitOnStateChange('a', true) → ()",
    ),
)
