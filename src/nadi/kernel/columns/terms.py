"""Values in the text of a loop."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Term:
    """A value in a loop: its text (a name or constant), and the text that is true where it is null ("" for never)."""

    text: str
    null: str = ""
