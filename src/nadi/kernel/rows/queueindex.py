"""An index over the queue of a sliding window, so that a join with equal columns does not scan it."""

from __future__ import annotations

from collections import deque
from itertools import islice

from nadi.kernel.rows.events import Row
from nadi.kernel.rows.state import Deque

Key = tuple[object, ...]
_UNSEARCHED: Key = ()


class QueueIndex:
    """Finds the rows of a queue of (timestamp, row) by the values of some columns, in the order of the queue.

    It is no state: it follows the queue when it is asked, by what was taken and appended since. Another queue needs another index.
    """

    __slots__ = ("_columns", "_first", "_keys", "_rows", "queue")

    def __init__(self, queue: Deque, columns: tuple[int, ...]) -> None:
        self.queue = queue
        self._columns = columns
        self._first = queue.first
        self._keys: deque[Key] = deque()
        self._rows: dict[Key, deque[Row]] = {}

    def find(self, key: Key) -> list[Row]:
        """The rows whose columns have these values."""
        self._follow()
        return list(self._rows.get(key, ()))

    def _follow(self) -> None:
        queue, keys = self.queue, self._keys
        gone = queue.first - self._first
        for _ in range(min(gone, len(keys))):
            key = keys.popleft()
            rows = self._rows[key]
            rows.popleft()
            if not rows:
                del self._rows[key]
        self._first = queue.first
        missing = len(queue) - len(keys)
        few = 2 * missing < len(queue)  # then they are near the end, which is quick to reach
        for _ts, row in (queue[-i] for i in range(missing, 0, -1)) if few else islice(queue, len(keys), None):
            key = self._key(row)
            keys.append(key)
            self._rows.setdefault(key, deque()).append(row)

    def _key(self, row: Row) -> Key:
        key = tuple(row[i] for i in self._columns)
        try:
            hash(key)
        except TypeError:  # a value of a wrong class, which equals nothing that is looked for
            return _UNSEARCHED
        return key
