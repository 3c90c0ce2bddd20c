"""Patterns (`->`) and sequences (`,`): one grammar for both, since the first link tells which it is."""

from __future__ import annotations

from nadi.lang.cursor import Cursor
from nadi.lang.expressions import time_constant
from nadi.lang.inputs import handlers, source
from nadi.lang.tree import (
    AbsentState,
    CountState,
    EveryState,
    LogicalState,
    NextState,
    SingleInput,
    State,
    StateInput,
    StreamState,
)

_LINKS = {"->": "pattern", ",": "sequence"}
_SIGNS: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_FOLLOWERS = """-> , < * + ? = [ ) and or within join inner left right full outer as unidirectional select insert delete update
    output return for"""
_AFTER_A_SOURCE = frozenset(_FOLLOWERS.split())


class _Chain:
    """What is found out about a pattern or sequence on the way: which of the two it is, and where a sign stands."""

    __slots__ = ("link", "sign_at")

    def __init__(self) -> None:
        self.link = ""
        self.sign_at = -1


def begins_state(c: Cursor, keyword: str) -> bool:
    """Whether `every` or `not` stands here as a keyword, not as the name of a stream."""
    follower = c.peek()
    return c.word == keyword and (
        follower.word in ("(", "!")
        or (follower.word == "#" and c.peek(2).is_name and c.peek(3).word not in (".", "(", ":"))
        or (follower.is_name and (follower.word not in _AFTER_A_SOURCE or c.peek(2).word in _AFTER_A_SOURCE - {","}))
    )


def at_link(c: Cursor) -> bool:
    """Whether what follows a stream makes it the first element of a pattern or sequence."""
    c.try_for("'->'")
    c.try_for("','")
    return c.word in ("->", ",", "<", "*", "+", "?", "and", "or", "within")


def state_input(c: Cursor, first: StreamState | None = None, start: int | None = None) -> StateInput:
    """A pattern or sequence; `first`, from position `start` on, may have been read already."""
    start = c.position if start is None else start
    chain = _Chain()
    begin = start
    state = _chain(c, chain, first, begin)
    if chain.link != "," and chain.sign_at >= 0:
        c.fail_at(chain.sign_at, "'<' (the signs *, + and ? are for sequences)")
    within = time_constant(c) if c.accept("within") else None
    _check_absences(c, state)
    return StateInput(_LINKS[chain.link or "->"], state, within, span=c.span(start))


def _chain(c: Cursor, chain: _Chain, first: StreamState | None, start: int) -> State:
    found = [_element(c, chain, first, start)]
    while True:
        if not chain.link:
            chain.link = c.word if c.word in _LINKS else ""
        link = chain.link or "->"
        if not c.accept(link):
            if c.word in _LINKS:
                c.fail()
            break
        found.append(_element(c, chain, None, c.position))
    if len(found) == 1:
        return found[0]
    flat: list[State] = []
    for state in found:
        flat.extend(state.states if isinstance(state, NextState) else (state,))
    return NextState(tuple(flat), span=c.span(start))


def _element(c: Cursor, chain: _Chain, first: StreamState | None, start: int) -> State:
    if first is None:
        if c.word == "(":
            return _group(c, chain)
        if begins_state(c, "every"):
            if chain.link == ",":
                raise c.error(
                    "MISPLACED", c.token.span, what="'every' of a sequence", where="in front of its first element only"
                )
            c.advance()
            if c.word == "(":
                return EveryState(_group(c, chain), True, span=c.span(start))
            return EveryState(_unit(c, chain, None, c.position), span=c.span(start))
    return _unit(c, chain, first, start)


def _unit(
    c: Cursor, chain: _Chain, first: StreamState | None, start: int
) -> StreamState | CountState | AbsentState | LogicalState:
    """What may stand behind `every` without parentheses."""
    if first is None and begins_state(c, "every"):
        c.fail("a stream or '('")
    left = first or _operand(c)
    if isinstance(left, StreamState) and (counted := _count(c, chain, left, start)) is not None:
        return counted
    operator = c.accept_any("and", "or")
    if not operator:
        if isinstance(left, AbsentState) and left.waiting is None:
            c.fail("'for'")
        return left
    right = _operand(c)
    _check_operands(c, operator, left, right)
    return LogicalState(operator, left, right, span=c.span(start))


def _group(c: Cursor, chain: _Chain) -> State:
    """`( chain )`."""
    c.expect("(")
    c.enter()
    state = _chain(c, chain, None, c.position)
    c.leave()
    c.expect(")")
    return state


def _operand(c: Cursor) -> StreamState | AbsentState:
    start = c.position
    if begins_state(c, "not"):
        c.advance()
        read = _source_with_handlers(c)
        waiting = time_constant(c) if c.accept("for") else None
        return AbsentState(read, waiting, span=c.span(start))
    reference = None
    if c.token.is_name and c.peek().word == "=":
        reference = c.name()
        c.advance()
    return StreamState(_source_with_handlers(c), reference, span=c.span(start))


def _source_with_handlers(c: Cursor) -> SingleInput:
    start = c.position
    read = source(c)
    return SingleInput(read, handlers(c, windows=False), span=c.span(start))


def _count(c: Cursor, chain: _Chain, state: StreamState, start: int) -> CountState | None:
    if c.word in _SIGNS:
        if chain.sign_at < 0:
            chain.sign_at = c.position
        sign = c.advance().word
        minimum, maximum = _SIGNS[sign]
        return CountState(state, minimum, maximum, sign, span=c.span(start))
    if not c.accept("<"):
        return None
    low = _number(c)
    high = low
    if c.accept(":"):
        high = _number(c)
        if low is None and high is None:
            c.fail("a whole number")
    elif low is None:
        c.fail("a whole number")
    c.expect(">")
    return CountState(state, low or 0, high, span=c.span(start))


def _number(c: Cursor) -> int | None:
    return int(c.advance().text) if c.token.kind == "int" else None


def _check_operands(c: Cursor, operator: str, left: State, right: State) -> None:
    """`not A` without `for` is an operand of `and` only, beside a stream (semantics/patterns.md#absence)."""
    for absent, other in ((left, right), (right, left)):
        if not isinstance(absent, AbsentState) or absent.waiting is not None:
            continue
        if operator == "or" or isinstance(other, AbsentState):
            raise c.error("ABSENT_WITHOUT_TIME", absent.span)


def _check_absences(c: Cursor, state: State) -> None:
    """Siddhi's grammar links an absent state to a present one: the first to its follower, or the last to what is before it."""
    flat = _flat(state)
    absent = [i for i, s in enumerate(flat) if isinstance(s, AbsentState)]
    if not absent or len(flat) == 1:
        return
    first, last = absent[0], absent[-1]
    linked = (first + 1 < len(flat) and not isinstance(flat[first + 1], AbsentState)) or (
        last > 0 and not isinstance(flat[last - 1], AbsentState)
    )
    if not linked:
        raise c.error("ABSENT_AFTER_ABSENT", flat[last].span)


def _flat(state: State) -> list[State]:
    match state:
        case EveryState(state=inner):
            return _flat(inner)
        case NextState(states=states):
            return [flat for inner in states for flat in _flat(inner)]
        case _:
            return [state]
