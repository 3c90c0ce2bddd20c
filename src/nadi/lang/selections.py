"""`select … group by … having … order by … limit … offset …` and `current|expired|all events`."""

from __future__ import annotations

from nadi.lang.cursor import Cursor
from nadi.lang.expressions import expression, variable
from nadi.lang.tree import Events, OrderBy, Selection, SelectItem, Variable

_EVENTS = {"current": Events.CURRENT, "expired": Events.EXPIRED, "all": Events.ALL}
_CLAUSE_STARTS = {
    ("insert", "into"),
    ("insert", "all"),
    ("insert", "current"),
    ("insert", "expired"),
    ("insert", "events"),
    ("group", "by"),
    ("order", "by"),
}


def output_events(c: Cursor) -> Events | None:
    """`all events`, `expired events`, `current events`, `events`; None where none of them stands."""
    if c.accept("events"):
        return Events.CURRENT
    word = c.accept_any(*_EVENTS)
    if not word:
        return None
    c.expect("events")
    return _EVENTS[word]


def selection(c: Cursor, *, only_group_by: bool = False) -> Selection:
    """The whole section; an empty one where no `select` stands."""
    start = c.position
    if not c.accept("select"):
        return Selection()
    items: list[SelectItem] = []
    star = c.accept("*")
    if not star:
        items.append(_item(c))
        while c.accept(","):
            items.append(_item(c))
    group_by = _references(c) if c.accept("group", "group by") else ()
    if only_group_by:
        return Selection(tuple(items), star, group_by, span=c.span(start))
    having = expression(c) if c.accept("having") else None
    order_by = _order_by(c) if c.accept("order", "order by") else ()
    limit = expression(c) if c.accept("limit") else None
    offset = expression(c) if c.accept("offset") else None
    return Selection(tuple(items), star, group_by, having, order_by, limit, offset, span=c.span(start))


def _item(c: Cursor) -> SelectItem:
    start = c.position
    if (c.word, c.peek().word) in _CLAUSE_STARTS:
        c.fail("an expression")
    found = expression(c)
    if c.accept("as"):
        return SelectItem(found, c.name("a name"), span=c.span(start))
    if not isinstance(found, Variable):
        c.tried = []  # what may follow a plain reference may not follow this
        c.fail("'as'")
    return SelectItem(found, span=c.span(start))


def _references(c: Cursor) -> tuple[Variable, ...]:
    """The attributes after `group`."""
    c.expect("by")
    found = [variable(c)]
    while c.accept(","):
        found.append(variable(c))
    return tuple(found)


def _order_by(c: Cursor) -> tuple[OrderBy, ...]:
    """The attributes after `order`."""
    c.expect("by")
    found = [_ordered(c)]
    while c.accept(","):
        found.append(_ordered(c))
    return tuple(found)


def _ordered(c: Cursor) -> OrderBy:
    start = c.position
    reference = variable(c)
    return OrderBy(reference, c.accept_any("asc", "desc"), span=c.span(start))
