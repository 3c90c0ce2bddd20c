"""The queue of times of a pattern that waits for an absence, and its state.

Blocks have the letter `d`: `due` are the times that came, `flag` how many of those before them are gone (-1: all), and when the wait ends that was noted last.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nadi.kernel.columns.bounds import many, values
from nadi.kernel.columns.flat import Block
from nadi.kernel.columns.patterns.absencetext import CLOCK, DUE, END, FRONT
from nadi.kernel.columns.stretch import Longs

_ROOM = 64


class Dues:
    """The arrays `clock` and `dues` of the loop."""

    def __init__(self, element: str) -> None:
        self._element = element
        self.clear()

    def clear(self) -> None:
        """Forget all."""
        self.clock = np.zeros(CLOCK, np.int64)
        self.dues = np.zeros(_ROOM, np.int64)
        self._told = (0, 0, 0)

    def room(self, more: int) -> None:
        """Room for so many times more."""
        count = int(self.clock[END] - self.clock[FRONT])
        size = len(self.dues)
        while size < count + more:
            size *= 2
        if size > len(self.dues):
            held = self._from(int(self.clock[FRONT]))
            self.dues = np.zeros(size, np.int64)
            self._put(held)

    def _from(self, start: int) -> Longs:
        found: Longs = self.dues[np.arange(start, int(self.clock[END])) & (len(self.dues) - 1)]
        return found

    def _put(self, held: Longs) -> None:
        self.dues[np.arange(self.clock[FRONT], self.clock[END]) & (len(self.dues) - 1)] = held

    def next(self) -> int | None:
        """The time at the front."""
        front = int(self.clock[FRONT])
        return int(self.dues[front & (len(self.dues) - 1)]) if front != self.clock[END] else None

    # ---- state

    def changes(self) -> Iterator[Block]:
        """What came and went."""
        front, end, _due = self._told
        now = (int(self.clock[FRONT]), int(self.clock[END]), int(self.clock[DUE]))
        if now != self._told:
            gone = min(now[0], end) - front
            self._told = now
            yield self._block(gone, self._from(max(now[0], end)), now[2])

    def contents(self) -> Iterator[Block]:
        """All of it."""
        self._told = (int(self.clock[FRONT]), int(self.clock[END]), int(self.clock[DUE]))
        if self._told != (0, 0, 0):
            yield self._block(-1, self._from(self._told[0]), self._told[2])

    def _block(self, gone: int, due: Longs, flag: int) -> Block:
        return Block(self._element, 0, "d", {"due": due, "flag": np.array([gone, flag], np.int64)}, keys=0)

    def apply(self, block: Block) -> None:
        """Put back what came and went. Raises ValueError where more went than there are."""
        gone, flag = values(block.arrays, "flag", np.int64, 2).tolist()
        came = many(block.arrays, "due", np.int64)
        if gone < 0:
            self.clear()
        elif gone > self.clock[END] - self.clock[FRONT]:
            raise ValueError("more times go than there are")
        else:
            self.clock[FRONT] += gone
        self.room(len(came))
        held = self._from(int(self.clock[FRONT]))
        self.clock[END] += len(came)
        self._put(np.concatenate([held, came]))
        self.clock[DUE] = flag
        self._told = (int(self.clock[FRONT]), int(self.clock[END]), flag)
