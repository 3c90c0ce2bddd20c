"""The partial matches of a chain: nodes, keys and buckets as arrays, and their state as blocks.

Blocks have the letter `p`. Texts (of keys, and of strings that matches keep) stand in `ends` and `texts`, and are named by their place there. A block has

- `key`, `row`: keys and their rows, one of whether the first match is used up and one per place of the number of its first new match (0: none);
- `node`, `place`, `nodes`: for each match its key, its place, and its words (`Layout.told`);
- `gone_key`, `gone`: the numbers of matches that are no more;
- `next`: the next number.

A match is known by its key and number; no number is used twice for a key. Outside of partitions there is one key without a text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from nadi.kernel.columns.flat import BLOCK_BYTES, Block
from nadi.kernel.columns.keytable import KeyTable
from nadi.kernel.columns.patterns import pooling
from nadi.kernel.columns.patterns.layout import Layout
from nadi.kernel.columns.patterns.places import BUCKET, END, LAST, LIVE, MASK, META, NUMBERS, WIDTH
from nadi.kernel.columns.stretch import Array, Longs
from nadi.kernel.columns.words import aligned
from nadi.lang.tree import Type

_ROOM = 1024  # nodes at first
_SWEEP = 1024  # keys from which on one looks for such that hold nothing
_NO = np.zeros(0, np.int64)


@dataclass(slots=True)
class _Loaded:
    """What blocks told, until it is linked: keys, places and words of matches; keys and numbers of those that are gone."""

    keys: list[Array] = field(default_factory=list)
    places: list[Array] = field(default_factory=list)
    nodes: list[Array] = field(default_factory=list)
    gone_keys: list[Array] = field(default_factory=list)
    gone: list[Array] = field(default_factory=list)


class Pool:
    """`table` numbers the keys and strings. `grouped`: the app is sharded by key, so that keys have key-groups."""

    def __init__(self, element: str, layout: Layout, grouped: bool) -> None:
        self.element = element
        self._layout = layout
        self._partitioned = bool(layout.sources.keys)
        self._grouped = grouped and self._partitioned
        texts = [a for a in layout.captured if layout.type_of(a) is Type.STRING]
        self._words_told = np.array(layout.told, np.int64)
        self._texts = np.array([layout.word(a) for a in texts], np.int64)
        self._columns = [layout.told.index(layout.word(a)) for a in texts]
        self._null_column = layout.told.index(layout.null_word) if texts else 0
        self._text_bits = np.array([layout.captured.index(a) for a in texts], np.int64)
        self._equal = np.zeros((layout.places, 3), np.int64)
        for one in layout.elements:
            if one.equal is not None:
                attribute = one.equal[1]
                self._equal[one.slot - 1] = layout.word(attribute), layout.captured.index(attribute), one.spread
        self._spread = any(e.spread for e in layout.elements)
        self.table = KeyTable()
        self.clear()

    def clear(self) -> None:
        """Forget all."""
        layout = self._layout
        self.table.clear()
        self.meta = np.zeros(META, np.int64)
        self.meta[[END, WIDTH, LAST, BUCKET, NUMBERS]] = (
            layout.node_width,
            layout.node_width,
            layout.last_word,
            layout.bucket_word,
            1,
        )
        self.words = aligned(_ROOM * layout.node_width)
        rows = self.table.room if self._partitioned else 1
        self.keys = np.zeros(rows * layout.key_width, np.int64)
        self.touched = np.zeros(rows, np.bool_)
        self._told = np.zeros(rows, np.bool_)
        self.meta[MASK] = self.table.room - 1
        self.buckets = np.zeros(2 + 2 * self.table.room * layout.places if layout.indexed else 0, np.int64)
        self._known = 1  # matches with lower numbers were told
        self._limit = _SWEEP
        self._loaded: _Loaded | None = None

    # ---- room

    def ready(self, events: int) -> None:
        """Before a batch: room for a match per event, for all ids."""
        self._link()
        wanted = int(self.meta[END]) + events * self._layout.node_width
        if wanted > len(self.words):
            self.words = aligned(max(wanted, 2 * len(self.words)), self.words)
        self._follow()

    def _follow(self) -> None:
        """Arrays by id grow with the table."""
        room = self.table.room
        if self._partitioned and room > len(self.touched):
            self.keys = _longer(self.keys, room * self._layout.key_width)
            self.touched, self._told = _longer(self.touched, room), _longer(self._told, room)
        if self._layout.indexed:
            self._spread_over(room)

    def _spread_over(self, room: int) -> None:
        """Buckets for all ids; for numbers as many as there are nodes, so that few share one."""
        layout, rows = self._layout, int(self.meta[MASK]) + 1
        wanted = max(room, len(self.words) // layout.node_width if self._spread else 0)
        if wanted <= rows:
            return
        while rows < wanted:
            rows *= 2
        self.meta[MASK] = rows - 1
        self.buckets = np.zeros(2 + 2 * rows * layout.places, np.int64)
        width = layout.key_width
        pooling.enter_all(self.words, self.keys, width, self.meta, self.buckets, layout.null_word, self._equal)

    def sweep(self) -> None:
        """Forget texts that nothing refers to, if there are many."""
        if self.table.count < self._limit:
            return
        used = np.zeros(self.table.room, np.bool_)
        if self._partitioned:
            used |= self._told
            pooling.mark_keys(self.keys, self._layout.key_width, used)
        pooling.mark_texts(self.words, self.meta, self._layout.null_word, self._texts, self._text_bits, used)
        ids = self.table.held()
        free = ids[~used[ids]]
        self.table.release(free)
        if self._partitioned:
            self.touched[free] = False
        self._limit = max(_SWEEP, 2 * self.table.count, int(self.meta[LIVE]) // 4)

    # ---- told

    def changes(self) -> Iterator[Block]:
        """What changed since the last `changes` or `contents`."""
        self._link()
        keys = np.flatnonzero(self.touched)
        if len(keys):
            nodes = pooling.since(self.words, self.keys, self._layout.key_width, keys, self._known)
            gone = pooling.gone(self.words, self.meta, nodes[0], nodes[1])
            self._settle(nodes[0], keys)
            yield self._block(0, keys, nodes, gone)

    def contents(self) -> Iterator[Block]:
        """All of it: the keys of a group, then their matches."""
        self._link()
        pooling.gone(self.words, self.meta, _NO, _NO)
        keys = self.table.held() if self._partitioned else np.zeros(1, np.int64)
        if self._partitioned:
            used = np.zeros(self.table.room, np.bool_)
            pooling.mark_keys(self.keys, self._layout.key_width, used)
            self._told[:] = False
            keys = keys[used[keys]]
        groups = self._groups(keys)
        everything = pooling.since(self.words, self.keys, self._layout.key_width, keys, 0)
        self._settle(everything[0], keys)
        self.touched[:] = False
        for group in np.unique(groups):
            mine = keys[groups == group]
            for part in _parts(mine, 64 + 8 * self._layout.places):
                yield self._block(int(group), part, (_NO, _NO, _NO), (_NO, _NO))
            nodes = everything
            if self._grouped:
                nodes = pooling.since(self.words, self.keys, self._layout.key_width, mine, 0)
            for at in range(0, len(nodes[0]), size := max(1, BLOCK_BYTES // (8 * self._layout.node_width))):
                some = tuple(array[at : at + size] for array in nodes)
                yield self._block(int(group), _NO, some, (_NO, _NO))

    def _groups(self, keys: Longs) -> Array:
        if not self._grouped:
            return np.zeros(len(keys), np.int16)
        found: Array = pooling.key_groups(*self.table.packed(keys))
        return found

    def _settle(self, nodes: Array, keys: Longs) -> None:
        """All of this was told."""
        pooling.told(self.words, nodes)
        self._known = int(self.meta[NUMBERS])
        self.touched[keys] = False
        if self._partitioned:
            self._told[keys] = pooling.filled(self.keys, self._layout.key_width, keys)

    def _block(self, group: int, keys: Longs, nodes: tuple[Array, ...], gone: tuple[Array, ...]) -> Block:
        refs, node_keys, node_places = nodes
        gone_keys, gone_numbers = gone
        matrix = pooling.told_words(self.words, self._words_told, refs)
        named = [keys, node_keys, gone_keys] if self._partitioned else []
        texts = [matrix[:, column] for column in self._columns]
        bits = matrix[:, self._null_column]
        valid = [(bits >> bit) & 1 == 0 for bit in self._text_bits]
        ids = np.unique(np.concatenate([_NO, *named, *(column[ok] for column, ok in zip(texts, valid))]))
        for column, ok in zip(texts, valid):
            column[...] = np.where(ok, np.searchsorted(ids, column), 0)
        arrays: dict[str, Array] = {}
        if len(ids):
            arrays["ends"], arrays["texts"] = self.table.packed(ids)
        for name, some in (("key", keys), ("node", node_keys), ("gone_key", gone_keys)):
            arrays[name] = (np.searchsorted(ids, some) if self._partitioned else some).astype(np.int32)
        arrays["row"] = pooling.told_rows(self.keys, self._layout.key_width, self.words, keys)
        arrays |= {"place": node_places.astype(np.int8), "nodes": matrix.reshape(-1), "gone": gone_numbers}
        arrays["next"] = np.array([self.meta[NUMBERS]], np.int64)
        return Block(self.element, group, "p", arrays, keys=len(keys))

    # ---- put back

    def apply(self, block: Block) -> None:
        """Put back a block; matches are linked when they are next needed."""
        given = block.arrays
        ids = _NO
        if "ends" in given:
            buffers = [None, pa.py_buffer(given["ends"]), pa.py_buffer(given["texts"])]
            ids = self.table.number(pa.Array.from_buffers(pa.string(), len(given["ends"]) - 1, buffers)).astype(
                np.int64
            )
            self._follow()
        keys, node_keys, gone_keys = (
            ids[given[name]] if self._partitioned else given[name].astype(np.int64)
            for name in ("key", "node", "gone_key")
        )
        matrix = given["nodes"].reshape(-1, len(self._words_told)).copy()
        for column, bit in zip(self._columns, self._text_bits):
            ok = (matrix[:, self._null_column] >> bit) & 1 == 0
            matrix[ok, column] = ids[matrix[ok, column]]
        pooling.put_rows(self.keys, self._layout.key_width, keys, given["row"])
        if self._partitioned:
            self._told[keys] = True
        self.meta[NUMBERS] = max(int(self.meta[NUMBERS]), int(given["next"][0]))
        if self._loaded is None:
            self._loaded = _Loaded()
        loaded = self._loaded
        loaded.keys.append(node_keys)
        loaded.places.append(given["place"])
        loaded.nodes.append(matrix)
        loaded.gone_keys.append(gone_keys)
        loaded.gone.append(given["gone"])

    def _link(self) -> None:
        """Make nodes of what was loaded."""
        loaded, self._loaded = self._loaded, None
        if loaded is None:
            return
        keys, places, nodes = map(np.concatenate, (loaded.keys, loaded.places, loaded.nodes))
        alive = _alive(keys, nodes[:, 0], np.concatenate(loaded.gone_keys), np.concatenate(loaded.gone))
        width = self._layout.node_width
        room = (len(alive) + 1 + _ROOM) * width
        self.words = aligned(max(room, len(self.words)))
        pooling.link(
            self.words, self.keys, self._layout.key_width, self.meta, self.buckets, self._words_told, self._layout.null_word,
            self._equal, keys[alive].astype(np.int64), places[alive].astype(np.int64), nodes[alive],
        )  # fmt: skip
        self._known = int(self.meta[NUMBERS])

    def size(self) -> int:
        """How many matches wait."""
        self._link()
        return int(self.meta[LIVE])


def _alive(keys: Array, numbers: Array, gone_keys: Array, gone: Array) -> Longs:
    """The matches that are not gone, each once, by number."""
    both = np.concatenate([keys, gone_keys])
    order = np.lexsort(
        (np.concatenate([np.zeros(len(keys)), np.ones(len(gone))]), np.concatenate([numbers, gone]), both)
    )
    all_numbers = np.concatenate([numbers, gone])
    same = (both[order][1:] == both[order][:-1]) & (all_numbers[order][1:] == all_numbers[order][:-1])
    last = np.concatenate([~same, [True]]) if len(order) else np.zeros(0, np.bool_)
    chosen = order[last]
    chosen = chosen[chosen < len(keys)]
    return chosen[np.argsort(numbers[chosen], kind="stable")]


def _parts(keys: Longs, size: int) -> Iterator[Longs]:
    most = BLOCK_BYTES // size
    return (keys[at : at + most] for at in range(0, len(keys), most))


def _longer(array: Array, size: int) -> Array:
    made = np.zeros(size, array.dtype)
    made[: len(array)] = array
    return made
