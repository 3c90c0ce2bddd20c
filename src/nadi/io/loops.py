"""Compiled loops in which connectors and mappers read and write messages. Who has some names them in its `KIND`; `nadi.io.warmup` compiles them ahead."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Loops:
    """`warmed` is the module whose `warm()` compiles them, `written` are the modules in which they are written: as long as their text is the same, so is what
    was compiled."""

    name: str
    warmed: str
    written: tuple[str, ...]
