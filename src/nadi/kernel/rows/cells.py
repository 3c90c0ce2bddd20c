"""The containers that state is made of: they note their own changes, so that a delta costs what changed and not what is held.

A cell says that it changed with the first change after a delta (`changed()`; saying it again does no harm), then only notes what.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol


class Value:
    """One plain value; None at first. A mutable value must be set again after it was changed."""

    __slots__ = ("_changed", "_noted", "_value")

    def __init__(self, changed: Callable[[], None]) -> None:
        self._value: Any = None
        self._noted = False
        self._changed = changed

    def get(self) -> Any:
        return self._value

    def set(self, value: Any) -> None:
        self._value = value
        if not self._noted:
            self._noted = True
            self._changed()

    def content(self) -> list[Any]:
        return ["v", self._value]

    change = content

    def changed(self) -> bool:
        """Whether it is otherwise than the last delta left it."""
        return self._noted

    def settle(self) -> None:
        """From here on the next delta is noted."""
        self._noted = False

    def apply(self, change: list[Any]) -> None:
        self._value = change[1]

    def __len__(self) -> int:
        return 0 if self._value is None else 1


class Deque:
    """A queue: append at the end, take from the front.

    `first` counts what was ever taken, so what follows the queue can tell what it missed. `items` is what is held: to be read only, by loops
    that look at it for each event.
    """

    __slots__ = ("_appended", "_changed", "_taken", "first", "items")

    def __init__(self, changed: Callable[[], None]) -> None:
        self.items: deque[Any] = deque()
        self._taken = 0  # of what the last delta knew
        self._appended = 0  # how many at the end are new since the last delta
        self._changed = changed
        self.first = 0

    def append(self, item: Any) -> None:
        if not self._appended:
            self._changed()
        self.items.append(item)
        self._appended += 1

    def extend(self, items: Iterable[Any]) -> None:
        for item in items:
            self.append(item)

    def popleft(self) -> Any:
        items = self.items
        item = items.popleft()
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

    def content(self) -> list[Any]:
        return ["d", 0, list(self.items)]

    def changed(self) -> bool:
        """Whether anything was taken or appended since the last delta."""
        return self._taken > 0 or self._appended > 0

    def change(self) -> list[Any]:
        tail = [self.items[i] for i in range(-self._appended, 0)]
        return ["d", self._taken, tail]

    def settle(self) -> None:
        self._taken = self._appended = 0

    def apply(self, change: list[Any]) -> None:
        for _ in range(change[1]):
            self.items.popleft()
        self.first += change[1]
        self.items.extend(change[2])


_CLEAN: dict[Any, bool] = {}
"""What every Map notes that has not changed: stays empty, so that millions of them need no dict each."""


class Map:
    """Key → value, in insertion order. A mutable value that was changed in place must be `touch`ed."""

    __slots__ = ("_changed", "_cleared", "_dirty", "_items")

    def __init__(self, changed: Callable[[], None]) -> None:
        self._items: dict[Any, Any] = {}
        # changed since the last delta, in order; True: removed, perhaps to come again at the end
        self._dirty: dict[Any, bool] = _CLEAN
        self._cleared = False
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
        self._changed()
        self._dirty = {}
        return self._dirty

    def clear(self) -> None:
        self._items.clear()
        self._dirty = _CLEAN
        self._cleared = True
        self._changed()

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

    def content(self) -> list[Any]:
        return ["m", True, [[k, v] for k, v in self._items.items()], []]

    def changed(self) -> bool:
        """Whether any key was set, touched or removed since the last delta."""
        return self._cleared or bool(self._dirty)

    def change(self) -> list[Any]:
        kept = [[k, self._items[k]] for k in self._dirty if k in self._items]
        return ["m", self._cleared, kept, [k for k, removed in self._dirty.items() if removed]]

    def settle(self) -> None:
        self._dirty = _CLEAN
        self._cleared = False

    def apply(self, change: list[Any]) -> None:
        if change[1]:
            self._items.clear()
        for key in change[3]:
            self._items.pop(key, None)
        for key, value in change[2]:
            self._items[key] = value


class Cell(Protocol):
    """What every cell can do; elements with state of a form of its own bring theirs (`nadi.kernel.rows.patterns.matches`)."""

    def __len__(self) -> int: ...
    def content(self) -> list[Any]: ...
    def changed(self) -> bool: ...
    def change(self) -> list[Any]: ...
    def settle(self) -> None: ...
    def apply(self, change: list[Any]) -> None: ...


MakesCell = Callable[[Callable[[], None]], Cell]
"""Makes an empty cell, given what it calls with its first change after a delta."""

Cells = dict[str, Any]
"""The cells of one element for one flow key, by name (typed Any: an element knows what it declared)."""
