"""`define stream|table|window|trigger|function|aggregation …`."""

from __future__ import annotations

from nadi.lang.annotations import annotation_list
from nadi.lang.cursor import Cursor
from nadi.lang.expressions import function_call, time_constant, variable
from nadi.lang.inputs import single_input, source
from nadi.lang.selections import output_events, selection
from nadi.lang.tokens import UNITS
from nadi.lang.tree import (
    AggregationDefinition,
    Annotation,
    Attribute,
    Definition,
    FunctionDefinition,
    Source,
    StreamDefinition,
    TableDefinition,
    TriggerDefinition,
    Type,
    WindowDefinition,
)

KINDS = ("stream", "table", "window", "trigger", "function", "aggregation")
"""What can be defined."""

_TYPES = {t.value: t for t in Type}


def definition(c: Cursor) -> Definition:
    """Annotations and a definition."""
    start = c.position
    return definition_after(c, annotation_list(c), start)


def definition_after(c: Cursor, marks: tuple[Annotation, ...], start: int) -> Definition:
    """A definition whose annotations, from position `start` on, have been read."""
    c.expect("define")
    match c.accept_any(*KINDS):
        case "stream":
            return StreamDefinition(*_head(c), marks, span=c.span(start))
        case "table":
            return TableDefinition(*_head(c), marks, span=c.span(start))
        case "window":
            return _window(c, marks, start)
        case "trigger":
            return _trigger(c, marks, start)
        case "function":
            return _function(c, marks, start)
        case "aggregation":
            return _aggregation(c, marks, start)
    raise c.failure()


def _head(c: Cursor) -> tuple[Source, tuple[Attribute, ...]]:
    """`S (a type, …)`."""
    defined = source(c, "a name")
    c.expect("(")
    attributes = [_attribute(c)]
    while c.accept(","):
        attributes.append(_attribute(c))
    c.expect(")")
    return defined, tuple(attributes)


def _attribute(c: Cursor) -> Attribute:
    start = c.position
    name = c.name("the name of an attribute")
    return Attribute(name, _type(c), span=c.span(start))


def _type(c: Cursor) -> Type:
    return _TYPES[c.accept_any(*_TYPES) or c.fail()]


def _window(c: Cursor, marks: tuple[Annotation, ...], start: int) -> WindowDefinition:
    defined, attributes = _head(c)
    window = function_call(c)
    output = None
    if c.accept("output"):
        output = output_events(c) or c.fail()
    return WindowDefinition(defined, attributes, window, output, marks, span=c.span(start))


def _trigger(c: Cursor, marks: tuple[Annotation, ...], start: int) -> TriggerDefinition:
    name = c.name("the name of the trigger")
    c.expect("at")
    if c.accept("every"):
        return TriggerDefinition(name, time_constant(c), None, marks, span=c.span(start))
    return TriggerDefinition(name, None, c.string("'start' or a cron expression"), marks, span=c.span(start))


def _function(c: Cursor, marks: tuple[Annotation, ...], start: int) -> FunctionDefinition:
    name = c.name("the name of the function")
    c.expect("[")
    language = c.name("the name of a language")
    c.expect("]")
    c.expect("return")
    kind = _type(c)
    if c.token.kind != "script":
        c.fail("'{'")
    body = c.advance().value
    return FunctionDefinition(name, language, kind, body, marks, span=c.span(start))


def _aggregation(c: Cursor, marks: tuple[Annotation, ...], start: int) -> AggregationDefinition:
    name = c.name("the name of the aggregation")
    c.expect("from")
    read = single_input(c)
    if c.word != "select":
        c.fail("'select'")
    selected = selection(c, only_group_by=True)
    c.expect("aggregate")
    by = variable(c) if c.accept("by") else None
    c.expect("every")
    durations = [_duration(c)]
    is_range = c.accept("...")
    if is_range:
        durations.append(_duration(c))
    else:
        while c.accept(","):
            durations.append(_duration(c))
    return AggregationDefinition(name, read, selected, by, tuple(durations), is_range, marks, span=c.span(start))


def _duration(c: Cursor) -> str:
    unit = UNITS.get(c.word)
    if unit is None or unit == "millisec":
        c.fail("sec, min, hour, day, week, month or year")
    c.advance()
    return unit
