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

from nadi.kernel.columns.bounds import FARTHEST, check_places, single, values
from nadi.kernel.columns.flat import BLOCK_BYTES, Block
from nadi.kernel.columns.keygroups import groups_of
from nadi.kernel.columns.naming import named, put_back, strings_of
from nadi.kernel.columns.patterns import pooling
from nadi.kernel.columns.patterns.keystate import NO, KeyState, alive
from nadi.kernel.columns.patterns.layout import Layout
from nadi.kernel.columns.patterns.places import BUCKET, END, LAST, LIVE, MASK, META, NUMBERS, WIDTH
from nadi.kernel.columns.stretch import Array, Bools, Longs
from nadi.kernel.columns.words import aligned, words_of
from nadi.lang.tree import Type

_ROOM = 1024  # nodes at first


@dataclass(slots=True)
class _Loaded:
    """What blocks told, until it is linked: keys, places and words of matches; keys and numbers of those that are gone."""

    keys: list[Array] = field(default_factory=list)
    places: list[Array] = field(default_factory=list)
    nodes: list[Array] = field(default_factory=list)
    gone_keys: list[Array] = field(default_factory=list)
    gone: list[Array] = field(default_factory=list)


class Pool(KeyState):
    """See the module's text."""

    def __init__(self, element: str, layout: Layout, grouped: bool) -> None:
        self._layout = layout
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
        super().__init__(element, layout.key_width, bool(layout.sources.keys), grouped)

    def clear(self) -> None:
        """Forget all."""
        super().clear()
        layout = self._layout
        self.meta = np.zeros(META, np.int64)
        self.meta[[END, WIDTH, LAST, BUCKET, NUMBERS]] = (
            layout.node_width,
            layout.node_width,
            layout.last_word,
            layout.bucket_word,
            1,
        )
        self.words = aligned(_ROOM * layout.node_width)
        self.meta[MASK] = self.table.room - 1
        self.buckets = np.zeros(2 + 2 * self.table.room * layout.places if layout.indexed else 0, np.int64)
        self._known = 1  # matches with lower numbers were told
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
        super()._follow()
        if self._layout.indexed:
            self._spread_over(self.table.room)

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
        pooling.enter_all(self.words, self.keys, self._width, self.meta, self.buckets, layout.null_word, self._equal)

    def _filled(self, ids: Longs) -> Bools:
        found: Bools = pooling.filled(self.keys, self._width, ids)
        return found

    def _mark_texts(self, used: Bools) -> None:
        pooling.mark_texts(self.words, self.meta, self._layout.null_word, self._texts, self._text_bits, used)

    def forget(self, keys: pa.Array) -> None:
        """Let keys be as if nothing had happened to them."""
        self._link()
        ids = self.table.number(keys).astype(np.int64)
        self._follow()
        pooling.forget(self.words, self.keys, self._width, self.meta, self.buckets, ids)
        self.touched[ids] = True

    # ---- told

    def changes(self) -> Iterator[Block]:
        """What changed since the last `changes` or `contents`."""
        self._link()
        keys = np.flatnonzero(self.touched)
        if len(keys):
            nodes = pooling.since(self.words, self.keys, self._width, keys, self._known)
            gone = pooling.gone(self.words, self.meta, nodes[0], nodes[1])
            self._known_now(nodes[0], keys)
            yield self._block(0, keys, nodes, gone)

    def contents(self) -> Iterator[Block]:
        """All of it: the keys of a group, then their matches."""
        self._link()
        pooling.gone(self.words, self.meta, NO, NO)
        keys = self._every()
        if self._partitioned:
            keys = keys[self._filled(keys)]
            self._told[:] = False
        groups = self._groups(keys)
        everything = pooling.since(self.words, self.keys, self._width, keys, 0)
        self._known_now(everything[0], keys)
        self.touched[:] = False
        for group in np.unique(groups):
            mine = keys[groups == group]
            for part in _parts(mine, 64 + 8 * self._layout.places):
                yield self._block(int(group), part, (NO, NO, NO), (NO, NO))
            nodes = everything
            if self._grouped:
                nodes = pooling.since(self.words, self.keys, self._width, mine, 0)
            for at in range(0, len(nodes[0]), size := max(1, BLOCK_BYTES // (8 * self._layout.node_width))):
                some = tuple(array[at : at + size] for array in nodes)
                yield self._block(int(group), NO, some, (NO, NO))

    def _groups(self, keys: Longs) -> Array:
        if not self._grouped:
            return np.zeros(len(keys), np.int16)
        return groups_of(self.table, keys)

    def _known_now(self, nodes: Array, keys: Longs) -> None:
        """All of this was told."""
        pooling.told(self.words, nodes)
        self._known = int(self.meta[NUMBERS])
        self._settle(keys)

    def _strings(self, matrix: Array) -> list[tuple[Array, Bools]]:
        return strings_of(matrix, matrix[:, self._null_column], self._columns, self._text_bits)

    def _block(self, group: int, keys: Longs, nodes: tuple[Array, ...], gone: tuple[Array, ...]) -> Block:
        refs, node_keys, node_places = nodes
        gone_keys, gone_numbers = gone
        matrix = words_of(self.words, self._words_told, refs)
        owners = {"key": keys, "node": node_keys, "gone_key": gone_keys}
        arrays = named(self.table, self._strings(matrix), owners, self._partitioned)
        arrays["row"] = pooling.told_rows(self.keys, self._width, self.words, keys)
        arrays |= {"place": node_places.astype(np.int8), "nodes": matrix.reshape(-1), "gone": gone_numbers}
        arrays["next"] = np.array([self.meta[NUMBERS]], np.int64)
        return Block(self.element, group, "p", arrays, keys=len(keys))

    # ---- put back

    def apply(self, block: Block) -> None:
        """Put back a block; matches are linked when they are next needed. Raises ValueError where it tells of none."""
        given, width = block.arrays, len(self._words_told)
        ids, keys, node_keys, gone_keys = self._numbered(given, "key", "node", "gone_key")
        matrix = values(given, "nodes", np.int64, len(node_keys) * width).reshape(-1, width).copy()
        if self._text_bits.size:
            check_places(matrix[:, self._null_column], 1 << len(self._layout.captured), "the bits of a match")
        put_back(self._strings(matrix), ids)
        at_places = values(given, "place", np.int8, len(node_keys))
        check_places(at_places, self._layout.places, "where a match waits")
        rows = values(given, "row", np.int64, len(keys) * (1 + self._layout.places))
        gone = values(given, "gone", np.int64, len(gone_keys))
        following = single(given, "next")
        check_places(matrix[:, 0], min(following, FARTHEST), "the number of a match", least=1)
        pooling.put_rows(self.keys, self._width, keys, rows)
        self._told[keys] = True
        self.meta[NUMBERS] = max(int(self.meta[NUMBERS]), following)
        if self._loaded is None:
            self._loaded = _Loaded()
        loaded = self._loaded
        loaded.keys.append(node_keys)
        loaded.places.append(at_places)
        loaded.nodes.append(matrix)
        loaded.gone_keys.append(gone_keys)
        loaded.gone.append(gone)

    def _link(self) -> None:
        """Make nodes of what was loaded."""
        loaded, self._loaded = self._loaded, None
        if loaded is None:
            return
        keys, places, nodes = map(np.concatenate, (loaded.keys, loaded.places, loaded.nodes))
        chosen = alive(keys, nodes[:, 0], np.concatenate(loaded.gone_keys), np.concatenate(loaded.gone))
        chosen = chosen[np.argsort(nodes[chosen, 0], kind="stable")]
        width = self._layout.node_width
        room = (len(chosen) + 1 + _ROOM) * width
        self.words = aligned(max(room, len(self.words)))
        pooling.link(
            self.words, self.keys, self._width, self.meta, self.buckets, self._words_told, self._layout.null_word,
            self._equal, keys[chosen].astype(np.int64), places[chosen].astype(np.int64), nodes[chosen],
        )  # fmt: skip
        self._known = int(self.meta[NUMBERS])

    def size(self) -> int:
        """How many matches wait."""
        self._link()
        return int(self.meta[LIVE])


def _parts(keys: Longs, size: int) -> Iterator[Longs]:
    most = BLOCK_BYTES // size
    return (keys[at : at + most] for at in range(0, len(keys), most))
