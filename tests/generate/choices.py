"""How the generators choose: short names for what hypothesis draws, and the parts of the app that is being made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from hypothesis import strategies as st

T = TypeVar("T")
ATTRIBUTES = (("k", "string"), ("v", "int"), ("l", "long"), ("f", "float"), ("d", "double"), ("b", "bool"))
"""Of every stream that is fed. `l` is near the time of the event: it serves as time attribute."""
COLUMNS = ", ".join(name for name, _type in ATTRIBUTES)
SCHEMA = ", ".join(f"{name} {kind}" for name, kind in ATTRIBUTES)

Scope = tuple[tuple[str, str], ...]
"""(text of a reference, type): what an expression can use."""


def scope(prefix: str = "") -> Scope:
    """The attributes, as they are written with a prefix: `a.`, `e1[last].`."""
    return tuple((prefix + name, kind) for name, kind in ATTRIBUTES)


@dataclass
class Maker:
    """The app that is being made. `streams` can be read and have the common attributes."""

    draw: Any
    streams: list[str] = field(default_factory=lambda: ["S", "R"])
    prelude: list[str] = field(default_factory=list)
    elements: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    stores: list[str] = field(default_factory=list)
    tables: list[str] = field(default_factory=list)

    def one(self, *options: T) -> T:
        return self.draw(st.sampled_from(options))  # type: ignore[no-any-return]

    def of(self, options: Sequence[T]) -> T:
        return self.draw(st.sampled_from(list(options)))  # type: ignore[no-any-return]

    def number(self, least: int, most: int) -> int:
        return self.draw(st.integers(least, most))  # type: ignore[no-any-return]

    def maybe(self) -> bool:
        return self.draw(st.booleans())  # type: ignore[no-any-return]

    def rarely(self) -> bool:
        return self.number(0, 3) == 3

    def output(self) -> str:
        """A new output stream."""
        self.outputs.append(f"Out{len(self.outputs) + 1}")
        return self.outputs[-1]

    def stream(self) -> str:
        return self.of(self.streams)
