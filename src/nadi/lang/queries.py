"""Queries, partitions, anonymous streams, rates and output actions."""

from __future__ import annotations

from nadi.errors import NadiError
from nadi.lang.annotations import annotation_list
from nadi.lang.cursor import Cursor
from nadi.lang.expressions import expression, time_constant, variable
from nadi.lang.inputs import at_join, handlers, join, source
from nadi.lang.selections import output_events, selection
from nadi.lang.states import at_link, begins_state, state_input
from nadi.lang.tree import (
    Annotation,
    AnonymousInput,
    Delete,
    Events,
    Expression,
    Input,
    InsertInto,
    Output,
    Partition,
    Query,
    RangeKey,
    Rate,
    Return,
    SetAssignment,
    SingleInput,
    StreamState,
    Update,
    UpdateOrInsert,
    ValueKey,
    Window,
)

_TARGET = "the name of a stream, table or window"


def query(c: Cursor) -> Query:
    """Annotations and a query."""
    start = c.position
    return query_after(c, annotation_list(c), start)


def query_after(c: Cursor, marks: tuple[Annotation, ...], start: int) -> Query:
    """A query whose annotations, from position `start` on, have been read."""
    c.expect("from")
    read = _input(c)
    selected = selection(c)
    limit = _rate(c)
    return Query(read, selected, output(c), limit, marks, span=c.span(start))


def _input(c: Cursor) -> Input:
    start = c.position
    if _at_anonymous(c):
        return _anonymous(c)
    if c.word == "(" or begins_state(c, "every") or begins_state(c, "not"):
        return state_input(c)
    if c.token.is_name and c.peek().word == "=":
        return state_input(c)
    read = source(c)
    found = handlers(c, windows=True, after_window=True)
    single = SingleInput(read, found, span=c.span(start))
    if at_join(c):
        return join(c, single, start)
    if at_link(c):
        if window := next((h for h in found if isinstance(h, Window)), None):
            raise c.error("WINDOW_IN_PATTERN", window.span)
        return state_input(c, StreamState(single, span=single.span), start)
    return single


# ---- anonymous streams ----


def _at_anonymous(c: Cursor) -> bool:
    """Whether `(from`, `((from` … or a bare `from` stands here."""
    ahead = 0
    while c.peek(ahead).word == "(":
        ahead += 1
    if c.peek(ahead).word != "from":
        return False
    follower = c.peek(ahead + 1)
    return follower.word in ("(", "#", "!") or (follower.is_name and follower.word not in _AFTER_A_NAME)


_FOLLOWERS = (
    "select output insert delete update return join inner left right full outer unidirectional as within and or"
)
_AFTER_A_NAME = frozenset(_FOLLOWERS.split())


def _anonymous(c: Cursor) -> AnonymousInput:
    start, opened = c.position, 0
    while c.accept("("):
        c.enter()
        opened += 1
    begin = c.position
    c.enter()
    c.expect("from")
    read = _input(c)
    selected = selection(c)
    limit = _rate(c)
    at = c.position
    c.expect("return")
    result = Return(output_events(c), span=c.span(at))
    inner = Query(read, selected, result, limit, span=c.span(begin))
    c.leave()
    for _ in range(opened):
        c.expect(")")
        c.leave()
    return AnonymousInput(inner, handlers(c, windows=True, after_window=True), span=c.span(start))


# ---- rates and outputs ----


def _rate(c: Cursor) -> Rate | None:
    start = c.position
    if not c.accept("output"):
        return None
    kind = c.accept_any("all", "first", "last", "snapshot")
    c.expect("every")
    if c.token.kind == "int" and c.peek().word == "events" and kind != "snapshot":
        count = int(c.advance().text)
        c.advance()
        return Rate(kind, None, count, span=c.span(start))
    if c.token.kind != "int":
        c.fail("a time" if kind == "snapshot" else "a time or a number of events")
    return Rate(kind, time_constant(c), span=c.span(start))


