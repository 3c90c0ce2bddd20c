"""Annotations."""

# ruff: noqa: RUF009 - span_field() is a dataclass field, which the rule does not see

from __future__ import annotations

from dataclasses import dataclass

from nadi.errors import Span
from nadi.lang.tree.types import span_field


@dataclass(frozen=True, slots=True)
class Element:
    """`key='value'` or, with an empty key, `'value'`."""

    key: str
    value: str
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class Annotation:
    """`@name(elements…, @nested(…))`; `@app:name('x')` has the name "app:name". Names and keys compare without case."""

    name: str
    elements: tuple[Element, ...] = ()
    nested: tuple[Annotation, ...] = ()
    span: Span = span_field()

    def get(self, key: str = "", default: str | None = None) -> str | None:
        """The value of the element with this key (no case); the key "" (or "value") is the unnamed one."""
        wanted = {"", "value"} if key in ("", "value") else {key.lower()}
        return next((e.value for e in self.elements if e.key.lower() in wanted), default)

    def place(self, key: str) -> Span:
        """Where the element with this key (no case) stands, the last one of several; where the annotation does, if it has none."""
        return next((e.span for e in reversed(self.elements) if e.key.lower() == key.lower()), self.span)

    def all(self, name: str) -> tuple[Annotation, ...]:
        """The nested annotations of this name (no case)."""
        return tuple(a for a in self.nested if a.name.lower() == name.lower())
