"""Many byte strings in one piece of memory: what comes from a log, or goes to a sink, without an object each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

LINE_END = ord("\n")


class Block(Sequence[bytes]):
    """Byte strings, of which number i is `data[starts[i]:ends[i]]`; what lies between them belongs to none.

    Whoever wants them one by one gets `bytes`; whoever has a loop takes the arrays.

    Args:
        data: uint8.
        starts, ends: int64, of one length; ascending, and without overlaps.

    >>> block = Block.of([b"one", b"", b"three"])
    >>> block[2], list(block[:2])
    (b'three', [b'one', b''])
    """

    __slots__ = ("data", "ends", "starts")

    def __init__(self, data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]) -> None:
        self.data = data
        self.starts = starts
        self.ends = ends

    @classmethod
    def of(cls, parts: Sequence[bytes]) -> Block:
        """The same strings, behind each other."""
        if isinstance(parts, Block):
            return parts
        ends = np.cumsum(np.fromiter(map(len, parts), np.int64, len(parts)))
        starts = np.concatenate([np.zeros(1, np.int64), ends[:-1]]) if len(parts) else ends
        return cls(np.frombuffer(b"".join(parts), np.uint8), starts, ends)

    def __len__(self) -> int:
        return len(self.starts)

    @overload
    def __getitem__(self, index: int) -> bytes: ...

    @overload
    def __getitem__(self, index: slice) -> Block: ...

    def __getitem__(self, index: int | slice) -> bytes | Block:
        if isinstance(index, slice):
            return Block(self.data, self.starts[index], self.ends[index])
        return self.data[self.starts[index] : self.ends[index]].tobytes()

    def __iter__(self) -> Iterator[bytes]:
        if not len(self):
            return iter(())
        first = int(self.starts[0])
        whole = self.data[first : int(self.ends[-1])].tobytes()
        return (whole[a - first : b - first] for a, b in zip(self.starts.tolist(), self.ends.tolist()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and all(a == b for a, b in zip(self, other))

    __hash__ = None  # type: ignore[assignment]  # as lists

    def __repr__(self) -> str:
        return f"Block of {len(self)} in {self.nbytes} bytes"

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        found: npt.NDArray[np.int64] = self.ends - self.starts
        return found

    @property
    def nbytes(self) -> int:
        """Bytes of all strings together."""
        return int(self.lengths.sum())

    def taken(self, indices: npt.NDArray[Any]) -> Block:
        """Those at some places, in ascending order."""
        return Block(self.data, self.starts[indices], self.ends[indices])

    def lines(self) -> bytes:
        """All strings, a line end after each."""
        if not len(self):
            return b""
        last = int(self.ends[-1])
        lined = last < len(self.data) and bool((self.data[self.ends] == LINE_END).all())
        if lined and np.array_equal(self.starts[1:], self.ends[:-1] + 1):
            return self.data[int(self.starts[0]) : last + 1].tobytes()
        return b"\n".join(self) + b"\n"


def bytes_of(payloads: Sequence[bytes] | pa.RecordBatch) -> int:
    """How many bytes payloads have together."""
    return int(payloads.nbytes) if isinstance(payloads, (Block, pa.RecordBatch)) else sum(map(len, payloads))


def lines_of(payloads: Sequence[bytes]) -> bytes:
    """Messages with a line end after each."""
    if isinstance(payloads, Block):
        return payloads.lines()
    return b"\n".join(payloads) + b"\n" if payloads else b""