def output(c: Cursor) -> Output:
    """`insert into`, `delete`, `update`, `update or insert into`, `return`."""
    start = c.position
    match c.accept_any("insert", "delete", "update", "return"):
        case "insert":
            events = output_events(c)
            c.expect("into")
            return InsertInto(source(c, _TARGET), events, span=c.span(start))
        case "delete":
            target, events = source(c, _TARGET), _for_events(c)
            return Delete(target, events, _on(c, optional=True), span=c.span(start))
        case "update":
            return _update(c, start)
        case "return":
            return Return(output_events(c), span=c.span(start))
    raise c.failure()


def _update(c: Cursor, start: int) -> Update | UpdateOrInsert:
    """What follows `update`."""
    or_insert = c.word == "or" and c.peek().word == "insert"
    if or_insert:
        c.go_to(c.position + 2)
        c.expect("into")
    target, events = source(c, _TARGET), _for_events(c)
    assignments = set_clause(c)
    on = _on(c, optional=False)
    kind = UpdateOrInsert if or_insert else Update
    return kind(target, on, events, assignments, span=c.span(start))


def _for_events(c: Cursor) -> Events | None:
    if not c.accept("for"):
        return None
    return output_events(c) or c.fail()


def _on(c: Cursor, *, optional: bool) -> Expression | None:
    if optional:
        return expression(c) if c.accept("on") else None
    c.expect("on")
    return expression(c)


def set_clause(c: Cursor) -> tuple[SetAssignment, ...]:
    """`set T.a = expr, …`, or nothing."""
    if not c.accept("set"):
        return ()
    found = [_assignment(c)]
    while c.accept(","):
        found.append(_assignment(c))
    return tuple(found)


def _assignment(c: Cursor) -> SetAssignment:
    start = c.position
    target = variable(c)
    c.expect("=")
    return SetAssignment(target, expression(c), span=c.span(start))


# ---- partitions ----


def partition_after(c: Cursor, marks: tuple[Annotation, ...], start: int) -> Partition:
    """A partition whose annotations, from position `start` on, have been read. Errors in its queries are collected."""
    c.expect("partition")
    c.expect("with")
    c.expect("(")
    keys = [_key(c)]
    while c.accept(","):
        keys.append(_key(c))
    c.expect(")")
    c.expect("begin")
    queries = _queries(c)
    c.expect("end")
    return Partition(tuple(keys), queries, marks, span=c.span(start))


def _key(c: Cursor) -> ValueKey | RangeKey:
    start = c.position
    condition = expression(c)
    ranges: list[tuple[Expression, str]] = []
    while c.accept("as"):
        ranges.append((condition, c.string("a label, as in 'small'")))
        if not c.accept("or"):
            break
        condition = expression(c)
        if c.word != "as":
            c.fail("'as'")
    c.expect("of")
    stream = c.name("the name of a stream")
    if ranges:
        return RangeKey(tuple(ranges), stream, span=c.span(start))
    return ValueKey(condition, stream, span=c.span(start))


def _queries(c: Cursor) -> tuple[Query, ...]:
    """The queries up to `end`; one that cannot be read is reported and left out."""
    found: list[Query] = []
    depth = c.depth
    while True:
        begin = c.position
        try:
            found.append(query(c))
            if c.word in ("from", "@"):
                c.fail("';'")
        except NadiError as problem:
            c.collect(problem, begin)
            c.depth = depth
            if c.position == begin or c.word not in ("from", "@"):
                _skip_query(c, begin)
        more = c.accept(";")
        if c.word == "end" or c.token.kind == "end":
            return tuple(found)
        if not more and c.word not in ("from", "@"):
            c.fail("'end'")


def _skip_query(c: Cursor, begin: int) -> None:
    """On to the next `;` or to the `end` of the partition."""
    if c.position == begin and c.word not in (";", "end"):
        c.advance()
    while c.token.kind != "end" and c.word != ";" and not _at_end_of_partition(c):
        c.advance()


def _at_end_of_partition(c: Cursor) -> bool:
    return c.word == "end" and c.peek().word in (";", "", "from", "@", "partition", "define")
