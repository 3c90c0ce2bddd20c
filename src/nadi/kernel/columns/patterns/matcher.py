"""What the operators of patterns and sequences have in common: their state is that of their matches."""

from __future__ import annotations

from collections.abc import Iterator

from nadi.kernel.columns.flat import Block
from nadi.kernel.columns.patterns.keystate import KeyState


class Matcher:
    """An operator whose rows come with events. A match that ran out of `within` goes before the next event of its key."""

    def __init__(self, state: KeyState) -> None:
        self._state = state
        self.elements = (state.element,)

    def next_timer(self) -> int | None:
        """Nothing comes out by itself."""
        return None

    def changes(self) -> Iterator[Block]:
        """Matches that came, went, or have changed; of a sequence the keys that had an event."""
        return self._state.changes()

    def contents(self) -> Iterator[Block]:
        """All matches; of a sequence all keys."""
        return self._state.contents()

    def apply(self, block: Block) -> None:
        """Put back what either told."""
        self._state.apply(block)

    def check(self) -> None:
        """Make matches of what was loaded: it shows whether that can be."""
        self._state.size()

    def clear(self) -> None:
        """Forget all."""
        self._state.clear()

    def size(self) -> dict[str, int]:
        """How many matches there are; of a sequence how many keys have begun or hold one."""
        return {self._state.element: self._state.size()}
