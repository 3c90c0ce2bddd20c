"""Texts of keys as small numbers: an intern table in flat arrays, whose numbers are given back and used again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nadi.kernel.columns.jit import PLAIN, bare, loop
from nadi.kernel.columns.memory import address_of, lying, values_at
from nadi.kernel.columns.stretch import Array, Column, Longs, texts_in
from nadi.kernel.columns.words import load, store
from nadi.lang.tree import Type

BETWEEN = "\x1f"
"""Stands between the values of a key of several."""
NULL = f"{BETWEEN}null{BETWEEN}"
"""Stands for a null string where it is another value than the text `null`."""

_FEWEST = 1024  # ids that there is room for at first
_IDS, _FREE, _USED, _BYTES = range(4)
"""What `_meta` counts: ids ever given, ids to be used again, slots in use, bytes of texts."""


class KeyTable:
    """Keys ↔ ids from 0. `room` is how many ids there are at most before `number` makes more room; arrays by id grow with it.

    Open addressing: `slots` has id + 1, 0 where nothing ever was, -1 where something was. The first eight bytes of a text lie in a word, so that
    short texts are compared at once; all of them lie in `texts`.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget all."""
        self.room = _FEWEST
        self._slots = np.zeros(4 * _FEWEST, np.int32)
        self._words = np.zeros(_FEWEST, np.uint64)
        self._hashes = np.zeros(_FEWEST, np.uint64)
        self._starts = np.zeros(_FEWEST, np.int64)
        self._lengths = np.full(_FEWEST, -1, np.int32)
        self._texts = np.zeros(16 * _FEWEST, np.uint8)
        self._free = np.zeros(_FEWEST, np.int32)
        self._meta = np.zeros(4, np.int64)
        self._counts = memoryview(self._meta)  # type: ignore[arg-type]  # an array is a buffer; an int of it is made faster here
        self._hold()

    @property
    def count(self) -> int:
        """How many keys there are."""
        return self._counts[_IDS] - self._counts[_FREE]

    @property
    def bound(self) -> int:
        """All ids are less."""
        return int(self._meta[_IDS])

    def number(self, array: pa.Array) -> Array:
        """The id of each text of a string array without nulls, made where there is none."""
        ends, texts = texts_in(array)
        return self.numbered(len(array), address_of(ends, _INT), address_of(texts, _BYTE))

    def numbered(self, n: int, ends_at: int, texts_at: int) -> Array:
        """The same for texts of which is known where they lie."""
        ids = np.empty(n, np.int32)
        done = 0
        while done < n:
            done = _number(n, ends_at, texts_at, done, *self._held, ids)
            if done < n:
                start, end = values_at(ends_at, _INT, n + 1, None)[done : done + 2].tolist()
                self._grow(end - start)
        return ids

    def _hold(self) -> None:
        """What a loop gets, call after call."""
        self._held = (
            self._slots,
            self._words,
            self._hashes,
            self._starts,
            self._lengths,
            self._texts,
            self._free,
            self._meta,
        )

    def _grow(self, wanted: int) -> None:
        """Make room for more keys, or for a text of so many bytes."""
        if self._meta[_BYTES] + wanted > len(self._texts):
            kept = self._compacted()
            self._texts = np.zeros(2 * (kept + wanted) + len(self._words), np.uint8)
            _compact(self._old, self._texts, self._starts, self._lengths, self._meta)
        if self._meta[_FREE] == 0 and self._meta[_IDS] == self.room:
            self.room *= 2
            for name in ("_words", "_hashes", "_starts", "_lengths", "_free"):
                setattr(self, name, longer(getattr(self, name), self.room))
            self._lengths[self.room // 2 :] = -1
        if 2 * (self._meta[_USED] + 1) > len(self._slots) or len(self._slots) < 4 * self.room:
            self._slots = np.zeros(max(4 * self.room, len(self._slots)), np.int32)
            _rehash(self._slots, self._hashes, self._lengths, self._meta)
        self._hold()

    def _compacted(self) -> int:
        self._old = self._texts
        return int(self._lengths[: self.bound].clip(0).sum())

    def release(self, ids: Array) -> None:
        """Forget keys: their ids will be those of others."""
        _release(ids.astype(np.int32), self._slots, self._hashes, self._lengths, self._free, self._meta)

    def held(self) -> Longs:
        """All ids, ascending."""
        return np.flatnonzero(self._lengths[: self.bound] >= 0)

    def array(self, ids: Array, nulls: Array | None = None) -> pa.Array:
        """The texts of ids as a string array; where there is null the id means nothing."""
        n = len(ids)
        absent = nulls if nulls is not None and nulls.any() else _NONE
        ends, data = self.written(ids, absent)
        valid = pa.py_buffer(np.packbits(~absent, bitorder="little")) if len(absent) else None
        return pa.Array.from_buffers(pa.string(), n, [valid, pa.py_buffer(ends), pa.py_buffer(data[:-8])])

    def written(self, ids: Array, absent: Array | None = None) -> tuple[Array, Array]:
        """Where each text begins and the last one ends, and the bytes of all, eight more than there are; nothing of those that are `absent`."""
        ends = np.empty(len(ids) + 1, np.int32)
        data = np.empty(_measure(ids, _NONE if absent is None else absent, self._lengths, ends) + 8, np.uint8)
        _spell(ids, self._starts, self._texts, ends, data)
        return ends, data

    def packed(self, ids: Array) -> tuple[Array, Array]:
        """The texts of ids: where each begins and the last ends (int32), and their bytes."""
        ends, lengths = np.zeros(len(ids) + 1, np.int32), self._lengths[ids]
        if len(lengths) and lengths.min() < 0:
            raise ValueError("the id of a text that there is not")
        np.cumsum(lengths, out=ends[1:])
        data = np.empty(int(ends[-1]), np.uint8)
        _pack(ids.astype(np.int64), self._starts, self._lengths, self._texts, ends, data)
        return ends, data

    def unpacked(self, ends: Array, texts: Array) -> Array:
        """The id of each text that `packed` gave, made where there is none. Raises ValueError for what it did not give."""
        if ends.dtype != _INT or texts.dtype != _BYTE or not len(ends) or ends[-1] > len(texts):
            raise ValueError("its texts are not where it says")
        given = pa.Array.from_buffers(pa.string(), len(ends) - 1, [None, *map(pa.py_buffer, (ends, texts))])
        given.validate(full=True)
        return self.number(given)

    def spelled(self) -> tuple[Array, Array, Array]:
        """By id where its text begins and how many bytes it has, and the bytes of all."""
        return self._starts, self._lengths, self._texts


_NONE = np.zeros(0, np.bool_)
_INT, _BYTE = np.dtype(np.int32), np.dtype(np.uint8)


def texts_of(columns: tuple[Column, ...], kinds: tuple[Type, ...], last: str = "null") -> pa.Array:
    """The keys of events as text: the values' string forms, one after the other; null is the text `null`, of the last column `last`
    (semantics/expressions.md#keys)."""
    nulls = [*["null"] * (len(columns) - 1), last]
    parts = [_text_of(column.array(), kind, null) for column, kind, null in zip(columns, kinds, nulls, strict=True)]
    return parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, BETWEEN)


