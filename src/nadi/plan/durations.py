"""Durations of incremental aggregations, and the ranges over which they are read (semantics/aggregations.md#buckets)."""

from __future__ import annotations

import re

from nadi.errors import Span
from nadi.lang.tree import Type
from nadi.plan.context import Context
from nadi.plan.nodes import Const, Expr

DURATIONS = ("sec", "min", "hour", "day", "month", "year")
"""The durations, finest first."""

_WORDS = {
    "second": "sec",
    "minute": "min",
    **{d: d for d in DURATIONS},
}
_STAMP = re.compile(
    r"(?:\d{4}|\*{4})-(?:\d\d|\*\*)-(?:\d\d|\*\*) (?:\d\d|\*\*):(?:\d\d|\*\*):(?:\d\d|\*\*)(?: ?[+-]\d\d:\d\d)?"
)
_WILD_TAIL = re.compile(r"[^*]*(?:\*+[-: ]?)*(?: ?[+-]\d\d:\d\d)?")


def duration_of(word: str) -> str | None:
    """The duration that a word such as "seconds", "sec" or "Hours" means; None for other words.

    >>> duration_of("Minutes")
    'min'
    """
    word = word.strip().lower()
    return _WORDS.get(word) or _WORDS.get(word.removesuffix("s"))


def per_of(context: Context, per: Const, durations: tuple[str, ...], span: Span) -> Const:
    """A constant `per`, as a duration of the aggregation.

    Raises:
        INVALID_QUERY: it is no duration, or none that the aggregation keeps.
    """
    found = duration_of(per.value) if isinstance(per.value, str) else None
    if found not in durations or found is None:
        reason = f"'per' takes a duration that the aggregation keeps ({', '.join(durations)}), not '{per.value}'"
        raise context.fail("INVALID_QUERY", span, reason=reason)
    return Const(found, Type.STRING)


def check_within(context: Context, within: tuple[Expr, ...], span: Span) -> None:
    """Constant ranges are checked here; what comes from attributes is checked when it is read.

    Raises:
        INVALID_QUERY: a single time is no range, wildcards stand before digits, or the start is not before the end.
    """
    for bound in within:
        if bound.type not in (Type.STRING, Type.LONG, Type.INT):
            raise context.fail("INVALID_QUERY", span, reason=f"'within' takes longs and strings, not a {bound.type}")
        if isinstance(bound, Const) and isinstance(bound.value, str):
            _check_stamp(context, bound.value, alone=len(within) == 1, span=span)
    if len(within) == 1 and within[0].type is not Type.STRING:
        reason = "'within' with one value takes a text with wildcards such as '2024-06-** **:**:**', or two values"
        raise context.fail("INVALID_QUERY", span, reason=reason)
    values = [b.value for b in within if isinstance(b, Const)]
    if len(values) == 2 and type(values[0]) is type(values[1]) and str(values[0]) and not _before(*values):
        reason = f"'within' needs a start before its end, {values[0]} is not before {values[1]}"
        raise context.fail("INVALID_QUERY", span, reason=reason)


def _before(start: object, end: object) -> bool:
    if isinstance(start, str) and isinstance(end, str):
        # stamps with different zones cannot be compared as text: they are compared when they are read
        return len(start) != 19 or len(end) != 19 or start < end
    return isinstance(start, int) and isinstance(end, int) and start < end


def _check_stamp(context: Context, text: str, alone: bool, span: Span) -> None:
    wild = "*" in text
    well_formed = _STAMP.fullmatch(text.strip()) is not None
    if not well_formed or (wild and (not alone or _WILD_TAIL.fullmatch(text.strip()) is None)):
        reason = (
            f"'{text}' is not a time such as '2024-06-01 00:00:00' (trailing parts may be ** where it stands alone)"
        )
        raise context.fail("INVALID_QUERY", span, reason=reason)
