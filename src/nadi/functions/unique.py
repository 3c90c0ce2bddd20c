"""The namespace `unique`: signatures of the windows that hold one event per key, and of `unique:deduplicate` (semantics/windows.md#unique-windows).

Parameters are those of Siddhi's extension siddhi-execution-unique 5.0. A key is any expression of a plain type; `unique:ever` and `unique:first` take
several. What the windows do is in `nadi.kernel.rows.windows.unique`, the stream processor in `nadi.kernel.rows.processors.deduplicate`.
"""

from __future__ import annotations

from collections.abc import Callable

from nadi.functions.entries import Entry, WindowSpec
from nadi.functions.signatures import (
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
from nadi.functions.streams import processor
from nadi.lang.tree import Type
from nadi.plan.catalog import Column
from nadi.plan.windowtraits import (
    NOTHING,
    PASSING,
    STAGED_IN_JOINS,
    TIMED,
    UNIQUE_BATCHES,
    UNORDERED,
    Attributes,
    Resized,
    WindowTraits,
)

_PLAIN = (Type.STRING, Type.INT, Type.LONG, Type.FLOAT, Type.DOUBLE, Type.BOOL)
_KEY = Parameter("unique.key", _PLAIN)
_KEYS = Parameter("unique.key", _PLAIN, rest=True)
_LENGTH = constant("window.length", Type.INT)
_TIME = constant("window.time", *TIME)
_START = constant("start.time", *TIME)
_EXTERNAL = (
    _KEY,
    attribute("time.stamp", Type.LONG),
    _TIME,
    _START,
    constant("time.out", *TIME),
    constant("replace.time.stamp.with.batch.end.time", Type.BOOL),
)
_LASTING = ("window.time", "time.out", "time.interval")  # a period of nothing would never end

Check = Callable[[Arguments], None]


def _checked(*overloads: Overload, empty: bool = False) -> Check:
    """Fits one of the overloads; periods are longer than nothing, lengths too unless the window may be `empty`."""

    def check(args: Arguments) -> None:
        for parameter, argument in zip(match(args, *overloads), args, strict=True):
            if not argument.is_constant or parameter.name == "unique.key":
                continue
            if parameter.name in _LASTING or (parameter.name == "window.length" and not empty):
                positive(argument, parameter.name)
            elif parameter.name == "window.length":
                non_negative(argument, parameter.name)

    return check


def _deduplicated(args: Arguments) -> tuple[Column, ...]:
    _checked((_KEY, constant("time.interval", *TIME)))(args)
    return ()


_OF_TIME = ((_KEY, _TIME), (_KEY, _TIME, _START))

# What windows have in common that differ only in which event of a key they keep.
_LATEST = WindowTraits(
    timed=False,
    first=False,
    phase=0,
    sure=False,
    resized=Resized.RESET,
    attributes=Attributes.REFUSED,
    columns=UNORDERED,
)
_COUNTED_BATCH = WindowTraits(
    timed=False,
    first=False,
    phase=0,
    sure=False,
    resized=Resized.RESET,
    attributes=Attributes.REFUSED,
    columns=UNIQUE_BATCHES | STAGED_IN_JOINS,
)
_TIMED_BATCH = WindowTraits(
    timed=True,
    first=False,
    phase=2,
    sure=False,
    resized=Resized.RESET,
    attributes=Attributes.REFUSED,
    columns=UNIQUE_BATCHES | STAGED_IN_JOINS | TIMED,
)

ENTRIES: tuple[Entry, ...] = (
    WindowSpec(
        "unique:ever",
        _checked((_KEY, _KEYS)),
        "The latest event of each key, for ever.",
        traits=_LATEST,
    ),
    WindowSpec(
        "unique:first",
        _checked((_KEY, _KEYS)),
        "The first event of each key; later ones do not pass.",
        traits=WindowTraits(
            timed=False,
            first=False,
            phase=0,
            sure=False,
            resized=Resized.RESET,
            attributes=Attributes.REFUSED,
            columns=UNORDERED | PASSING,
        ),
    ),
    WindowSpec(
        "unique:length",
        _checked((_KEY, _LENGTH), empty=True),
        "The latest events of the last n keys.",
        traits=_LATEST,
    ),
    WindowSpec(
        "unique:time",
        _checked((_KEY, _TIME)),
        "The latest event of each key of the last t.",
        traits=WindowTraits(
            timed=True,
            first=False,
            phase=0,
            sure=False,
            resized=Resized.RESET,
            attributes=Attributes.REFUSED,
            columns=UNORDERED,
        ),
    ),
    WindowSpec(
        "unique:lengthBatch",
        _checked((_KEY, _LENGTH)),
        "Batches of n keys, the latest event of each.",
        traits=_COUNTED_BATCH,
        batch=True,
    ),
    WindowSpec(
        "unique:firstLengthBatch",
        _checked((_KEY, _LENGTH)),
        "Batches of n keys, the first event of each.",
        traits=_COUNTED_BATCH,
        batch=True,
    ),
    WindowSpec(
        "unique:timeBatch",
        _checked(*_OF_TIME),
        "Batches of t, the latest event of each key.",
        traits=_TIMED_BATCH,
        batch=True,
    ),
    WindowSpec(
        "unique:firstTimeBatch",
        _checked(*_OF_TIME),
        "Batches of t, the first event of each key.",
        traits=_TIMED_BATCH,
        batch=True,
    ),
    WindowSpec(
        "unique:timeLengthBatch",
        _checked((_KEY, _TIME, _LENGTH), (_KEY, _TIME, _START, _LENGTH)),
        "Batches of t or of n keys, whichever comes first, the latest event of each; after n keys the rest of the period is passed over.",
        traits=WindowTraits(
            timed=True,
            first=False,
            phase=3,
            sure=False,
            resized=Resized.RESET,
            attributes=Attributes.REFUSED,
            columns=NOTHING,
        ),
        batch=True,
    ),
    WindowSpec(
        "unique:externalTimeBatch",
        _checked(*(_EXTERNAL[:n] for n in range(3, 7))),
        "Batches of t by a time attribute, the latest event of each key.",
        traits=WindowTraits(
            timed=True,
            first=False,
            phase=0,
            sure=False,
            resized=Resized.RESET,
            attributes=Attributes.REFUSED,
            columns=NOTHING,
        ),
        batch=True,
    ),
    processor(
        "unique:deduplicate",
        _deduplicated,
        "Drops events whose key has passed within t before them.",
        ("unique.key", "time.interval"),
        "#unique:deduplicate(given, 30 sec) → ()",
    ),
)
