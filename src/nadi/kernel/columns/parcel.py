"""Whole rows that wait: appended at the end, taken all at once.

They lie in pieces as they came, as numpy arrays: `ts`; of column n the values `v<n>` and nulls `z<n>`, of strings the lengths `l<n>` in bytes and the
bytes `b<n>`. So pieces are put beside each other array by array, and a block of state is a piece.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from nadi.kernel.columns.bounds import check_places, many, single, values
from nadi.kernel.columns.flat import BLOCK_BYTES, Block
from nadi.kernel.columns.stretch import DTYPES, Array, Column, Longs, Stretch
from nadi.lang.tree import Type

Piece = dict[str, Array]
_MOST = (1 << 31) - 1  # bytes of texts that go on at once


class Parcel:
    """Rows with columns of some types."""

    def __init__(self, element: str, types: tuple[Type, ...]) -> None:
        self._element = element
        self._types = types
        self.clear()

    def clear(self) -> None:
        """Forget all."""
        self._pieces: list[Piece] = []
        self._count = 0
        self._came = 0  # rows at the end that the last delta did not know
        self._taken = False  # whether those that it knew are gone

    def __len__(self) -> int:
        return self._count

    def add(self, rows: Stretch) -> None:
        """Append rows."""
        piece: Piece = {"ts": rows.ts}
        for number, (column, kind) in enumerate(zip(rows.columns, self._types, strict=True)):
            piece[f"z{number}"] = column.nulls()[: len(rows)]
            if kind is Type.STRING:
                piece[f"l{number}"], piece[f"b{number}"] = _packed(column.array())
            else:
                piece[f"v{number}"] = column.values()
        self._append({name: np.array(array) for name, array in piece.items()})

    def _append(self, piece: Piece) -> None:
        self._pieces.append(piece)
        self._count += len(piece["ts"])
        self._came += len(piece["ts"])

    def take(self) -> tuple[tuple[Column, ...], Longs]:
        """All rows, as columns and timestamps; none are left."""
        whole = self._joined(self._pieces)
        self._pieces, self._count, self._came, self._taken = [], 0, 0, True
        columns = []
        for number, kind in enumerate(self._types):
            nulls = whole[f"z{number}"]
            if kind is Type.STRING:
                columns.append(Column(_unpacked(whole[f"l{number}"], whole[f"b{number}"], nulls)))
            else:
                columns.append(Column(None, whole[f"v{number}"], nulls))
        return tuple(columns), whole["ts"]

    def _joined(self, pieces: list[Piece]) -> Piece:
        if not pieces:
            return self._nothing()
        return {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}

    def _nothing(self) -> Piece:
        piece: Piece = {"ts": np.zeros(0, np.int64)}
        for number, kind in enumerate(self._types):
            piece[f"z{number}"] = np.zeros(0, np.bool_)
            if kind is Type.STRING:
                piece |= {f"l{number}": np.zeros(0, np.int32), f"b{number}": np.zeros(0, np.uint8)}
            else:
                piece[f"v{number}"] = np.zeros(0, DTYPES[kind])
        return piece

    # ---- state

    def changes(self) -> Iterator[Block]:
        """Whether what the last delta knew is gone, and what came."""
        if not self._taken and not self._came:
            return
        came: list[Piece] = []
        rest = self._came
        while rest > 0:
            came.append(self._pieces[-1 - len(came)])
            rest -= len(came[-1]["ts"])
        whole = self._joined(came[::-1])
        yield self._block(whole, self._taken)
        self._settle()

    def contents(self) -> Iterator[Block]:
        """All rows."""
        size = 0
        some: list[Piece] = []
        for piece in self._pieces:
            some.append(piece)
            size += sum(array.nbytes for array in piece.values())
            if size > BLOCK_BYTES:
                yield self._block(self._joined(some), False)
                some, size = [], 0
        if some:
            yield self._block(self._joined(some), False)
        self._settle()

    def _settle(self) -> None:
        self._came, self._taken = 0, False

    def _block(self, whole: Piece, taken: bool) -> Block:
        return Block(self._element, 0, "r", {"taken": np.array([taken], np.int64), **whole})

    def apply(self, block: Block) -> None:
        """Put rows back behind those that are there, or in their place. Raises ValueError where the block is none of them."""
        given = block.arrays
        if single(given, "taken"):
            self.clear()
        if count := len(many(given, "ts", np.int64)):
            self._append(self._piece(given, count))
        self._settle()

    def _piece(self, given: Mapping[str, Array], count: int) -> Piece:
        """The rows of a block."""
        piece: Piece = {"ts": given["ts"]}
        for number, kind in enumerate(self._types):
            piece[f"z{number}"] = nulls = values(given, f"z{number}", np.bool_, count)
            if kind is not Type.STRING:
                piece[f"v{number}"] = values(given, f"v{number}", DTYPES[kind], count)
                continue
            piece[f"l{number}"] = lengths = values(given, f"l{number}", np.int32, count)
            piece[f"b{number}"] = texts = many(given, f"b{number}", np.uint8)
            check_places(lengths, len(texts) + 1, "the end of a text")
            held = sum(len(other[f"b{number}"]) for other in self._pieces)
            if lengths.sum(dtype=np.int64) != len(texts) or held + len(texts) > _MOST:
                raise ValueError("its texts are not where it says")
            _unpacked(lengths, texts, nulls).validate(full=True)
        return piece


def _packed(array: pa.Array) -> tuple[Array, Array]:
    """The lengths of strings, and their bytes one after the other."""
    _validity, offsets, data = array.buffers()
    if not len(array):
        return np.zeros(0, np.int32), np.zeros(0, np.uint8)
    ends = np.frombuffer(offsets, np.int32, len(array) + 1, 4 * array.offset)
    texts = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)[ends[0] : ends[-1]]
    return np.diff(ends), texts


def _unpacked(lengths: Array, texts: Array, nulls: Array) -> pa.Array:
    ends = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=ends[1:])
    valid = pa.py_buffer(np.packbits(~nulls, bitorder="little")) if nulls.any() else None
    buffers = [valid, pa.py_buffer(ends), pa.py_buffer(np.ascontiguousarray(texts))]
    return pa.Array.from_buffers(pa.string(), len(lengths), buffers, int(nulls.sum()))


def joined(one: Column, other: Column, kind: Type) -> Column:
    """Two columns, one after the other."""
    if kind is Type.STRING:
        return Column(pa.concat_arrays([one.array(), other.array()]))
    sizes = one.size, other.size
    nulls = np.concatenate([one.nulls()[: sizes[0]], other.nulls()[: sizes[1]]])
    return Column(None, np.concatenate([one.values(), other.values()]), nulls)
