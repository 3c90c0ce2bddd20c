"""Values that are held one by one, per group, with how often each is: for what leaves in another order than it came (semantics/selection.md#aggregators).

All groups of one aggregator share one array of words. A value of a group is a *node* of `WIDTH` words, and those of a group are a tree: in the order of values,
and a heap by `RANK`, a hash of the node's place, which keeps it flat. `roots` has the first node of each group; 0 is no node. `values` is the same memory, as
doubles where values are doubles. Of values that are equal and yet two (zeros) the one that came first is held.

A node that the last delta told of (`TOLD`) is not used again before the next one has told that it went. `listed` are the nodes that were touched since then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np

from nadi.kernel.columns.bounds import check_numbers, check_places, values
from nadi.kernel.columns.coding import coded
from nadi.kernel.columns.flat import BLOCK_BYTES, Block
from nadi.kernel.columns.jit import bare, loop, part
from nadi.kernel.columns.keytable import KeyTable, longer
from nadi.kernel.columns.naming import picked
from nadi.kernel.columns.stretch import Array, Longs
from nadi.kernel.columns.words import aligned
from nadi.lang.tree import Type

LEFT, RIGHT, VALUE, COUNT, GROUP, RANK, STATE = range(7)
WIDTH = 8
FREE, END, LISTED, SPARE = range(4)
"""What `meta` has: free nodes (by `LEFT`), where unused words begin, how many are listed, how many are free."""
META = 4
_IN_LIST, _TOLD = 1, 2  # bits of STATE
_ROOM = 64  # nodes at first


# ---- in loops --------------------------------------------------------------------------------------------------------


@part
def noted(words, meta, listed, node):  # type: ignore[no-untyped-def]
    """A node is to be told of."""
    if words[node + STATE] & _IN_LIST == 0:
        words[node + STATE] |= _IN_LIST
        listed[meta[LISTED]] = node
        meta[LISTED] += 1


@part
def freed(words, meta, node):  # type: ignore[no-untyped-def]
    """A node that is in no tree any more."""
    if words[node + STATE] & _TOLD == 0:
        words[node + LEFT] = meta[FREE]
        meta[FREE] = node
        meta[SPARE] += 1


@part
def ranked(node):  # type: ignore[no-untyped-def]
    """The rank of a node."""
    x = (int(node) * 0x9E3779B1) & 0xFFFFFFFF
    x = ((x ^ (x >> 15)) * 0x85EBCA6B) & 0xFFFFFFFF
    return x ^ (x >> 13)


@bare
def bag_add(words, values, meta, listed, roots, group, value):  # type: ignore[no-untyped-def]
    """A value comes: how often it is held now. There must be room."""
    node = roots[group]
    while node != 0:
        if value < values[node + VALUE]:
            node = words[node + LEFT]
        elif values[node + VALUE] < value:
            node = words[node + RIGHT]
        else:
            noted(words, meta, listed, node)
            words[node + COUNT] += 1
            return words[node + COUNT]
    node = meta[FREE]
    if node != 0:
        meta[FREE] = words[node + LEFT]
        meta[SPARE] -= 1
    else:
        node = meta[END]
        meta[END] += WIDTH
    rank = ranked(node)
    values[node + VALUE] = value
    words[node + COUNT] = 1
    words[node + GROUP] = group
    words[node + RANK] = rank
    at, below = 0, roots[group]
    while below != 0 and words[below + RANK] >= rank:
        at = below + (LEFT if value < values[below + VALUE] else RIGHT)
        below = words[at]
    if at == 0:
        roots[group] = node
    else:
        words[at] = node
    less, more = node + LEFT, node + RIGHT
    while below != 0:
        if values[below + VALUE] < value:
            words[less] = below
            less = below + RIGHT
            below = words[less]
        else:
            words[more] = below
            more = below + LEFT
            below = words[more]
    words[less] = 0
    words[more] = 0
    noted(words, meta, listed, node)
    return words[node + COUNT]


@bare
def bag_take(words, values, meta, listed, roots, group, value):  # type: ignore[no-untyped-def]
    """A value goes: how often it is still held, -1 where it was not held at all."""
    at, node = 0, roots[group]
    while node != 0:
        if value < values[node + VALUE]:
            at = node + LEFT
        elif values[node + VALUE] < value:
            at = node + RIGHT
        else:
            break
        node = words[at]
    if node == 0:
        return np.int64(-1)
    noted(words, meta, listed, node)
    words[node + COUNT] -= 1
    if words[node + COUNT] > 0:
        return words[node + COUNT]
    left, right = words[node + LEFT], words[node + RIGHT]
    while left != 0 or right != 0:
        if right == 0 or (left != 0 and words[left + RANK] >= words[right + RANK]):
            above, following = left, left + RIGHT
            left = words[following]
        else:
            above, following = right, right + LEFT
            right = words[following]
        if at == 0:
            roots[group] = above
        else:
            words[at] = above
        at = following
    if at == 0:
        roots[group] = 0
    else:
        words[at] = 0
    freed(words, meta, node)
    return np.int64(0)


@bare
def bag_clear(words, meta, listed, roots, group):  # type: ignore[no-untyped-def]
    """All values of a group go."""
    node = roots[group]
    roots[group] = 0
    while node != 0:
        left = words[node + LEFT]
        if left != 0:  # what is less stands above from now on, until nothing is
            words[node + LEFT] = words[left + RIGHT]
            words[left + RIGHT] = node
            node = left
            continue
        following = words[node + RIGHT]
        noted(words, meta, listed, node)
        words[node + COUNT] = 0
        freed(words, meta, node)
        node = following


@bare
def bag_end(words, roots, group, side):  # type: ignore[no-untyped-def]
    """Where the least value of a group is (`side` LEFT), or the greatest (RIGHT). There must be one."""
    node = roots[group]
    while words[node + side] != 0:
        node = words[node + side]
    return node + VALUE


CALLS: Mapping[str, object] = {"bag_add": bag_add, "bag_take": bag_take, "bag_clear": bag_clear, "bag_end": bag_end}
"""What the lines of aggregators call."""


# ---- told and put back -----------------------------------------------------------------------------------------------


@loop
def _changed(words, meta, listed):  # type: ignore[no-untyped-def]
    """The nodes to be told of, those that went first: a value may have come again in another node."""
    found = np.empty(meta[LISTED], np.int64)
    count = 0
    for i in range(meta[LISTED]):
        if words[listed[i] + COUNT] == 0 and words[listed[i] + STATE] & _TOLD != 0:
            found[count] = listed[i]
            count += 1
    for i in range(meta[LISTED]):
        if words[listed[i] + COUNT] != 0:
            found[count] = listed[i]
            count += 1
    return found[:count]


@loop
def _settle(words, meta, listed):  # type: ignore[no-untyped-def]
    """All is told."""
    for i in range(meta[LISTED]):
        node = listed[i]
        if words[node + COUNT] != 0:
            words[node + STATE] = _TOLD
        else:
            gone = words[node + STATE] & _TOLD != 0
            words[node + STATE] = 0
            if gone:
                freed(words, meta, node)
    meta[LISTED] = 0


@loop
def _put(words, values, meta, listed, roots, groups, given, counts):  # type: ignore[no-untyped-def]
    """Values as often as they are held from now on."""
    for i in range(len(groups)):
        group = int(groups[i])
        bag_add(words, values, meta, listed, roots, group, given[i])
        node = roots[group]
        while given[i] < values[node + VALUE] or values[node + VALUE] < given[i]:
            node = words[node + (LEFT if given[i] < values[node + VALUE] else RIGHT)]
        words[node + COUNT] = max(counts[i], 1)
        if counts[i] == 0:
            bag_take(words, values, meta, listed, roots, group, given[i])


def parameters_of(number: int, whole: bool) -> dict[str, str]:
    """What a loop gets of an aggregator's bag: name → dtype."""
    values = {f"bv{number}": "int64[]" if whole else "float64[]"}
    return values | dict.fromkeys((f"bw{number}", f"bm{number}", f"bl{number}", f"br{number}"), "int64[]")


