"""A queue that holds one event per key: what the sliding `unique:*` windows and `unique:deduplicate` keep."""

from __future__ import annotations

from typing import Any

from nadi.kernel.rows.events import Row
from nadi.kernel.rows.state import Cells, Deque, Map, Value

CELLS: dict[str, type[Deque] | type[Map] | type[Value]] = {"held": Map, "order": Deque, "next": Value}
"""What an element with a keyed queue declares."""

_SPARE = 16
Held = tuple[int, Row]


class KeyedQueue:
    """One event per key, oldest first. Finding, replacing and taking the oldest cost the same however many are held.

    Cells: `held` key → (number, timestamp, row) in the order of numbers, `order` (number, key) in the same order, with entries of events that are no
    longer held until they come to its front or are more than those that are, and `next` number.

    >>> queue = KeyedQueue({name: kind(lambda: None) for name, kind in CELLS.items()})
    >>> queue.put("a", 1, ()), queue.put("b", 2, ()), queue.put("a", 3, ())
    (None, None, (1, ()))
    >>> queue.oldest(), queue.take("b"), queue.popleft(), queue.oldest()
    ((2, ()), (2, ()), (3, ()), None)
    """

    __slots__ = ("_held", "_next", "_order")

    def __init__(self, cells: Cells) -> None:
        self._held: Map = cells["held"]
        self._order: Deque = cells["order"]
        self._next: Value = cells["next"]

    def __len__(self) -> int:
        return len(self._held)

    def get(self, key: Any) -> Held | None:
        """The event of a key."""
        found = self._held.get(key)
        return None if found is None else (found[1], found[2])

    def take(self, key: Any) -> Held | None:
        """The event of a key, which is held no longer; None where there was none."""
        found = self._held.pop(key)
        return None if found is None else (found[1], found[2])

    def put(self, key: Any, ts: int, row: Row) -> Held | None:
        """Hold an event as the newest; the one of its key that was held before."""
        before = self.take(key)
        number = self._next.get() or 0
        self._next.set(number + 1)
        self._held.set(key, (number, ts, row))
        self._order.append((number, key))
        if len(self._order) > 2 * len(self._held) + _SPARE:
            self._order.replace([(entry[0], held) for held, entry in self._held.items()])
        return before

    def oldest(self) -> Held | None:
        """The event that came first of those that are held."""
        order = self._order
        while len(order):
            number, key = order[0]
            found = self._held.get(key)
            if found is not None and found[0] == number:
                return (found[1], found[2])
            order.popleft()
        return None

    def popleft(self) -> Held:
        """Take the oldest event.

        Raises:
            IndexError: nothing is held.
        """
        if (found := self.oldest()) is None:
            raise IndexError("the queue is empty")
        _number, key = self._order.popleft()
        self._held.pop(key)
        return found

    def events(self) -> list[Held]:
        """All, oldest first."""
        return [(ts, row) for _number, ts, row in self._held.values()]
