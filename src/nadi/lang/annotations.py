"""`@name(key='value', 'value', @nested(…))` and `@app:name(…)`."""

from __future__ import annotations

from nadi.lang.cursor import Cursor
from nadi.lang.tree import Annotation, Element


def annotation_list(c: Cursor) -> tuple[Annotation, ...]:
    """All annotations that stand here; none is fine."""
    found = []
    while c.accept("@"):
        found.append(_annotation(c, c.position - 1))
    return tuple(found)


def at_app_annotation(c: Cursor) -> bool:
    """Whether `@app:` stands here."""
    return c.word == "@" and c.peek().word == "app" and c.peek(2).word == ":"


def app_annotation(c: Cursor) -> Annotation:
    """`@app:name(…)`."""
    start = c.position
    c.expect("@")
    c.expect("app")
    c.expect(":")
    return _arguments(c, "app:" + c.name("the name of an app annotation"), start)


def _annotation(c: Cursor, start: int) -> Annotation:
    if c.word == "app" and c.peek().word == ":":
        raise c.error("MISPLACED", c.token.span, what="annotations of the app", where="before the first definition")
    return _arguments(c, c.name("the name of an annotation"), start)


def _arguments(c: Cursor, name: str, start: int) -> Annotation:
    elements: list[Element] = []
    nested: list[Annotation] = []
    if c.accept("("):
        c.enter()
        while True:
            if c.accept("@"):
                nested.append(_annotation(c, c.position - 1))
            else:
                elements.append(_element(c))
            if not c.accept(","):
                break
        c.leave()
        c.expect(")")
    return Annotation(name, tuple(elements), tuple(nested), span=c.span(start))


def _element(c: Cursor) -> Element:
    start = c.position
    if c.token.kind == "string" and c.peek().word != "=":
        return Element("", c.advance().value, span=c.span(start))
    c.try_for("a string")
    if c.token.kind == "string":
        key = c.advance().value
    else:
        key = c.name("a key")
        while separator := c.accept_any(".", "-", ":"):
            key += separator + c.name("the rest of the key")
    c.expect("=")
    return Element(key, c.string(), span=c.span(start))
