"""Comparing a replay with what the file sinks of the live app hold: growing files, and folders of part files.

A growing file is compared from its end: its ledger says how long it was after which cut, and what the replay makes for the cuts up to there must be the
bytes before it. So the comparison holds whatever stood in the file when the app began, and whatever state a replay began with.
"""

from __future__ import annotations

import tempfile
from bisect import bisect_right
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from nadi.io.block import lines_of
from nadi.io.contract import Connector, Place, SinkMapper, Verdict
from nadi.io.mappers.csv_sink import CsvSink
from nadi.io.registry import make_sink_mapper
from nadi.io.sinks import ledger
from nadi.io.sinks.appender import Ledger

PIECE = 1 << 20
SHOWN = 200  # characters of a line that differs


class FileReadBack:
    """One growing file. Implements `ReadBack`."""

    def __init__(self, connector: Connector, place: Place, target: Path) -> None:
        self._stream = connector.stream
        self._mapper = make_sink_mapper(connector)
        self._target = target
        noted = ledger.folder(connector, place) / "append.json"
        self._ledger = msgspec.json.decode(noted.read_bytes(), type=Ledger) if noted.exists() else Ledger(-1, 0)
        self.through = self._ledger.cut
        self._header = _header(self._mapper)
        self._kept = tempfile.TemporaryFile()  # noqa: SIM115 (see `close`)
        self._before = self._size = self._after = 0  # bytes of cuts before the stretch, in it, after it
        self._cuts: list[int] = []
        self._begins: list[int] = []

    def note(self, cut: int, bucket: int, batch: pa.RecordBatch, inside: bool) -> None:
        if cut > self.through:
            return
        data = lines_of(self._mapper.encode(batch)[0])
        if inside:
            self._cuts.append(cut)
            self._begins.append(self._size)
            self._kept.write(data)
            self._size += len(data)
        elif self._cuts:
            self._after += len(data)
        else:
            self._before += len(data)

    def verdict(self) -> Verdict:
        sink = f"file sink of {self._stream} ({self._target})"
        if self.through < 0:
            return Verdict(sink, None, "has no committed cut yet")
        if not self._cuts:
            return Verdict(sink, None, f"has no row of these cuts up to {self.through}, its last one")
        if not self._target.exists():
            return Verdict(sink, False, "is no longer there")
        start = self._ledger.length - self._after - self._size
        same = self._same_from(start) if start >= 0 else -1
        if same == self._size:
            return Verdict(sink, True, f"equal to what was emitted in cuts {self._cuts[0]} to {self._cuts[-1]}")
        # Where lengths differ, the first difference is seen from the front.
        front = len(self._header) + self._before
        from_front = self._same_from(front)
        return Verdict(
            sink, False, self._difference(from_front, front) if from_front > same else self._difference(same, start)
        )

    def close(self) -> None:
        self._kept.close()

    def _same_from(self, start: int) -> int:
        """How many bytes the target has in common with what is kept, from a place in it on."""
        self._kept.seek(0)
        with self._target.open("rb") as target:
            target.seek(start)
            at = 0
            while wanted := self._kept.read(PIECE):
                found = target.read(len(wanted))
                if wanted != found:
                    return at + _first_difference(wanted, found)
                at += len(wanted)
        return at

    def _difference(self, at: int, start: int) -> str:
        if at >= self._size:
            return "has more rows than the replay gives"
        block = bisect_right(self._begins, at) - 1
        cut, begin = self._cuts[block], self._begins[block]
        self._kept.seek(begin)
        begin += self._kept.read(at - begin).rfind(b"\n") + 1
        with self._target.open("rb") as target:
            target.seek(start + begin)
            found = target.readline()
        self._kept.seek(begin)
        wanted = self._kept.readline()
        return f"differs in cut {cut}: it has {_shown(found)} where the replay gives {_shown(wanted)}"


class FolderReadBack:
    """Part files, one per cut and bucket. Implements `ReadBack`."""

    def __init__(self, connector: Connector, place: Place, target: Path) -> None:
        self._stream = connector.stream
        self._mapper = make_sink_mapper(connector)
        self._names = list(connector.schema.names)
        self._target = target
        folder = ledger.folder(connector, place)
        done = ledger.read(folder / "parts.json")
        self.through = done if isinstance(done, int) else -1
        self._run = ledger.read(folder / "run.json")
        self._compared = 0
        self._away = 0
        self._wrong = ""

    def note(self, cut: int, bucket: int, batch: pa.RecordBatch, inside: bool) -> None:
        if not inside or cut > self.through:
            return
        found = list(self._target.glob(f"part-{self._run}-{cut:010}-{bucket:05}.*"))
        if not found:
            self._away += 1
            return
        self._compared += 1
        if not self._wrong and not self._same(found[0], batch):
            self._wrong = f"differs in cut {cut}: {found[0].name} does not hold what the replay gives"

    def _same(self, path: Path, batch: pa.RecordBatch) -> bool:
        rows = pa.Table.from_batches([batch.select(self._names)])
        if path.suffix == ".parquet":
            return bool(pq.read_table(path).equals(rows))
        if path.suffix == ".arrow":
            with pa.OSFile(str(path)) as file:
                return bool(pa.ipc.open_file(file).read_all().equals(rows))
        return path.read_bytes() == _header(self._mapper) + lines_of(self._mapper.encode(batch)[0])

    def verdict(self) -> Verdict:
        sink = f"file sink of {self._stream} ({self._target})"
        away = f"; {self._away} parts are no longer there" if self._away else ""
        if self._wrong:
            return Verdict(sink, False, self._wrong + away)
        if not self._compared:
            return Verdict(sink, None, f"nothing to compare{away}")
        return Verdict(sink, True, f"equal to what was emitted, {self._compared} parts{away}")

    def close(self) -> None:
        """Nothing is held open."""


def _header(mapper: SinkMapper) -> bytes:
    """The line that opens a file."""
    names = mapper.header if isinstance(mapper, CsvSink) else None
    return b"" if names is None else names + b"\n"


def _first_difference(one: bytes, other: bytes) -> int:
    return next((i for i, (a, b) in enumerate(zip(one, other)) if a != b), min(len(one), len(other)))


def _shown(line: bytes) -> str:
    text = line.decode("utf-8", "replace").rstrip("\n")
    return repr(text[:SHOWN]) if text else "nothing"
