"""How many bytes a channel has, as its progress records name them: for servers that do not say it. Pure."""

from __future__ import annotations

from collections import deque

from nadi.channels.transport import Told

ROOM = 8
"""What is left of a bound may be used up to one part in so many before it is looked at again: other producers write, too."""


class Fill:
    """The progress records from one place on, with the bytes of their batches."""

    def __init__(self) -> None:
        self.bytes = 0
        self.place = 0  # of the last record that was added
        self._added: deque[tuple[int, int]] = deque()

    def add(self, told: Told) -> None:
        """The next record."""
        size = sum(piece.size for piece in told.progress.pieces)
        self._added.append((told.place, size))
        self.bytes += size
        self.place = told.place

    def drop(self, place: int) -> None:
        """Records up to a place are gone."""
        while self._added and self._added[0][0] <= place:
            self.bytes -= self._added.popleft()[1]


class Bound:
    """How much a producer may write until it has to look again how full the channel is; `most` bytes it may have, 0: as many as there is room for.

    >>> bound = Bound(1_000)
    >>> bound.asks(10), bound.takes(200, 10), bound.asks(80), bound.asks(50), bound.takes(1_000, 50)
    (True, True, False, True, False)
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._allowed = 0

    def asks(self, size: int) -> bool:
        """Whether it is to look before it writes so many bytes; else they are counted."""
        if self._most <= 0:
            return False
        if size > self._allowed:
            return True
        self._allowed -= size
        return False

    def takes(self, held: int, size: int) -> bool:
        """Whether there is room for so many bytes in a channel that holds `held`."""
        room = self._most - held
        self._allowed = max(0, room // ROOM - size)
        return room > 0
