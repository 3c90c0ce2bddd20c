"""Windows that give events on later: a stage in front of the operator that the query would have without its window."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from nadi.kernel.columns.contract import Operator, State, Stateful, check
from nadi.kernel.columns.flat import Block
from nadi.kernel.columns.stretch import Stretch


class Stage(State, Protocol):
    """Events in, events out, at the clocks at which they go on. `element` is the id of the window's state, whose
    blocks have some `letters`."""

    element: str
    letters: frozenset[str]

    def process(self, given: Mapping[str, Stretch], until: int) -> Stretch | None: ...
    def next_timer(self) -> int | None: ...
    def __len__(self) -> int: ...


class Staged:
    """A stage, and the operator that takes what comes out of it; `source` is the stream that the query reads."""

    def __init__(self, source: str, stage: Stage, inner: Operator) -> None:
        self._source, self._stage, self._inner = source, stage, inner
        self._stateful = inner if isinstance(inner, Stateful) else None
        self.elements = (stage.element, *(() if self._stateful is None else self._stateful.elements))

    def process(self, given: Mapping[str, Stretch], until: int) -> Stretch | None:
        """The rows of the events that go on."""
        passed = self._stage.process(given, until)
        return None if passed is None else self._inner.process({self._source: passed}, until)

    def next_timer(self) -> int | None:
        """When something goes on by itself."""
        return self._stage.next_timer()

    def changes(self) -> Iterator[Block]:
        """What changed in both."""
        yield from self._stage.changes()
        if self._stateful is not None:
            yield from self._stateful.changes()

    def contents(self) -> Iterator[Block]:
        """All that both hold."""
        yield from self._stage.contents()
        if self._stateful is not None:
            yield from self._stateful.contents()

    def apply(self, block: Block) -> None:
        """Put back what either told."""
        if block.element == self._stage.element and block.letter in self._stage.letters:
            self._stage.apply(block)
        elif self._stateful is not None:
            self._stateful.apply(block)

    def check(self) -> None:
        """See whether what was loaded fits together."""
        check(self._stage)
        check(self._inner)

    def clear(self) -> None:
        """Forget all."""
        self._stage.clear()
        if self._stateful is not None:
            self._stateful.clear()

    def size(self) -> dict[str, int]:
        """Events that wait, and what the operator holds."""
        held = {self._stage.element: len(self._stage)}
        return held if self._stateful is None else {**self._stateful.size(), **held}