def _text_of(array: pa.Array, kind: Type, null: str) -> pa.Array:
    made = array if kind is Type.STRING else pc.cast(array, pa.string())
    return made.fill_null(null) if made.null_count else made


def check_parts(ends: Array, lengths: Array) -> None:
    """Raises ValueError where beginnings of texts, which lie between `ends`, are longer than these."""
    if len(lengths) and ((lengths < 0) | (lengths > np.diff(ends))).any():
        raise ValueError("a part of a text is longer than the text")


def check_prefixes(ends: Array, data: Array, prefix: Array) -> None:
    """Raises ValueError where a group does not have a key of so many bytes, and other values behind it; it has 0 bytes where it was forgotten."""
    check_parts(ends, prefix)
    told = np.flatnonzero(prefix)
    behind = ends[:-1][told] + prefix[told]
    if not (behind < ends[1:][told]).all() or (data[behind] != ord(BETWEEN)).any():
        raise ValueError("a key does not end where it says")


def check_beginnings(beginnings: tuple[Array, Array], texts: tuple[Array, Array]) -> None:
    """Raises ValueError where one of some texts (`packed`) is not a key of several values, of which the first is the text at the same place of `beginnings`."""
    (starts, first), (ends, data) = beginnings, texts
    sizes = np.diff(starts)
    behind = ends[:-1] + sizes
    if len(sizes) and not (behind < ends[1:]).all():
        raise ValueError("a key is longer than one that begins with it")
    at = np.arange(len(first)) + np.repeat(ends[:-1] - starts[:-1], sizes)
    if (data[at] != first).any() or (data[behind] != ord(BETWEEN)).any():
        raise ValueError("a key does not begin with that to which it belongs")


def longer(array: Array, size: int) -> Array:
    """A copy with room for more, zeros at its end."""
    made = np.zeros(size, array.dtype)
    made[: len(array)] = array
    return made


