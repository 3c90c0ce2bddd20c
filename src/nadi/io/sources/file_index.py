"""One file of a file source: what is in it, found once, and rows out of the middle of it."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nadi.io.contract import Connector, Messages
from nadi.io.mappers.csv_records import records
from nadi.io.mappers.mapannotation import delimiter_of, map_options
from nadi.io.registry import make_source_mapper, map_type
from nadi.io.sources.file_lines import BLOCK, COMPRESSED, STRIDE, UNREADABLE_TEXT, index_lines, lines_from, whole_file
from nadi.io.sources.file_typed import BROKEN, TypedFile, typed_rows
from nadi.plan.options import flag

NO_TIME = -(2**63)
WHOLE = "whole"
"""The kind of a file that is one message."""
_TYPED = {".parquet": "parquet", ".arrow": "arrow", ".feather": "arrow"}


@dataclass(frozen=True, slots=True)
class Index:
    """`offsets`: of lines where every 10,000th begins, of typed rows the first of every block and the end.

    Where `broken` is set, the last of the `rows` stands for what cannot be read.
    """

    kind: str
    rows: int
    offsets: npt.NDArray[np.int64]
    header: tuple[str, ...] = ()
    broken: str = ""


class Reader:
    """Reads files as the @map of a source says."""

    def __init__(self, connector: Connector) -> None:
        options = map_options(connector)
        self._connector = connector
        self._csv = map_type(connector) == "csv"
        self._has_header = self._csv and flag(options, "header", False)
        self._delimiter, self._quote = delimiter_of(connector), options.get("quote", '"')
        self._multiline = self._csv and flag(connector.options, "multiline", False)
        self._passed = flag(connector.options, "header.present", False)  # the first line is no event, whatever it has
        self._whole = connector.options.get("mode", "").upper() == "TEXT.FULL"
        self._timed = "event.time" in connector.options
        self._open: tuple[Path, int, TypedFile] | None = None
        self._stopped: tuple[Path, int, list[bytes], Iterator[list[bytes]]] | None = None

    def index(self, path: Path) -> Index:
        kind = _TYPED.get(path.suffix.lower()) or {"parquet": "parquet", "arrow": "arrow"}.get(
            map_type(self._connector), "lines"
        )
        if kind == "lines" and self._whole:
            return self._index_whole(path)
        if kind == "lines":
            quote = self._quote.encode() if self._multiline else b""
            found = index_lines(path, self._has_header or self._passed, quote)
            header: tuple[str, ...] = ()
            if found.header and self._has_header:
                header = tuple(f.text for f in records(found.header, self._delimiter, self._quote)[0])
            return Index(kind, found.rows + bool(found.broken), found.offsets, header, found.broken)
        try:
            file = TypedFile(path, kind)
            bounds = file.bounds()
            file.close()
        except BROKEN as e:
            return Index(kind, 1, np.zeros(1, np.int64), (), f"not a {kind} file: {e}")
        return Index(kind, int(bounds[-1]), bounds)

    def _index_whole(self, path: Path) -> Index:
        """A file that is one message; none where there is no line in it."""
        try:
            header, text = whole_file(path, self._has_header or self._passed)
        except UNREADABLE_TEXT as e:
            return Index(WHOLE, 1, np.zeros(1, np.int64), (), f"it cannot be read: {e}")
        names = self._names(header) if self._has_header else ()
        return Index(WHOLE, int(bool(text.strip())), np.zeros(1, np.int64), names)

    def _names(self, header: str) -> tuple[str, ...]:
        try:
            fields = records(header, self._delimiter, self._quote)
        except csv.Error:
            return tuple(header.split(self._delimiter))
        return tuple(f.text.strip() for f in fields[0]) if fields else ()

    def times(self, path: Path, index: Index, before: int, otherwise: int) -> npt.NDArray[np.int64] | None:
        """The running maximum of the event times of all rows, from `before` on (ms); None without `event.time`.

        A row without a time of its own has that of the row before it; `otherwise` if no row has any.
        """
        if not self._timed:
            return None
        own = np.full(index.rows, NO_TIME, np.int64)
        mapper = make_source_mapper(self._connector)
        for at, rows in self.rows(path, index, 0, index.rows - bool(index.broken)):
            if isinstance(rows, str):
                continue
            many = len(rows) if isinstance(rows, list) else rows.num_rows
            unknown = np.full(many, NO_TIME, np.int64)
            found = mapper.decode(Messages(np.arange(at, at + many, dtype=np.int64), unknown, rows, index.header))
            assert found.timestamps is not None
            np.maximum.at(own, found.message + at, found.timestamps)
        running = np.maximum.accumulate(np.concatenate(([before], own)))[1:]
        known = running[running > NO_TIME]
        running[running == NO_TIME] = known[0] if len(known) else otherwise
        return running

    def rows(
        self, path: Path, index: Index, start: int, end: int
    ) -> Iterator[tuple[int, list[bytes] | pa.RecordBatch | str]]:
        """(number of the first, rows) of [start, end) in pieces; a string says why there are no rows there."""
        if start >= end:
            return
        if index.kind == WHOLE:
            yield 0, [whole_file(path, self._has_header or self._passed)[1]]
            return
        if index.kind != "lines":
            yield from typed_rows(self._typed(path, index.kind), index.offsets, start, end)
            return
        at, held, pieces = self._lines(path, index, start, end)
        for lines in chain(held, pieces):
            chosen = lines[max(0, start - at) : end - at]
            if chosen:
                yield max(at, start), chosen
            if at + len(lines) >= end:
                if path.suffix in COMPRESSED:
                    self._stopped = (path, at, lines, pieces)
                return
            at += len(lines)

    def _lines(
        self, path: Path, index: Index, start: int, end: int
    ) -> tuple[int, list[list[bytes]], Iterator[list[bytes]]]:
        """(row, lines from that row on that were read before, those to be read), at or before `start`.

        A packed file has no middle to begin in: reading goes on where it stopped.
        """
        stopped, self._stopped = self._stopped, None
        if stopped is not None and stopped[0] == path and stopped[1] <= start:
            return stopped[1], [stopped[2]], stopped[3]
        at = start - start % STRIDE
        quote = self._quote.encode() if self._multiline else b""
        last = min((end - 1) // STRIDE + 1, len(index.offsets) - 1)
        about = int(index.offsets[last] - index.offsets[at // STRIDE])
        found = lines_from(path, int(index.offsets[at // STRIDE]), quote, min(BLOCK, about or BLOCK))
        return at, [], (lines for _offsets, lines in found)

    def close(self) -> None:
        if self._open is not None:
            self._open[2].close()
            self._open = None
        self._stopped = None

    def _typed(self, path: Path, kind: str) -> TypedFile:
        stamp = path.stat().st_mtime_ns
        if self._open is None or self._open[:2] != (path, stamp):
            self.close()
            self._open = (path, stamp, TypedFile(path, kind))
        return self._open[2]
