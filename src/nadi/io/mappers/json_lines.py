"""JSON messages out of a whole batch at once: the fast way of `json_sink`, byte for byte what the other one writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from nadi.io.block import Block
from nadi.io.mappers.columns import shortest_doubles
from nadi.lang.tree import Type
from nadi.plan.nodes import Schema

Ints = npt.NDArray[np.int64]
_WORDS = np.frombuffer(b"null true false", np.uint8)
_LONGEST = 20  # digits of an int64 with its sign; more than a word has


@dataclass(frozen=True, slots=True)
class _Column:
    """A column as the loop takes it: `numbers`, or places in `data`; and which values there are."""

    kind: int
    valid: npt.NDArray[np.bool_]
    numbers: Ints | None
    data: npt.NDArray[np.uint8]
    starts: Ints
    ends: Ints


class BlockWriter:
    """Writes the rows of one stream, each `{"event":{…}}`.

    Args:
        schema: of the stream.
        before, after: what stands around a message.
    """

    def __init__(self, schema: Schema, before: bytes, after: bytes) -> None:
        from nadi.io.mappers import json_write  # the compiler, which small runs do not need

        self._loops = json_write
        self._schema = schema
        keys = [
            (b"," if i else b'{"event":{') + msgspec.json.encode(c.name) + b":" for i, c in enumerate(schema.columns)
        ]
        self._keys = np.frombuffer(b"".join(keys), np.uint8)
        self._key_ends = np.cumsum([0, *map(len, keys)], dtype=np.int64)
        self._tail, self._before, self._after = (np.frombuffer(text, np.uint8) for text in (b"}}", before, after))

    def write(self, batch: pa.RecordBatch, firsts: Ints) -> Block:
        """The messages, which begin with the rows `firsts`, as lines."""
        columns = [self._column(batch.column(c.name), c.type) for c in self._schema.columns]
        rows, count = batch.num_rows, len(firsts)
        data = np.concatenate([c.data for c in columns])
        shifts = np.cumsum([0, *(len(c.data) for c in columns)])
        starts = np.concatenate([c.starts + shift for c, shift in zip(columns, shifts)])
        ends = np.concatenate([c.ends + shift for c, shift in zip(columns, shifts)])
        none = np.zeros(rows, np.int64)
        numbers = np.concatenate([none if c.numbers is None else c.numbers for c in columns])
        of_row = len(self._keys) + len(self._tail) + 2 + (_LONGEST + 2) * len(columns)
        of_message = len(self._before) + len(self._after) + 3
        out = np.empty(rows * of_row + count * of_message + int((ends - starts).sum()), np.uint8)
        begins, stops = np.empty(count, np.int64), np.empty(count, np.int64)
        self._loops.write(
            np.array([c.kind for c in columns]), self._keys, self._key_ends, self._tail, self._before, self._after,
            np.concatenate([c.valid for c in columns]), numbers, data, starts, ends,
            np.append(firsts, rows), _WORDS, out, begins, stops,
        )  # fmt: skip
        return Block(out, begins, stops)

    def _column(self, array: pa.Array, kind: Type) -> _Column:
        count = len(array)
        valid = np.ones(count, np.bool_) if not array.null_count else array.is_valid().to_numpy(zero_copy_only=False)
        if kind in (Type.INT, Type.LONG, Type.BOOL):
            given = pc.fill_null(array, pa.scalar(0).cast(array.type)) if array.null_count else array
            numbers = given.to_numpy(zero_copy_only=False).astype(np.int64)
            nowhere = np.zeros(count, np.int64)
            loop = self._loops.BOOL if kind is Type.BOOL else self._loops.NUMBER
            return _Column(loop, valid, numbers, np.zeros(0, np.uint8), nowhere, nowhere)
        if kind is Type.STRING:
            data, starts, ends = _strings(array)
            if not self._loops.escapes(data):
                return _Column(self._loops.STRING, valid, None, data, starts, ends)
            texts = Block.of(list(map(msgspec.json.Encoder().encode, array.to_pylist())))
        elif kind is Type.OBJECT:
            texts = Block.of([b"null" if text is None else text.encode() for text in array.to_pylist()])
        else:
            texts = _listed((shortest_doubles(array) if kind is Type.FLOAT else array).to_pylist())
        return _Column(self._loops.TEXT, np.ones(count, np.bool_), None, texts.data, texts.starts, texts.ends)


def _strings(array: pa.Array) -> tuple[npt.NDArray[np.uint8], Ints, Ints]:
    """The bytes of strings, and where each of them is."""
    _valid, places, given = array.buffers()
    offsets = np.frombuffer(places, np.int32)[array.offset : array.offset + len(array) + 1].astype(np.int64)
    data = np.frombuffer(given, np.uint8) if given is not None else np.zeros(0, np.uint8)
    low, high = int(offsets[0]), int(offsets[-1])
    return data[low:high], offsets[:-1] - low, offsets[1:] - low


def _listed(values: Sequence[Any]) -> Block:
    """Numbers as JSON has them: written as one list, and taken apart at its commas."""
    data = np.frombuffer(msgspec.json.encode(values), np.uint8)
    commas = np.flatnonzero(data == ord(","))
    return Block(data, np.append(0, commas) + 1, np.append(commas, len(data) - 1))
