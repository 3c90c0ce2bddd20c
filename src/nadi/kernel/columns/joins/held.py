"""What one side of a join holds, as arrays and as blocks.

Blocks have the letter `j`. Texts (of keys, and of strings that are kept) stand in `ends` and `texts`, and are named by their place there. A block has

- `key`: the keys that it tells of; outside of partitions there is one without a text;
- `row`: for each its numbers (`holding.TOLD`);
- `nodes`: of those that came, key by key, the timestamp, the bits and the attributes.

Of the second queues of a `timeLength` window (`early.py`) there are blocks with the letter `e`, whose nodes are timestamps.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nadi.kernel.columns.bounds import check_different, check_places, many, values
from nadi.kernel.columns.flat import BLOCK_BYTES, Block
from nadi.kernel.columns.joins import early, holding, places
from nadi.kernel.columns.joins.layout import NO_BIT, Side
from nadi.kernel.columns.joins.places import BITS, END, INDEXED, LIVE, MASK, META, NEVER, ROW, TS, WIDTH
from nadi.kernel.columns.keytable import KeyTable, longer
from nadi.kernel.columns.naming import ids_of, named, picked, put_back, strings_of
from nadi.kernel.columns.partitioning import by_group
from nadi.kernel.columns.stretch import Array, Bools, Longs
from nadi.kernel.columns.words import aligned, words_of
from nadi.lang.tree import Type

_ROOM = 1024  # nodes and buckets at first
_NO = np.zeros(0, np.int64)
_STAMP = np.array([TS], np.int64)


class Held:
    """The window of a side. `table` numbers keys and strings, for both sides; `grouped`: the app is sharded by key, so that keys have key-groups."""

    def __init__(self, side: Side, table: KeyTable, grouped: bool) -> None:
        assert side.window is not None
        self.element = side.window.id
        self._side = side
        self._table = table
        self._grouped = grouped and side.partitioned
        texts = [p for p in side.captured if side.types[p] is Type.STRING]
        group = [side.group_word] if side.group_word else []
        self._told = np.array([TS, BITS, *map(side.word, side.captured), *group], np.int64)
        self._texts = np.array([*(side.word(p) for p in texts), *group], np.int64)
        self._columns = [self._told.tolist().index(word) for word in self._texts]
        self._bits = np.array([*(side.null_bit(p) for p in texts), *(NO_BIT for _ in group)], np.int64)
        self._index = np.array([side.word(p) for p in side.index], np.int64)
        self._index_bits = np.array([side.null_bit(p) for p in side.index], np.int64)
        self.clear()
        for _ in self._all(0, _NO):  # a forked process must not have to compile what this calls
            pass
        holding.mark_keys(self.rows, np.zeros(len(self.touched), np.bool_))
        self._block("j", 0, _NO, holding.told_rows(self.rows, _NO, _NO), _NO)
        self._settle(_NO)

    def clear(self) -> None:
        """Forget all."""
        side = self._side
        self.meta = np.zeros(META, np.int64)
        self.meta[[END, WIDTH, INDEXED, MASK]] = side.node_width, side.node_width, bool(side.index), _ROOM - 1
        self.words = aligned(_ROOM * side.node_width)
        self.heads = np.zeros(2 * _ROOM if side.index else 0, np.int64)
        self.rows, self.touched = np.zeros(0, np.int64), np.zeros(0, np.bool_)
        self._early = np.zeros(0, np.int64)  # second queues, where there are any
        self._follow()

    @property
    def _queues(self) -> dict[str, Longs]:
        """The queues, by the letter of their blocks."""
        return {"j": self.rows} if self._side.most is None else {"j": self.rows, "e": self._early}

    # ---- room

    def ready(self, events: int) -> None:
        """Before a batch: room for so many events, for all keys."""
        width, held = self._side.node_width, int(self.meta[LIVE])
        free = int(self.meta[END]) // width - 1 - held
        wanted = int(self.meta[END]) + max(0, events - free) * width
        if wanted > len(self.words):
            self.words = aligned(max(wanted, 2 * len(self.words)), self.words)
        if self._side.index and held + events > len(self.heads) // 2:
            size = 1 << (held + events).bit_length()
            old, self.heads = self.heads, np.zeros(2 * size, np.int64)
            self.meta[MASK] = size - 1
            places.reindex(self.words, old, self.heads, self.meta)
        self._follow()

    def fire(self, now: int) -> None:
        """Let go what timers have let go by now, if there would be no room without: nobody looks at keys that have no events any more."""
        side = self._side
        if 3 * int(self.meta[LIVE]) * side.node_width <= 2 * len(self.words):
            return
        if side.period is not None and not side.hoards:
            places.lapse_all(self.words, self.rows, self.touched, self.meta, self.heads, now - side.period)
        elif not side.timed:
            return
        elif side.most is None:
            places.fire_all(self.words, self.rows, self.touched, self.meta, self.heads, now - side.span, 0)
        else:
            early.fire_all_early(
                self.words, self.rows, self._early, self.touched, self.meta, self.heads, now, side.span
            )

    def _follow(self) -> None:
        """Arrays by key grow with the table."""
        before, room = len(self.touched), self._table.room if self._side.partitioned else 1
        if room > before:
            self.rows = longer(self.rows, room * ROW)
            self.rows[before * ROW + places.LATEST :: ROW] = NEVER
            self._early = longer(self._early, room * ROW if self._side.most is not None else 0)
            self.touched = longer(self.touched, room)

    @property
    def own(self) -> dict[str, Array | int]:
        """What a loop gets."""
        n = self._side.slot
        second = {} if self._side.most is None else {f"early{n}": self._early}
        return {
            **second,
            f"words{n}": self.words,
            f"floats{n}": self.words.view(np.float64),
            f"rows{n}": self.rows,
            f"heads{n}": self.heads,
            f"meta{n}": self.meta,
            f"touched{n}": self.touched,
        }

    def mark(self, used: Array) -> None:
        """Mark the texts that are in use."""
        if self._side.partitioned:
            holding.mark_keys(self.rows, used)
        if len(self._texts):
            holding.mark_texts(self.words, self.meta, self._texts, self._bits, used)

    def size(self) -> int:
        """How many events there are."""
        return int(self.meta[LIVE])

    # ---- told

    def changes(self) -> Iterator[Block]:
        """What went and what came, of the keys that were touched."""
        keys = np.flatnonzero(self.touched)
        if len(keys):
            told = []
            for letter, rows in self._queues.items():
                nodes, counts = holding.fresh(self.words, rows, keys, False)
                told.append(self._block(letter, 0, keys, holding.told_rows(rows, keys, counts), nodes))
            self._settle(keys)
            yield from told

    def contents(self) -> Iterator[Block]:
        """All of it, in blocks of about a megabyte."""
        keys = np.zeros(1, np.int64)
        if self._side.partitioned:
            used = np.zeros(self._table.room, np.bool_)
            holding.mark_keys(self.rows, used)
            keys = np.flatnonzero(used)
        for group, mine in by_group(self._table, keys, self._grouped) if len(keys) else ():
            for letter in self._queues:
                yield from self._all(group, mine, letter)
        self._settle(keys)

    def _all(self, group: int, keys: Longs, letter: str = "j") -> Iterator[Block]:
        """The keys of a group; one with many events comes in several blocks."""
        queues = self._queues[letter]
        most = max(1, BLOCK_BYTES // (8 * max(len(self._told), holding.TOLD)))
        nodes, counts = holding.fresh(self.words, queues, keys, True)
        ends = np.cumsum(counts)
        first = done = 0
        while first < len(keys):
            last = max(first + 1, int(np.searchsorted(ends, done + most, "right")))
            last = min(last, first + most)
            some = keys[first:last]
            begin = done
            while True:
                end = min(int(ends[last - 1]), begin + most)
                told = counts[first:last].copy()
                if last == first + 1:
                    told[0] = end - begin
                rows = holding.told_rows(queues, some, told)
                rows[4 :: holding.TOLD] = 0  # what went was told of an earlier state
                yield self._block(letter, group, some, rows, nodes[begin:end], int(begin == done))
                begin = end
                if begin >= ends[last - 1]:
                    break
            first, done = last, int(ends[last - 1])

    def _settle(self, keys: Longs) -> None:
        for rows in self._queues.values():
            holding.settle(rows, keys)
        self.touched[keys] = False

    def _strings(self, matrix: Array) -> list[tuple[Array, Bools]]:
        return strings_of(matrix, matrix[:, 1], self._columns, self._bits)

    def _block(self, letter: str, group: int, keys: Longs, rows: Longs, nodes: Longs, begins: int = 1) -> Block:
        held = letter == "j"
        matrix = words_of(self.words, self._told if held else _STAMP, nodes)
        arrays = named(self._table, self._strings(matrix) if held else [], {"key": keys}, self._side.partitioned)
        arrays |= {"row": rows, "nodes": matrix.reshape(-1)}
        return Block(self.element, group, letter, arrays, keys=begins * len(keys) if held else 0)

    # ---- put back

    def apply(self, block: Block) -> None:
        """Let events go, put others behind them. Raises ValueError where the block is none of them."""
        given = block.arrays
        if block.letter not in self._queues:
            raise ValueError(f"there is no queue '{block.letter}'")
        ids, codes = ids_of(self._table, given), many(given, "key", np.int32)
        self._follow()
        queues = self._queues[block.letter]
        if not self._side.partitioned:
            check_places(codes, 1, "a key")
        keys = picked(ids, codes) if self._side.partitioned else codes.astype(np.int64)
        check_different(keys, len(queues) // places.ROW)
        told, nodes = values(given, "row", np.int64, len(keys) * holding.TOLD), many(given, "nodes", np.int64)
        _check_counts(
            told,
            queues[keys * places.ROW + places.COUNT],
            len(nodes) // (1 if block.letter == "e" else len(self._told)),
        )
        if block.letter == "e":
            self.ready(len(nodes))
            early.put_early(self.words, self._early, self.heads, self.meta, keys, told, holding.TOLD, nodes)
            self._settle(keys)
            return
        matrix = nodes.reshape(-1, len(self._told)).copy()
        check_places(matrix[:, 1], 2 << len(self._side.captured), "the bits of an event")
        put_back(self._strings(matrix), ids)
        self.ready(len(matrix))
        holding.put(
            self.words, self.rows, self.heads, self.meta, self._told, self._index, self._index_bits,
            self._side.owner_word, keys, told, matrix,
        )  # fmt: skip
        self._settle(keys)


def _check_counts(told: Longs, held: Longs, events: int) -> None:
    """What is told of keys ends with how many events went and came. Raises ValueError where more go than are held, or others came."""
    came, went = told[holding.TOLD - 1 :: holding.TOLD], told[holding.TOLD - 2 :: holding.TOLD]
    if len(held) and not (went.min() >= 0 and (went <= held).all()):
        raise ValueError("more events go than there are")
    check_places(came, events + 1, "how many events came")
    if came.sum() != events:
        raise ValueError("other events than it tells of")
