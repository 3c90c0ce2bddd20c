"""The containers that state is made of: they note their own changes, so that a delta costs what changed and not what is held.

A cell calls `changed` with the first change after a delta (calling it again does no harm), then only notes what.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Protocol

Change = Sequence[Any]
"""What became of a cell, or all that it holds: a letter that says which kind of cell it is, and what that kind writes."""

_SAME = -1
"""Instead of the number of entries after the last delta: nothing changed since."""


class Value:
    """One plain value; None at first. A mutable value must be set again after it was changed."""

    __slots__ = ("_before", "_changed", "_value")

    def __init__(self, changed: Callable[[], None]) -> None:
        self._value: Any = None
        self._before = _SAME
        self._changed = changed

    def get(self) -> Any:
        return self._value

    def set(self, value: Any) -> None:
        if self._before == _SAME:
            self._before = 0 if self._value is None else 1
            self._changed()
        self._value = value

    def content(self) -> Change:
        return "v", self._value

    def contents(self, _most: int) -> Iterator[Change]:
        yield "v", self._value

    def halves(self, change: Change) -> list[Change]:
        return [change]

    def grown(self) -> int:
        return len(self) - self._before if self._before != _SAME else 0

    def take_change(self) -> Change | None:
        if self._before == _SAME:
            return None
        self._before = _SAME
        return "v", self._value

    def settle(self) -> None:
        self._before = _SAME

    def apply(self, change: Change) -> None:
        _letter, self._value = change

    def __len__(self) -> int:
        return 0 if self._value is None else 1


_SHORT = 64
"""How many items a queue has at least that is a deque."""


class Deque:
    """A queue: append at the end, take from the front.

    `first` counts what was ever taken, so what follows the queue can tell what it missed. `items` is what is held: to be read only, by loops
    that look at it for each event; another object may stand there after an append.

    A short queue is a list: a million keys may have one each, and a deque has 760 bytes even when it is empty.
    """

    __slots__ = ("_appended", "_changed", "_taken", "first", "items")

    def __init__(self, changed: Callable[[], None]) -> None:
        self.items: list[Any] | deque[Any] = []
        self._taken = 0  # of what the last delta knew
        self._appended = 0  # how many at the end are new since the last delta
        self._changed = changed
        self.first = 0

    def append(self, item: Any) -> None:
        if not self._appended:
            self._changed()
        items = self.items
        items.append(item)
        self._appended += 1
        if len(items) == _SHORT:
            self._lengthen()

    def _lengthen(self) -> None:
        if not isinstance(self.items, deque):
            self.items = deque(self.items)

    def extend(self, items: Iterable[Any]) -> None:
        for item in items:
            self.append(item)

    def popleft(self) -> Any:
        items = self.items
        item = items.popleft() if isinstance(items, deque) else items.pop(0)
        self.first += 1
        if self._appended > len(items):
            self._appended -= 1  # it came and went between two deltas
        else:
            if not self._taken:
                self._changed()
            self._taken += 1
        return item

    def clear(self) -> None:
        while self.items:
            self.popleft()

    def replace(self, items: Iterable[Any]) -> None:
        """Hold these instead: for the rare change in the middle; costs a whole rewrite."""
        self.clear()
        self.extend(items)

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.items)

    def __getitem__(self, index: int) -> Any:
        return self.items[index]

    def content(self) -> Change:
        return "d", 0, list(self.items)

    def contents(self, most: int) -> Iterator[Change]:
        for part in _parts(self.items, most):
            yield "d", 0, part

    def halves(self, change: Change) -> list[Change]:
        return [("d", 0, half) for half in _halves(change[2])]

    def grown(self) -> int:
        return self._appended - self._taken

    def take_change(self) -> Change | None:
        taken, appended = self._taken, self._appended
        if not (taken or appended):
            return None
        self._taken = self._appended = 0
        items = self.items
        if appended == 1:
            return "d", taken, [items[-1]]
        return "d", taken, [items[i] for i in range(-appended, 0)] if appended < len(items) else list(items)

    def settle(self) -> None:
        self._taken = self._appended = 0

    def apply(self, change: Change) -> None:
        _letter, taken, appended = change
        items = self.items
        if not 0 <= taken <= len(items):
            raise ValueError(f"{taken} go of {len(items)}")
        if isinstance(items, deque):
            for _ in range(taken):
                items.popleft()
        else:
            del items[:taken]
        self.first += taken
        items.extend(appended)
        if len(items) >= _SHORT:
            self._lengthen()


_CLEAN: dict[Any, bool] = {}
"""What every Map notes that has not changed: stays empty, so that millions of them need no dict each."""


class Map:
    """Key → value, in insertion order. A mutable value that was changed in place must be `touch`ed."""

    __slots__ = ("_before", "_changed", "_cleared", "_dirty", "_items")

    def __init__(self, changed: Callable[[], None]) -> None:
        self._items: dict[Any, Any] = {}
        # changed since the last delta, in order; True: removed, perhaps to come again at the end
        self._dirty: dict[Any, bool] = _CLEAN
        self._cleared = False
        self._before = _SAME
        self._changed = changed

    def get(self, key: Any, default: Any = None) -> Any:
        return self._items.get(key, default)

    def set(self, key: Any, value: Any) -> None:
        items, dirty = self._items, self._dirty or self._noting()
        if key not in items:
            # new keys are noted in the order in which they came, so that the replayed state has the same order
            dirty[key] = dirty.pop(key, False)
        elif key not in dirty:
            dirty[key] = False
        items[key] = value

    def touch(self, key: Any) -> None:
        dirty = self._dirty or self._noting()
        if key not in dirty:
            dirty[key] = False

    def pop(self, key: Any, default: Any = None) -> Any:
        if key not in self._items:
            return default
        dirty = self._dirty or self._noting()
        dirty[key] = True
        return self._items.pop(key)

    def _noting(self) -> dict[Any, bool]:
        self._note()
        self._dirty = {}
        return self._dirty

    def _note(self) -> None:
        if self._before == _SAME:
            self._before = len(self._items)
            self._changed()

    def clear(self) -> None:
        self._note()
        self._items.clear()
        self._dirty = _CLEAN
        self._cleared = True

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, key: Any) -> bool:
        return key in self._items

    def __iter__(self) -> Iterator[Any]:
        return iter(self._items)

    def keys(self) -> Iterable[Any]:
        return self._items.keys()

    def values(self) -> Iterable[Any]:
        return self._items.values()

    def items(self) -> Iterable[tuple[Any, Any]]:
        return self._items.items()

    def content(self) -> Change:
        return "m", True, list(self._items.items()), []

    def contents(self, most: int) -> Iterator[Change]:
        for part in _parts(self._items.items(), most):
            yield "m", False, part, []

    def halves(self, change: Change) -> list[Change]:
        return [("m", False, half, []) for half in _halves(change[2])]

    def grown(self) -> int:
        return len(self._items) - self._before if self._before != _SAME else 0

    def take_change(self) -> Change | None:
        if self._before == _SAME:
            return None
        items, dirty = self._items, self._dirty
        kept = [(key, items[key]) for key in dirty if key in items]
        change = "m", self._cleared, kept, [key for key, removed in dirty.items() if removed]
        self.settle()
        return change

    def settle(self) -> None:
        self._dirty = _CLEAN
        self._cleared = False
        self._before = _SAME

    def apply(self, change: Change) -> None:
        _letter, cleared, kept, removed = change
        if cleared:
            self._items.clear()
        for key in removed:
            self._items.pop(key, None)
        self._items.update(kept)


def _parts(items: Iterable[Any], most: int) -> Iterator[list[Any]]:
    """Items in lists of at most so many; an empty one where there are none."""
    left = iter(items)
    part = list(islice(left, most))
    yield part
    while part := list(islice(left, most)):
        yield part


def _halves(items: Sequence[Any]) -> list[Sequence[Any]]:
    half = len(items) // 2
    return [items[:half], items[half:]] if half else [items]


class Cell(Protocol):
    """What the store needs of a cell."""

    def __len__(self) -> int:
        """Entries."""
        ...

    def content(self) -> Change:
        """All that it holds, as a change of an empty cell."""
        ...

    def contents(self, most: int) -> Iterator[Change]:
        """The same as several changes of an empty cell, of at most so many entries each."""
        ...

    def halves(self, change: Change) -> list[Change]:
        """One of these as two that follow each other; it alone where it has one entry."""
        ...

    def grown(self) -> int:
        """How many entries more it has than after the last delta."""
        ...

    def take_change(self) -> Change | None:
        """What became of it since the last delta, None where nothing did; from here on the next one is noted."""
        ...

    def settle(self) -> None:
        """From here on the next delta is noted."""
        ...

    def apply(self, change: Change) -> None:
        """Become what another cell became. No change is noted."""
        ...


MakesCell = Callable[[Callable[[], None]], Cell]
"""Makes an empty cell, given what it calls with its first change after a delta."""

Cells = dict[str, Any]
"""The cells of one element for one flow key, by name (typed Any: an element knows what it declared)."""
