"""The namespace `regex`: Java patterns (see `javaregex` for what is translated and what is refused)."""

from __future__ import annotations

from collections.abc import Callable

from nadi.functions.declare import GIVEN, failed, scalar, text, whole
from nadi.functions.entries import Entry
from nadi.functions.signatures import Arguments
from nadi.functions.strings import check_pattern, pattern_for
from nadi.lang.tree import Type

_REGEX, _INPUT = text("regex"), text("input.sequence")


def _constant_checked(result: Type) -> Callable[[Arguments], Type]:
    def returns(args: Arguments) -> Type:
        check_pattern(args[0])
        return result

    return returns


def _find(pattern: str | None, source: str | None, *begin: int | None) -> bool:
    if pattern is None:
        raise failed("regex:find", "'regex' is null")
    if source is None or None in begin:
        return False
    start = begin[0] if begin and begin[0] is not None else 0
    if not 0 <= start <= len(source):
        raise failed("regex:find", f"the index {start} is not within {source!r}")
    return pattern_for("regex:find", pattern).search(source, start) is not None


def _whole(name: str, looking_at: bool) -> Callable[[str | None, str | None], bool]:
    def match(pattern: str | None, source: str | None) -> bool:
        if pattern is None:
            raise failed(name, "'regex' is null")
        if source is None:
            return False
        compiled = pattern_for(name, pattern)
        return (compiled.match(source) if looking_at else compiled.fullmatch(source)) is not None

    return match


def _group(pattern: str, source: str, group: int) -> str | None:
    compiled = pattern_for("regex:group", pattern)
    found = compiled.search(source)
    if found is None or group > compiled.groups:
        return None
    if group < 0:
        raise failed("regex:group", f"there is no group {group}")
    part: str | None = found[group]
    return part


ENTRIES: tuple[Entry, ...] = (
    scalar(
        "regex:find",
        "Whether a part of a text matches a pattern, from an index on if one is given; false if the text is null.",
        (
            "regex:find('\\d\\d(.*)WSO2', '21 products are produced by WSO2') → true",
            "regex:find('WSO2', 'by WSO2 currently', 5) → false",
        ),
        _constant_checked(Type.BOOL),
        [(_REGEX, _INPUT), (_REGEX, _INPUT, whole("starting.index"))],
        _find,
        nulls=GIVEN,
    ),
    scalar(
        "regex:group",
        "What a group of the first match holds, null where nothing matches; group 0 is the whole match.",
        ("regex:group('(\\d+) (\\w+)', '21 products', 2) → 'products'",),
        _constant_checked(Type.STRING),
        [(_REGEX, _INPUT, whole("group.id"))],
        _group,
    ),
    scalar(
        "regex:lookingAt",
        "Whether the beginning of a text matches a pattern; false if the text is null.",
        ("regex:lookingAt('\\d\\d', '21 products') → true",),
        _constant_checked(Type.BOOL),
        [(_REGEX, _INPUT)],
        _whole("regex:lookingAt", True),
        nulls=GIVEN,
    ),
    scalar(
        "regex:matches",
        "Whether a whole text matches a pattern; false if the text is null.",
        ("regex:matches('WSO2(.*)middleware(.*)', 'WSO2 is a middleware company') → true",),
        _constant_checked(Type.BOOL),
        [(_REGEX, _INPUT)],
        _whole("regex:matches", False),
        nulls=GIVEN,
    ),
)
