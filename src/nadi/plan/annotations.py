"""Annotations: looking them up, and the times, numbers and truth values in them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from nadi.errors import NadiError, nearest
from nadi.lang.tree import Annotation, Element, Partition, SiddhiApp
from nadi.plan.context import Context
from nadi.plan.nodes import Playback

_SECOND = 1000
_UNITS = (
    ("year", 365 * 86400 * _SECOND),
    ("month", 30 * 86400 * _SECOND),
    ("week", 7 * 86400 * _SECOND),
    ("day", 86400 * _SECOND),
    ("hour", 3600 * _SECOND),
    ("min", 60 * _SECOND),
    ("minute", 60 * _SECOND),
    ("sec", _SECOND),
    ("second", _SECOND),
    ("millisec", 1),
    ("millisecond", 1),
)
_MILLISECONDS = {name + plural: ms for name, ms in _UNITS for plural in ("", "s")}
_ONCE = frozenset(
    [
        "info",
        "synchronized",
        "async",
        "onerror",
        "store",
        "purge",
        "app:name",
        "app:playback",
        "app:statistics",
        "app:enforceorder",
        "app:spark",
    ]
)
"""Annotations of which Siddhi reads one. Others may be repeated (@source, @index), are passed over, or say so themselves (@primaryKey)."""
POOLS = ("own", "shared")
"""The values of `pool` in `@app:spark`."""
MOST_BUCKETS = 128
"""As many as there are key-groups: a bucket has one at least."""
_AMOUNT = re.compile(r"\s*(\d+)\s*([A-Za-z]+)\s*")


def found(annotations: tuple[Annotation, ...], name: str) -> tuple[Annotation, ...]:
    """All annotations of a name (no case)."""
    return tuple(a for a in annotations if a.name.lower() == name.lower())


def first(annotations: tuple[Annotation, ...], name: str) -> Annotation | None:
    """The first annotation of a name (no case), None where there is none."""
    return next(iter(found(annotations, name)), None)


def element(annotation: Annotation, key: str) -> Element | None:
    """The element of a key (no case)."""
    return next((e for e in annotation.elements if e.key.lower() == key.lower()), None)


def repeated_annotations(context: Context, app: SiddhiApp) -> list[NadiError]:
    """An error (DUPLICATE_ANNOTATION) for each annotation, or key in one, that counts once and is given again."""
    places: list[tuple[Annotation, ...]] = [app.annotations, *(d.annotations for d in app.definitions)]
    for element in app.elements:
        places.append(element.annotations)
        if isinstance(element, Partition):
            places.extend(q.annotations for q in element.queries)
    return [error for annotations in places for error in _repeated(context, annotations)]


def _repeated(context: Context, annotations: tuple[Annotation, ...]) -> Iterator[NadiError]:
    names: set[str] = set()
    for annotation in annotations:
        name = annotation.name.lower()
        if name not in _ONCE:
            continue
        if name in names:
            yield context.fail("DUPLICATE_ANNOTATION", annotation.span, what=f"@{annotation.name}")
        names.add(name)
        keys: set[str] = set()
        for e in annotation.elements if name == "info" or name.startswith("app:") else ():
            if e.key.lower() in keys:
                what = f"'{e.key}' of @{annotation.name}" if e.key else f"the value of @{annotation.name}"
                yield context.fail("DUPLICATE_ANNOTATION", e.span, what=what)
            keys.add(e.key.lower())


def time_of(context: Context, given: Element, of: Annotation | None = None) -> int:
    """The time in an element such as `interval='2 sec'`, in ms.

    Raises:
        SYNTAX: it is not a time; ANNOTATION_REJECTED where the annotation is given, as Siddhi reads the times of @purge later than all others.
    """
    total, position = 0, 0
    while position < len(given.value):
        part = _AMOUNT.match(given.value, position)
        if part is None or part[2].lower() not in _MILLISECONDS:
            break
        total += int(part[1]) * _MILLISECONDS[part[2].lower()]
        position = part.end()
    if position == 0 or position < len(given.value):
        expected = "a time with its unit, such as '2 sec'"
        if of is not None:
            reason = f"'{given.value}' is not {expected}"
            raise context.fail("ANNOTATION_REJECTED", given.span, name=of.name, reason=reason)
        raise context.fail("SYNTAX", given.span, found=f"'{given.value}'", expected=expected)
    return total


def is_true(annotation: Annotation, key: str, default: bool = True) -> bool:
    """The truth value of an element."""
    return (annotation.get(key) or ("true" if default else "false")).lower() == "true"


def check_positive(context: Context, annotation: Annotation, key: str) -> None:
    """A number of an annotation must be an int above 0, where it is given.

    Raises:
        INVALID_ANNOTATION: it is not.
    """
    given = element(annotation, key)
    if given is not None and not (given.value.strip().isdigit() and int(given.value) > 0):
        reason = f"{key} must be a number greater than 0, not '{given.value}'"
        raise context.fail("INVALID_ANNOTATION", given.span, name=annotation.name, reason=reason)


# ---- the app's own -------------------------------------------------------------------------------------------------


def compatibility(context: Context, annotations: tuple[Annotation, ...]) -> int:
    """From `@app:compat('4')`: 5 where none is given."""
    given = first(annotations, "app:compat")
    if given is None:
        return 5
    if given.get() not in ("4", "5"):
        raise context.fail(
            "INVALID_ANNOTATION", given.span, name=given.name, reason=f"it takes '4' or '5', not '{given.get() or ''}'"
        )
    return int(given.get() or "5")


def playback(context: Context, annotations: tuple[Annotation, ...]) -> Playback | None:
    """From `@app:playback(idle.time='100 millisec', increment='2 sec')`: both or none (semantics/text.md#annotations)."""
    given = first(annotations, "app:playback")
    if given is None:
        return None
    for e in given.elements:
        if e.key.lower() not in ("idle.time", "increment"):
            reason = f"it takes idle.time and increment, not '{e.key or e.value}'"
            raise context.fail("ANNOTATION_REJECTED", e.span, name=given.name, reason=reason)
    idle, increment = element(given, "idle.time"), element(given, "increment")
    if (idle is None) != (increment is None):
        missing = "increment" if increment is None else "idle.time"
        reason = f"idle.time and increment belong together, {missing} is missing"
        raise context.fail("ANNOTATION_REJECTED", given.span, name=given.name, reason=reason)
    if idle is None or increment is None:
        return Playback()
    return Playback(time_of(context, idle), time_of(context, increment))


def on_spark(context: Context, annotations: tuple[Annotation, ...]) -> tuple[str, int]:
    """From `@app:spark(pool='own', buckets='4')`: "own", "shared", or "" where nothing is said; and the number of buckets, 0 where nothing is said."""
    given = first(annotations, "app:spark")
    if given is None:
        return "", 0
    for e in given.elements:
        if e.key.lower() not in ("pool", "buckets"):
            reason = f"it takes pool and buckets, not '{e.key or e.value}'"
            raise context.fail("INVALID_ANNOTATION", e.span, name=given.name, reason=reason)
    wanted, number = element(given, "pool"), element(given, "buckets")
    if wanted is None and number is None:
        raise context.fail("INVALID_ANNOTATION", given.span, name=given.name, reason="it needs pool or buckets")
    pool = "" if wanted is None else _pool(context, given, wanted)
    return pool, 0 if number is None else _buckets(context, given, number)


def _pool(context: Context, given: Annotation, wanted: Element) -> str:
    if wanted.value.lower() not in POOLS:
        near = nearest(wanted.value, POOLS)
        hint = f": did you mean '{near}'?" if near else ""
        reason = f"pool is 'own' or 'shared', not '{wanted.value}'{hint}"
        raise context.fail("INVALID_ANNOTATION", wanted.span, name=given.name, reason=reason)
    return wanted.value.lower()


def _buckets(context: Context, given: Annotation, number: Element) -> int:
    text = number.value.strip()
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= MOST_BUCKETS):
        reason = f"buckets is a number from 1 to {MOST_BUCKETS}, not '{number.value}'"
        raise context.fail("INVALID_ANNOTATION", number.span, name=given.name, reason=reason)
    return int(text)


def check_app(context: Context, annotations: tuple[Annotation, ...]) -> None:
    """What may not stand in front of an app."""
    rejected = first(annotations, "app:async")
    if rejected is not None:
        reason = "it is not allowed for a whole app, put @async in front of the streams that need it"
        raise context.fail("INVALID_ANNOTATION", rejected.span, name=rejected.name, reason=reason)
