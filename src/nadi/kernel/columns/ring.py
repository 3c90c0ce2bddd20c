"""A queue of events in flat arrays: appended at the end, taken from the front.

Places are counted from the first event ever, and never go back; `start` is the place at which the arrays begin. What was taken stays there until room
is needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from nadi.kernel.columns.stretch import Array

_FEWEST = 1024


class Ring:
    """`columns`: name → dtype. A loop appends at `tail` and takes from `head`, both relative to the arrays, and leaves them in `ends`."""

    def __init__(self, columns: Mapping[str, str]) -> None:
        self._dtypes = dict(columns)
        self.clear()

    def clear(self) -> None:
        """Forget all."""
        self.arrays: dict[str, Array] = {name: np.zeros(_FEWEST, dtype) for name, dtype in self._dtypes.items()}
        self.ends = np.zeros(2, np.int64)  # head, tail
        self._start = 0
        self._told = (0, 0)  # head and tail when a delta was made last

    def __len__(self) -> int:
        return int(self.ends[1] - self.ends[0])

    def room(self, more: int) -> None:
        """Make room for so many events."""
        head, tail = self.ends.tolist()
        size = len(next(iter(self.arrays.values())))
        if tail + more <= size:
            return
        held = tail - head
        wanted = size if 2 * (held + more) <= size else 3 * (held + more)  # moving costs no more than what came
        for name, array in self.arrays.items():
            made = array if wanted == size else np.zeros(wanted, array.dtype)
            made[:held] = array[head:tail].copy() if made is array else array[head:tail]
            self.arrays[name] = made
        self._start += head
        self.ends[:] = 0, held

    def changes(self) -> tuple[int, slice]:
        """How many of those that the last delta left were taken since, and where those are that came and are still there."""
        head, tail = (int(end) + self._start for end in self.ends)
        before_head, before_tail = self._told
        self._told = head, tail
        return min(head, before_tail) - before_head, slice(max(head, before_tail) - self._start, tail - self._start)

    def parts(self, most: int) -> Iterator[slice]:
        """All events, so many at a time."""
        head, tail = self.ends.tolist()
        self._told = head + self._start, tail + self._start
        return (slice(at, min(at + most, tail)) for at in range(head, tail, most))

    def apply(self, taken: int, arrays: Mapping[str, Array]) -> None:
        """Take some off the front, append others."""
        count = len(arrays[next(iter(self._dtypes))])
        self.ends[0] += taken
        self.room(count)
        tail = int(self.ends[1])
        for name, array in self.arrays.items():
            array[tail : tail + count] = arrays[name]
        self.ends[1] = tail + count
        self._told = int(self.ends[0]) + self._start, tail + count + self._start
