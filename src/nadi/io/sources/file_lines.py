"""Files of lines: where the rows are, and rows out of the middle of a file.

A row is a line that is not empty; the last one may lack its line end. \\r before a line end and a byte order mark are
no part of it. Offsets count bytes of the text, so
of what a compressed file holds unpacked.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

STRIDE = 10_000
BLOCK = 4 << 20
PACKED_BLOCK = 1 << 16  # what comes before a break in a packed file is given out in steps of this size
COMPRESSED = {".gz", ".bz2", ".zst", ".lz4"}
UNREADABLE_TEXT = (OSError, EOFError, zlib.error, pa.ArrowException)
"""What reading a file may raise, where it is damaged."""


@dataclass(frozen=True, slots=True)
class LineIndex:
    """`rows` in all; `offsets[k]` is where row k * STRIDE begins; `broken` why reading stopped early, "" where it did not."""

    rows: int
    offsets: npt.NDArray[np.int64]
    header: str | None
    broken: str


def open_text(path: Path) -> Any:
    """The text of a file as a stream of bytes, unpacked if its name says it is packed."""
    return pa.input_stream(str(path), compression="detect") if path.suffix in COMPRESSED else path.open("rb")


def whole_file(path: Path, has_header: bool) -> tuple[str, bytes]:
    """(its first line where that is a header, all the rest) of a file, without a byte order mark."""
    with open_text(path) as stream:
        text: bytes = stream.read()
    text = text.removeprefix(b"\xef\xbb\xbf")
    if not has_header:
        return "", text
    header, _, rest = text.lstrip(b"\r\n").partition(b"\n")
    return header.rstrip(b"\r").decode("utf-8", "replace"), rest


def index_lines(path: Path, has_header: bool, quote: bytes) -> LineIndex:
    """Where the rows of a file are; `quote` is set where line ends inside quotes are part of a row."""
    offsets: list[npt.NDArray[np.int64]] = []
    rows, header, broken = 0, None, ""
    pieces = lines_from(path, 0, quote)
    while True:
        try:
            at, lines = next(pieces)
        except StopIteration:
            break
        except UNREADABLE_TEXT as e:
            broken = f"it cannot be read beyond row {rows}: {e}"
            break
        if has_header and header is None and lines:
            header = lines[0].decode("utf-8-sig", "replace")
            at, lines = at[1:], lines[1:]
        offsets.append(at[(-rows) % STRIDE :: STRIDE])
        rows += len(lines)
    joined = np.concatenate(offsets) if offsets else np.zeros(0, np.int64)
    return LineIndex(rows, joined.astype(np.int64), header, broken)


def lines_from(
    path: Path, offset: int, quote: bytes, block: int = 0
) -> Iterator[tuple[npt.NDArray[np.int64], list[bytes]]]:
    """(offsets, lines) of the rows from a byte offset that begins one, in pieces of about `block` bytes (4 MB)."""
    with open_text(path) as stream:
        kept = _skip(stream, path, offset) if offset else b""
        yield from split_lines(stream, offset, quote, kept, block or BLOCK)


def split_lines(
    stream: Any, offset: int, quote: bytes, kept: bytes, block_size: int
) -> Iterator[tuple[npt.NDArray[np.int64], list[bytes]]]:
    """As `lines_from`, of a stream of which `kept` was read from `offset` on. What came before an error of the stream is given out first."""
    size = PACKED_BLOCK if isinstance(stream, pa.NativeFile) else block_size
    while True:
        failure: Exception | None = None
        try:
            block = stream.read(size)
        except UNREADABLE_TEXT as e:
            failure, block = e, b""
        text = kept + block
        if not offset and text.startswith(b"\xef\xbb\xbf"):
            text, offset = text[3:], 3
        ends = _line_ends(text, quote)
        stop = int(ends[-1]) + 1 if len(ends) else 0
        if not block and failure is None and stop < len(text):  # the last line has no end
            ends, stop = np.append(ends, len(text)), len(text)
        if len(ends):
            at, lines = _cut(text, ends)
            if lines:
                yield at + offset, lines
        if failure is not None:
            raise failure
        if not block:
            return
        kept, offset = text[stop:], offset + stop


def _line_ends(text: bytes, quote: bytes) -> npt.NDArray[np.int64]:
    raw = np.frombuffer(text, np.uint8)
    ends = np.flatnonzero(raw == 10)
    if quote and len(ends):
        quotes = np.flatnonzero(raw == quote[0])
        ends = ends[np.searchsorted(quotes, ends) % 2 == 0]
    return ends.astype(np.int64)


def _cut(text: bytes, ends: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], list[bytes]]:
    starts = np.concatenate(([0], ends[:-1] + 1)).astype(np.int64)
    stops = ends.copy()
    raw = np.frombuffer(text, np.uint8)
    stops[(stops > starts) & (raw[np.maximum(stops, 1) - 1] == 13)] -= 1
    full = stops > starts
    starts, stops = starts[full], stops[full]
    return starts, [text[a:b] for a, b in zip(starts.tolist(), stops.tolist())]


def _skip(stream: Any, path: Path, offset: int) -> bytes:
    """Goes to an offset; what was read beyond it comes back. A packed file is read in the same steps from wherever, so that all break at the same row."""
    if path.suffix not in COMPRESSED:
        stream.seek(offset)
        return b""
    at, block = 0, b""
    while at < offset:
        block = stream.read(PACKED_BLOCK)
        if not block:
            raise OSError(f"{path} ends before byte {offset}")
        at += len(block)
    return block[len(block) - (at - offset) :]
