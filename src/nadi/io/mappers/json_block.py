"""JSON events out of a `Block` of messages at once: the fast way of `json_source`, for attributes that stand in the event under their own names.

What comes out equals what the others ways make of the same messages, value for value; `tests/io` compares them.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nadi.io.block import Block
from nadi.io.mappers.columns import ARROW, arrow_schema
from nadi.io.mappers.stretch import is_utf8
from nadi.lang.tree import Type
from nadi.plan.nodes import Schema

LEAST, LEAST_WITHOUT = 200, 5_000
"""So many messages are worth a call; where the process has not loaded the compiler, so many are worth that, too."""

Bytes = npt.NDArray[np.uint8]


def worth_it(count: int) -> bool:
    """Whether a stretch of so many messages is worth a loop."""
    return count >= (LEAST if "numba" in sys.modules else LEAST_WITHOUT)


def readable(schema: Schema) -> bool:
    """Whether a loop can read the events of a stream: no objects, and names that stand in JSON as they are."""
    return len(schema) > 0 and all(
        c.type is not Type.OBJECT
        and c.name != "event"
        and c.name.isascii()
        and c.name.isprintable()
        and not set(c.name) & set('"\\')
        for c in schema.columns
    )


@dataclass(frozen=True, slots=True)
class Read:
    """Events of some of the messages, those with the indices `messages` (ascending), one each."""

    batch: pa.RecordBatch
    messages: npt.NDArray[np.int64]


class BlockReader:
    """Reads the messages of one stream.

    Args:
        schema: what `readable` lets through.
        strict: whether a message that lacks an attribute is left to others, else it is null.
    """

    def __init__(self, schema: Schema, strict: bool) -> None:
        from nadi.io.mappers import json_scan  # the compiler, which small runs do not need

        kinds = {
            Type.INT: json_scan.INT,
            Type.LONG: json_scan.LONG,
            Type.FLOAT: json_scan.REAL,
            Type.DOUBLE: json_scan.REAL,
            Type.BOOL: json_scan.BOOL,
            Type.STRING: json_scan.STRING,
        }
        self._loops = json_scan
        self._schema = schema
        self._arrow = arrow_schema(schema)
        self._lenient = not strict
        self._names = _bytes("".join(c.name for c in schema.columns))
        self._name_ends = np.cumsum([len(c.name) for c in schema.columns], dtype=np.int64)
        self._kinds = np.array([kinds[c.type] for c in schema.columns], np.int64)
        self._narrow = np.array([c.type is Type.FLOAT for c in schema.columns])
        self._words = [_bytes(word) for word in ("true", "false", "null", '"event"')]

    def read(self, payloads: Sequence[bytes]) -> Read | None:
        """The events that can be read; None where the text is not UTF-8 throughout."""
        block, columns = Block.of(payloads), len(self._schema)
        count = len(block)
        room = columns * count
        words, tails = np.empty(room, np.int64), np.empty(room, np.int64)
        reals, nulls = words.view(np.float64), np.empty(room, np.uint8)
        rows, hard = np.empty(count, np.int64), np.empty((3, room + columns + 1), np.int64)
        made = np.zeros(3, np.int64)
        self._loops.scan(
            block.data, block.starts, block.ends, self._names, self._name_ends, self._kinds, self._narrow, self._lenient,
            words, reals, tails, nulls, rows, hard, np.zeros(5, np.int64), made, *self._words,
        )  # fmt: skip
        if made[2] and not is_utf8(block.data[int(block.starts[0]) : int(block.ends[-1])].tobytes()):
            return None
        for place, start, end in hard[:, : made[1]].T.tolist():
            reals[place] = float(block.data[start:end].tobytes())
        kept = int(made[0])
        spans = [slice(i * count, i * count + kept) for i in range(columns)]
        arrays = [
            self._array(block, c.type, words[span], reals[span], tails[span], nulls[span])
            for c, span in zip(self._schema.columns, spans)
        ]
        return Read(pa.RecordBatch.from_arrays(arrays, schema=self._arrow), rows[:kept])

    def _array(
        self, block: Block, kind: Type, words: npt.NDArray[np.int64], reals: npt.NDArray[np.float64],
        tails: npt.NDArray[np.int64], nulls: Bytes,
    ) -> pa.Array:  # fmt: skip
        count = len(words)
        missing = int(nulls.sum())  # 1 for each null
        valid = None if not missing else pa.py_buffer(np.packbits(nulls == 0, bitorder="little"))
        if kind is Type.STRING:
            return self._strings(block, words, tails, valid)
        if kind in (Type.FLOAT, Type.DOUBLE):
            values = reals.astype(np.float32) if kind is Type.FLOAT else reals.copy()
        elif kind is Type.BOOL:
            return pa.Array.from_buffers(
                pa.bool_(), count, [valid, pa.py_buffer(np.packbits(words == 1, bitorder="little"))]
            )
        else:
            values = words.astype(np.int32) if kind is Type.INT else words.copy()  # type: ignore[assignment]  # other numbers
        return pa.Array.from_buffers(ARROW[kind], count, [valid, pa.py_buffer(values)])

    def _strings(
        self, block: Block, starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64], valid: pa.Buffer | None
    ) -> pa.Array:
        offsets = np.zeros(len(starts) + 1, np.int32)
        np.cumsum(ends - starts, out=offsets[1:])
        out = np.empty(int(offsets[-1]), np.uint8)
        self._loops.gather(block.data, starts, ends, offsets, out)
        return pa.Array.from_buffers(pa.string(), len(starts), [valid, pa.py_buffer(offsets), pa.py_buffer(out)])


def _bytes(text: str) -> Bytes:
    return np.frombuffer(text.encode(), np.uint8)
