"""The partial matches of a pattern of any shape, or of a sequence with logical or absent elements: their arrays, and their state as blocks.

Blocks have the letter `m`. Texts (of keys, and of strings that matches keep) stand in `ends` and `texts`, and are named by their place there. A block has

- `key`, `row`: keys and their rows: whether a key has begun, and per place the number under which the first of its new matches came there (0: none),
  and when what should stay away was last seen;
- `node`, `nodes`: for each match its key, and its words (`Layout.told`);
- `gone_key`, `gone`: the numbers of matches that are no more;
- `next`: the next number, and the app's clock;
- where elements wait by the clock, `wait` and `due` for the keys in `key` (`waitstate`).

A match is known by its key and number, and told whole with each change; no number is used twice. Outside of partitions there is one key without a text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from nadi.kernel.columns.bounds import FARTHEST, check_numbers, check_places, many, values
from nadi.kernel.columns.flat import BLOCK_BYTES, Block
from nadi.kernel.columns.keygroups import groups_of
from nadi.kernel.columns.keytable import longer
from nadi.kernel.columns.naming import named, put_back
from nadi.kernel.columns.patterns import partialstate, sequencestate, waitstate, waking
from nadi.kernel.columns.patterns.automaton import Layout
from nadi.kernel.columns.patterns.keystate import NO, KeyState, alive
from nadi.kernel.columns.patterns.partials import CHANGED, END, HEAP, KEY, LIVE, META, NOW, NUMBERS
from nadi.kernel.columns.patterns.waking import TIMES
from nadi.kernel.columns.stretch import Array, Bools, Longs
from nadi.kernel.columns.words import aligned, words_of
from nadi.lang.tree import Type

_ROOM = 256  # nodes at first


@dataclass(slots=True)
class _Loaded:
    """What blocks told, until it is linked: keys and words of matches; keys and numbers of those that are gone; keys with timers, and their times."""

    keys: list[Longs] = field(default_factory=list)
    nodes: list[Longs] = field(default_factory=list)
    gone_keys: list[Longs] = field(default_factory=list)
    gone: list[Longs] = field(default_factory=list)
    timed: list[Longs] = field(default_factory=list)
    waits: list[Longs] = field(default_factory=list)
    dues: list[Longs] = field(default_factory=list)


class PartialPool(KeyState):
    """See the module's text."""

    def __init__(self, element: str, layout: Layout, grouped: bool) -> None:
        self.shape = layout.shape()
        self._layout = layout
        self._words_told = np.array(layout.told, np.int64)
        texts = [n for n, reference in enumerate(layout.captured) if layout.type_of(reference) is Type.STRING]
        self._texts = np.array([layout.word(n) for n in texts], np.int64)
        self._columns = [layout.told.index(word) for word in self._texts.tolist()]
        super().__init__(element, layout.key_width, bool(layout.sources.keys), grouped)

    def clear(self) -> None:
        """Forget all."""
        super().clear()
        layout = self._layout
        self.meta = np.zeros(META, np.int64)
        self.meta[[END, NUMBERS]] = layout.node_width, 1
        self.words = aligned(_ROOM * layout.node_width)
        self.heap = np.zeros(len(self.touched) * len(layout.elements) if layout.timed else 0, np.int64)
        self._loaded: _Loaded | None = None

    # ---- room

    def ready(self) -> None:
        """Before a batch: what was loaded is linked, and there is room for all ids."""
        self._link()
        self._follow()

    def _follow(self) -> None:
        super()._follow()
        if self._layout.timed and len(self.heap) < (wanted := len(self.touched) * len(self._layout.elements)):
            self.heap = longer(self.heap, wanted)

    def more(self, nodes: int) -> None:
        """Room for so many matches more."""
        wanted = int(self.meta[END]) + nodes * self._layout.node_width
        if wanted > len(self.words):
            self.words = aligned(max(wanted, 2 * len(self.words)), self.words)

    def _filled(self, ids: Longs) -> Bools:
        found: Bools = self.keys[ids * self._width] != 0  # it has begun
        return found

    def _rest(self) -> None:
        """A key whose only match has bound nothing is as if nothing had happened to it."""
        layout = self._layout
        if layout.times_begin:
            return
        if layout.units:
            sequencestate.rest(self.words, self.keys, self.meta, self.shape, self.touched)
        else:
            partialstate.rest(self.words, self.keys, self.meta, self.shape, self._width, layout.idle, self.touched)

    def _mark_texts(self, used: Bools) -> None:
        partialstate.mark_texts(self.words, self.meta, self.shape, self._texts, used)

    # ---- told

    def changes(self) -> Iterator[Block]:
        """What changed since the last `changes` or `contents`."""
        self._link()
        keys = np.flatnonzero(self.touched)
        if len(keys) or self.meta[CHANGED] != 0:
            nodes, gone_keys, gone = partialstate.told(self.words, self.meta)
            self._settle(keys)
            yield self._block(0, keys, nodes, gone_keys, gone)

    def contents(self) -> Iterator[Block]:
        """All of it: the keys of a group, then their matches."""
        self._link()
        partialstate.told(self.words, self.meta)
        keys = self._every()
        keys = keys[self._filled(keys)]
        self._told[:] = False
        self._settle(keys)
        self.touched[:] = False
        nodes = partialstate.alive(self.words, self.meta, self.shape)
        by_key = np.zeros(len(self.touched), np.int16)
        if self._grouped:
            by_key[keys] = groups_of(self.table, keys)
        groups, owners = by_key[keys], by_key[self.words[nodes + KEY]]
        some = max(1, BLOCK_BYTES // (8 * self._layout.node_width))
        several = max(1, BLOCK_BYTES // (64 + 16 * self._layout.places))
        for group in np.unique(groups):
            mine = keys[groups == group]
            for at in range(0, len(mine), several):
                yield self._block(int(group), mine[at : at + several], NO, NO, NO, whole=True)
            own = nodes[owners == group]
            for at in range(0, len(own), some):
                yield self._block(int(group), NO, own[at : at + some], NO, NO)

    def _strings(self, matrix: Longs) -> list[tuple[Longs, Bools]]:
        return [(matrix[:, column], matrix[:, column - 1] == 0) for column in self._columns]

    def _block(
        self, group: int, keys: Longs, nodes: Longs, gone_keys: Longs, gone: Longs, whole: bool = False
    ) -> Block:
        owners = self.words[nodes + KEY]
        matrix = words_of(self.words, self._words_told, nodes)
        by_name = {"key": keys, "node": owners, "gone_key": gone_keys}
        arrays = named(self.table, self._strings(matrix), by_name, self._partitioned)
        arrays["row"] = partialstate.told_rows(self.keys, self.words, self.shape, self._width, keys)
        arrays |= {"nodes": matrix.reshape(-1), "gone": gone, "next": self.meta[[NUMBERS, NOW]]}
        if self._layout.timed:
            arrays["wait"], arrays["due"] = waitstate.told_waits(self.words, self.keys, self.shape, keys, whole)
        return Block(self.element, group, "m", arrays, keys=len(keys))

    # ---- put back

    def apply(self, block: Block) -> None:
        """Put back a block; matches are linked when they are next needed. Raises ValueError where it tells of none."""
        given, width, timed = block.arrays, len(self._words_told), self._layout.timed
        ids, keys, owners, gone_keys = self._numbered(given, "key", "node", "gone_key")
        matrix = values(given, "nodes", np.int64, len(owners) * width).reshape(-1, width).copy()
        put_back(self._strings(matrix), ids)
        rows = values(given, "row", np.int64, len(keys) * (1 + 2 * self._layout.places))
        gone = values(given, "gone", np.int64, len(gone_keys))
        following = values(given, "next", np.int64, 2)
        check_numbers(following, "the number of a match, or the clock", -FARTHEST)
        check_places(matrix[:, 0], int(following[0]), "the number of a match", least=1)
        check_places(matrix[:, 1 : 1 + self._layout.places].reshape(-1), int(following[0]), "the number of a place")
        waits, dues = self._waits(given, len(keys)) if timed else (NO, NO)
        self._loaded = loaded = self._loaded or _Loaded()
        partialstate.put_rows(self.keys, self.shape, self._width, keys, rows)
        self._told[keys] = self._filled(keys)
        self.meta[[NUMBERS, NOW]] = np.maximum(self.meta[[NUMBERS, NOW]], following)
        if timed:
            waitstate.put_waits(self.keys, self.shape, keys, waits)
            loaded.timed.append(keys)
            loaded.waits.append(waits)
            loaded.dues.append(dues)
        loaded.keys.append(owners)
        loaded.nodes.append(matrix)
        loaded.gone_keys.append(gone_keys)
        loaded.gone.append(gone)

    def _waits(self, given: Mapping[str, Array], keys: int) -> tuple[Array, Array]:
        """What a block tells of timers, and times. Raises ValueError where these are others."""
        waits = values(given, "wait", np.int64, keys * self._layout.places * waitstate.WORDS)
        dues = many(given, "due", np.int64)
        went, came = waits[2 :: waitstate.WORDS], waits[3 :: waitstate.WORDS]
        check_numbers(went, "how many times are gone", waitstate.ALL)
        check_places(came, len(dues) + 1, "how many times came")
        if came.sum() != len(dues):
            raise ValueError("other timers than it tells of")
        return waits, dues

    def _link(self) -> None:
        """Make nodes of what was loaded."""
        loaded, self._loaded = self._loaded, None
        if loaded is None:
            return
        keys, nodes = np.concatenate(loaded.keys), np.concatenate(loaded.nodes)
        gone_keys, gone = (np.concatenate([NO, *some]) for some in (loaded.gone_keys, loaded.gone))
        chosen = alive(keys, nodes[:, 0], gone_keys, gone)
        keys, nodes = keys[chosen], nodes[chosen]
        width = self._layout.node_width
        queues = [np.concatenate([NO, *some]) for some in (loaded.timed, loaded.waits, loaded.dues)]
        wanted = len(nodes) + 1 + _ROOM + len(queues[2]) // (width - TIMES) + len(queues[1]) // waitstate.WORDS
        self.words = aligned(max(wanted * width, len(self.words)))
        numbers = nodes[:, 1 : 1 + self._layout.places].reshape(-1)
        order = np.argsort(numbers, kind="stable")
        order = order[np.searchsorted(numbers[order], 1) :]
        partialstate.link(
            self.words, self.keys, self.meta, self.shape, self._width, self._words_told, keys, nodes, order
        )
        if self._layout.timed:
            waitstate.link_waits(self.words, self.keys, self.meta, self.shape, *queues)
            self._follow()
            waking.offer_all(self.words, self.keys, self.meta, self.shape, self.heap, *self.spelled())

    def spelled(self) -> tuple[Array, Array, Array]:
        """Where the texts of keys begin, how long they are, and their bytes."""
        return self.table.spelled()

    def next_due(self) -> int | None:
        """When the first timer fires."""
        self._link()
        return int(waking.first_time(self.words, self.keys, self.shape, self.heap)) if self.meta[HEAP] else None

    def size(self) -> int:
        """How many matches there are."""
        self._link()
        return int(self.meta[LIVE])
