"""Words that many constructs share: types of attributes, kinds of events, names of streams; and how every node holds its span."""

# ruff: noqa: RUF009 - span_field() is a dataclass field, which the rule does not see

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from nadi.errors import NOWHERE, Span


def span_field() -> Span:
    """The field `span` of a node: outside equality and representation, given by keyword."""
    return field(default=NOWHERE, compare=False, repr=False, kw_only=True)


class Type(Enum):
    """The attribute types of Siddhi."""

    STRING = "string"
    INT = "int"
    LONG = "long"
    FLOAT = "float"
    DOUBLE = "double"
    BOOL = "bool"
    OBJECT = "object"

    def __str__(self) -> str:
        return self.value


class Events(Enum):
    """Which events an output acts on."""

    CURRENT = "current"
    EXPIRED = "expired"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class Source:
    """A name where a stream, table or window stands: `S`, `#inner`, `!fault`."""

    name: str
    inner: bool = False
    fault: bool = False
    span: Span = span_field()

    def __str__(self) -> str:
        return ("#" if self.inner else "!" if self.fault else "") + self.name
