"""Streams with their handlers, and joins."""

from __future__ import annotations

from nadi.lang.cursor import Cursor
from nadi.lang.expressions import expression, function_call
from nadi.lang.tree import (
    Expression,
    Filter,
    Handler,
    JoinInput,
    JoinKind,
    SingleInput,
    Source,
    StreamFunction,
    Window,
)

_OUTER = {"left": JoinKind.LEFT, "right": JoinKind.RIGHT, "full": JoinKind.FULL}
_JOIN_WORDS = ("join", "inner", "left", "right", "full", "outer")


def source(c: Cursor, what: str = "the name of a stream") -> Source:
    """`S`, `#inner`, `!fault`."""
    start = c.position
    mark = c.accept_any("#", "!")
    return Source(c.name(what), mark == "#", mark == "!", span=c.span(start))


def handlers(c: Cursor, *, windows: bool, after_window: bool = False) -> tuple[Handler, ...]:
    """Filters, stream functions and, where allowed, one window; nothing may follow the window unless `after_window`."""
    found: list[Handler] = []
    seen_window = False
    while True:
        start = c.position
        if seen_window and not after_window:
            break
        if c.word == "[" or (c.word == "#" and c.peek().word == "["):
            found.append(_filter(c))
        elif c.word == "#" and c.peek().word == "window" and c.peek(2).word == ".":
            if not windows:
                c.fail_at(start, "a filter or a stream function")
            if seen_window:
                raise c.error("TWO_WINDOWS", c.token.span)
            c.go_to(start + 3)
            call = function_call(c)
            found.append(Window(call, span=c.span(start)))
            seen_window = True
        elif c.word == "#":
            c.advance()
            call = function_call(c)
            found.append(StreamFunction(call, span=c.span(start)))
        else:
            break
    c.try_for("'['")
    c.try_for("'#'")
    return tuple(found)


def _filter(c: Cursor) -> Filter:
    start = c.position
    if c.word == "#":
        c.advance()
    c.expect("[")
    condition = expression(c)
    c.expect("]")
    return Filter(condition, span=c.span(start))


def single_input(c: Cursor) -> SingleInput:
    """`S[filter]#fn()#window.w()[filter]`, where neither a join nor a pattern can stand."""
    start = c.position
    read = source(c)
    return SingleInput(read, handlers(c, windows=True, after_window=True), span=c.span(start))


def at_join(c: Cursor) -> bool:
    """Whether what follows a stream makes it the left side of a join."""
    for word in ("as", "join", "unidirectional"):
        c.try_for(f"'{word}'")
    return c.word in _JOIN_WORDS or c.word in ("as", "unidirectional")


def join(c: Cursor, left: SingleInput, start: int) -> JoinInput:
    """The rest of a join whose left side, from position `start` on, has been read up to its alias."""
    if left.handlers and any(isinstance(h, Window) for h in left.handlers[:-1]):
        c.fail_at(_after_window(c, left), "'as', 'join' or 'unidirectional': a side of a join ends with its window")
    left = _with_alias(c, left, start)
    unidirectional = "left" if c.accept("unidirectional") else None
    kind = _join_kind(c)
    begin = c.position
    read = source(c, "the name of a stream, table, window or aggregation")
    right = SingleInput(read, handlers(c, windows=True), span=c.span(begin))
    right = _with_alias(c, right, begin)
    if unidirectional is None and c.accept("unidirectional"):
        unidirectional = "right"
    on = expression(c) if c.accept("on") else None
    within, per = within_per(c)
    return JoinInput(left, kind, right, unidirectional, on, within, per, span=c.span(start))


def _after_window(c: Cursor, side: SingleInput) -> int:
    """The position of the handler that follows the window."""
    at = next(i for i, h in enumerate(side.handlers) if isinstance(h, Window)) + 1
    offset = side.handlers[at].span.start
    return next(i for i, token in enumerate(c.tokens) if token.start >= offset)


def _with_alias(c: Cursor, side: SingleInput, start: int) -> SingleInput:
    if not c.accept("as"):
        return side
    alias = c.name("an alias")
    return SingleInput(side.source, side.handlers, alias, span=c.span(start))


def _join_kind(c: Cursor) -> JoinKind:
    word = c.accept_any(*_JOIN_WORDS)
    match word:
        case "join":
            return JoinKind.INNER
        case "inner":
            c.expect("join")
            return JoinKind.INNER
        case "left" | "right" | "full":
            c.expect("outer")
        case "":
            c.fail()
    c.expect("join")
    return _OUTER.get(word, JoinKind.FULL)


def within_per(c: Cursor) -> tuple[tuple[Expression, ...], Expression | None]:
    """`within <range> per <duration>` or `within <start>, <end> per <duration>`, or nothing."""
    if not c.accept("within"):
        return (), None
    within = [expression(c)]
    if c.accept(","):
        within.append(expression(c))
    c.expect("per")
    return tuple(within), expression(c)