@loop
def _compiled_mix(value):  # type: ignore[no-untyped-def]
    value = (value ^ (value >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    return value ^ (value >> np.uint64(32))


def _plain_mix(value: Any) -> Any:
    wide = int(value)
    wide = ((wide ^ (wide >> 32)) * 0xD6E8FEB86659FD93) & 0xFFFFFFFFFFFFFFFF
    return np.uint64(wide ^ (wide >> 32))


_mix = _plain_mix if PLAIN else _compiled_mix


_MASKS = np.array([(1 << (8 * size)) - 1 for size in range(9)], np.uint64)


@bare
def _number(n, ends_at, texts_at, done, slots, words, hashes, starts, lengths, texts, free, meta, ids):  # type: ignore[no-untyped-def]
    """Numbers the texts from `done` on; -> the first one for which there is no room, or how many there are."""
    mask = np.uint64(len(slots) - 1)
    ends = lying(ends_at, n + 1, np.int32)
    data = lying(texts_at, ends[n], np.uint8)
    for i in range(done, n):
        start, size = ends[i], ends[i + 1] - ends[i]
        if start + 8 <= len(data):
            word = load(data, start) & _MASKS[min(size, 8)]
        else:
            word = np.uint64(0)
            for j in range(min(size, 8)):
                word |= np.uint64(data[start + j]) << np.uint64(8 * j)
        found = _mix(word ^ np.uint64(size))
        block = np.uint64(0)
        for j in range(8, size):
            block |= np.uint64(data[start + j]) << np.uint64(8 * (j & 7))
            if j & 7 == 7 or j == size - 1:
                found = _mix(found ^ block)
                block = np.uint64(0)
        at = found & mask
        known = -1
        while True:
            held = slots[at]
            if held == 0:
                break
            if held > 0:
                k = held - 1
                if words[k] == word and lengths[k] == size:
                    same = True
                    if size > 8:
                        other = starts[k]
                        for j in range(8, size):
                            if data[start + j] != texts[other + j]:
                                same = False
                                break
                    if same:
                        known = k
                        break
            at = (at + np.uint64(1)) & mask
        if known < 0:
            full = meta[_FREE] == 0 and meta[_IDS] == len(words)
            if full or meta[_BYTES] + size > len(texts) or 2 * (meta[_USED] + 1) > len(slots):
                return i
            if meta[_FREE] > 0:
                meta[_FREE] -= 1
                known = free[meta[_FREE]]
            else:
                known = meta[_IDS]
                meta[_IDS] += 1
            slots[at] = known + 1
            meta[_USED] += 1
            words[known] = word
            hashes[known] = found
            lengths[known] = size
            starts[known] = meta[_BYTES]
            for j in range(size):
                texts[meta[_BYTES] + j] = data[start + j]
            meta[_BYTES] += size
        ids[i] = known
    return n


@loop
def _rehash(slots, hashes, lengths, meta):  # type: ignore[no-untyped-def]
    """Fills empty slots."""
    mask = np.uint64(len(slots) - 1)
    meta[_USED] = 0
    for k in range(meta[_IDS]):
        if lengths[k] < 0:
            continue
        at = hashes[k] & mask
        while slots[at] != 0:
            at = (at + np.uint64(1)) & mask
        slots[at] = k + 1
        meta[_USED] += 1


@loop
def _release(ids, slots, hashes, lengths, free, meta):  # type: ignore[no-untyped-def]
    mask = np.uint64(len(slots) - 1)
    for n in range(len(ids)):
        k = ids[n]
        at = hashes[k] & mask
        while slots[at] != k + 1:
            at = (at + np.uint64(1)) & mask
        slots[at] = -1  # counts as used until the table is filled anew
        lengths[k] = -1
        free[meta[_FREE]] = k
        meta[_FREE] += 1


@loop
def _compact(old, texts, starts, lengths, meta):  # type: ignore[no-untyped-def]
    """Puts the texts that are held beside each other."""
    end = 0
    for k in range(meta[_IDS]):
        if lengths[k] >= 0:
            for j in range(lengths[k]):
                texts[end + j] = old[starts[k] + j]
            starts[k] = end
            end += lengths[k]
    meta[_BYTES] = end


@loop
def _pack(ids, starts, lengths, texts, ends, data):  # type: ignore[no-untyped-def]
    for i in range(len(ids)):
        k = ids[i]
        for j in range(lengths[k]):
            data[ends[i] + j] = texts[starts[k] + j]


@bare
def _measure(ids, nulls, lengths, ends):  # type: ignore[no-untyped-def]
    """Where each text ends; -> where the last one does."""
    end = 0
    ends[0] = 0
    for i in range(len(ids)):
        if len(nulls) == 0 or not nulls[i]:
            end += lengths[ids[i]]
        ends[i + 1] = end
    return end


@bare
def _spell(ids, starts, texts, ends, data):  # type: ignore[no-untyped-def]
    """The texts one after the other; there are eight bytes more than they have."""
    for i in range(len(ids)):
        at, size = ends[i], ends[i + 1] - ends[i]
        if size == 0:
            continue
        start = starts[ids[i]]
        if size <= 8 and start + 8 <= len(texts):
            store(data, at, load(texts, start))  # what is too much of it is written over by the next one
        else:
            for j in range(size):
                data[at + j] = texts[start + j]