class Owners(Protocol):
    """Who numbers the groups: `room` for so many; their numbers as arrays of a block, and back; numbers by their key-groups."""

    @property
    def room(self) -> int: ...
    def told(self, name: str, ids: Array) -> dict[str, Array]: ...
    def read(self, name: str, arrays: Mapping[str, Array]) -> Array: ...
    def parted(self, ids: Longs) -> Iterator[tuple[int, Longs]]: ...


class Bag:
    """The values of one aggregator. Values that are strings are numbers of `texts`; blocks name them by their texts.

    A block has the letter `b` and the aggregator's number: `group`, `value`, and `count`, how often it is held, 0 where it went.
    """

    def __init__(
        self, number: int, whole: bool, kind: Type, element: str, owners: Owners, texts: KeyTable | None = None
    ) -> None:
        self._number, self._whole, self._kind = number, whole, kind
        self._element, self._owners, self._texts = element, owners, texts
        self._letter = f"b{number}"
        self.clear()
        _changed(self._words, self._meta, self._listed)  # a forked process must not have to compile it
        _settle(self._words, self._meta, self._listed)

    def clear(self) -> None:
        """Forget all."""
        self._words = aligned(_ROOM * WIDTH)
        self._meta = np.zeros(META, np.int64)
        self._meta[END] = WIDTH
        self._listed = np.zeros(_ROOM, np.int64)
        self._roots = np.zeros(self._owners.room, np.int64)

    def own(self, more: int) -> dict[str, Array | int]:
        """The parameters, with room for so many values more."""
        self._room(more)
        n = self._number
        return {
            f"bw{n}": self._words,
            f"bv{n}": self._values,
            f"bm{n}": self._meta,
            f"bl{n}": self._listed,
            f"br{n}": self._roots,
        }

    @property
    def _values(self) -> Array:
        words: Array = self._words
        return words if self._whole else words.view(np.float64)

    def _room(self, more: int) -> None:
        wanted = int(self._meta[END]) + max(0, more - int(self._meta[SPARE])) * WIDTH
        if wanted > len(self._words):
            self._words = aligned(max(wanted, 2 * len(self._words)), self._words)
            self._listed = longer(self._listed, len(self._words) // WIDTH + 1)
        if self._owners.room > len(self._roots):
            self._roots = longer(self._roots, self._owners.room)

    def mark(self, used: Array) -> None:
        """Mark the texts that are held, or of which a delta is still to tell."""
        if self._texts is not None:
            nodes = np.arange(WIDTH, int(self._meta[END]), WIDTH)
            held = (self._words[nodes + COUNT] != 0) | (self._words[nodes + STATE] & _TOLD != 0)
            used[self._words[nodes[held] + VALUE]] = True

    # ---- state

    def changes(self) -> Iterator[Block]:
        """The values that came or went."""
        nodes = _changed(self._words, self._meta, self._listed)
        if len(nodes):
            yield self._block(0, nodes)
        _settle(self._words, self._meta, self._listed)

    def contents(self) -> Iterator[Block]:
        """All values, group by group."""
        nodes = np.arange(WIDTH, int(self._meta[END]), WIDTH)
        nodes = nodes[self._words[nodes + COUNT] != 0]
        groups = self._words[nodes + GROUP]
        for group, ids in self._owners.parted(np.unique(groups)) if len(nodes) else ():
            mine = nodes[np.isin(groups, ids)]
            for start in range(0, len(mine), BLOCK_BYTES // 24):
                yield self._block(group, mine[start : start + BLOCK_BYTES // 24])
        _settle(self._words, self._meta, self._listed)
        self._words[nodes + STATE] = _TOLD

    def _block(self, group: int, nodes: Longs) -> Block:
        owners = self._words[nodes + GROUP].astype(np.int32)
        values = self._values[nodes + VALUE]
        arrays = {**self._owners.told("group", owners), "count": self._words[nodes + COUNT]}
        if self._texts is None:
            return Block(self._element, group, self._letter, {**arrays, "value": values}, keys=0)
        different, codes = coded(values)
        ends, data = self._texts.packed(different)
        told = {"value": codes, "value.ends": ends, "value.texts": data}
        return Block(self._element, group, self._letter, {**arrays, **told}, keys=0)

    def apply(self, block: Block) -> None:
        """Values as they are from now on. Raises ValueError where the block tells of none."""
        given = block.arrays
        groups = self._owners.read("group", given).astype(np.int64)
        size = len(groups)
        if self._texts is None:
            found = values(given, "value", np.int64 if self._whole else np.float64, size)
            if (found != found).any():
                raise ValueError("a value is no number")
            if self._kind is Type.INT:
                check_places(found, 1 << 31, "a value", -(1 << 31))
        else:
            ids = self._texts.unpacked(given["value.ends"], given["value.texts"]).astype(np.int64)
            found = picked(ids, values(given, "value", np.int32, size))
        counts = values(given, "count", np.int64, size)
        check_numbers(counts, "how often a value is held")
        self._room(size)
        memory = self._words, self._values, self._meta, self._listed, self._roots
        _put(*memory, groups, found, counts)
        _settle(self._words, self._meta, self._listed)


class Counting(Protocol):
    """An aggregator that has a bag."""

    @property
    def number(self) -> int: ...
    @property
    def whole(self) -> bool: ...
    @property
    def kind(self) -> Type: ...


class Bags:
    """Those of all aggregators of a query that have one."""

    def __init__(self, found: Sequence[Counting], element: str, owners: Owners, texts: KeyTable | None = None) -> None:
        self._bags = {
            f"b{one.number}": Bag(
                one.number, one.whole, one.kind, element, owners, texts if one.kind is Type.STRING else None
            )
            for one in found
        }
        self.parameters = {name: dtype for one in found for name, dtype in parameters_of(one.number, one.whole).items()}

    def __bool__(self) -> bool:
        return bool(self._bags)

    def own(self, more: int) -> dict[str, Array | int]:
        """What a loop gets, with room for so many values more in each."""
        return {name: array for bag in self._bags.values() for name, array in bag.own(more).items()}

    def mark(self, used: Array) -> None:
        """Mark the texts that are in use."""
        for bag in self._bags.values():
            bag.mark(used)

    def clear(self) -> None:
        """Forget all."""
        for bag in self._bags.values():
            bag.clear()

    # ---- state

    def changes(self) -> Iterator[Block]:
        """The values that came or went."""
        for bag in self._bags.values():
            yield from bag.changes()

    def contents(self) -> Iterator[Block]:
        """All values."""
        for bag in self._bags.values():
            yield from bag.contents()

    def apply(self, block: Block) -> bool:
        """Put back what a bag told; whether it was one."""
        bag = self._bags.get(block.letter)
        if bag is not None:
            bag.apply(block)
        return bag is not None
