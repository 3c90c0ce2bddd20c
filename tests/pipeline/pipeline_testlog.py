"""Connectors for tests of the pipeline: a file is the log, another file the target, and nothing of `nadi.io` but the contract is needed.

A log file has lines `time<TAB>json array`; `kind` says whether its times are known without reading. The sink writes each cut of each bucket to a file
of its own, so that a second write replaces the first. With `refuse`, a file, it gets a payload per chunk and refuses those that have the file's text in
them. With `hold`, a file, it tells of each bucket that it is asked to write (`<file>-<bucket>`) and comes to no end while the file is there.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from nadi.errors import error
from nadi.io.contract import Connector, Decoded, Delivery, Messages, Place, Receipt, Refusal, Undecodable
from nadi.kernel.arrow import arrow_schema
from nadi.kernel.contract import CHUNK, GROUP
from nadi.lang.tree import Annotation
from nadi.plan.nodes import App

__all__ = ["connectors", "make_ingress", "make_sink_mapper", "make_source_mapper", "open_log", "open_sink"]


class LineLog:
    """Partition p is the file `<path>-<p>`, or the only one `<path>`."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._path = Path(options["file"])
        self._count = int(options.get("partitions", "1"))
        self._known = options.get("kind", "known") == "known"
        self._endless = options.get("endless", "false") == "true"

    def _lines(self, partition: int) -> list[tuple[int, bytes]]:
        path = self._path if self._count == 1 else Path(f"{self._path}-{partition}")
        if self._path.with_suffix(".away").exists():
            raise error("CONNECTION_UNAVAILABLE", connector="test log", reason="it is away")
        content = path.read_bytes() if path.exists() else b""
        whole = content[: content.rfind(b"\n") + 1].splitlines()
        return [(int(time), rest) for time, rest in (line.split(b"\t", 1) for line in whole)]

    def partitions(self) -> int:
        return self._count

    def beginning(self, partition: int) -> int:
        return 0

    def end(self, partition: int) -> int:
        return len(self._lines(partition))

    def finished(self) -> bool:
        return not self._endless

    def times(self, partition: int, start: int, end: int) -> np.ndarray | None:
        times = [t for t, _ in self._lines(partition)[start:end]]
        return np.array(times, np.int64) if self._known else None

    def read(self, partition: int, start: int, end: int) -> Iterator[Messages]:
        lines = self._lines(partition)[start:end]
        for at in range(0, len(lines), 1000):
            piece = lines[at : at + 1000]
            positions = np.arange(start + at, start + at + len(piece), dtype=np.int64)
            yield Messages(positions, np.array([t for t, _ in piece], np.int64), [p for _, p in piece])

    def acknowledge(self, partition: int, position: int) -> None:
        (self._path.parent / f"{self._path.name}.ack-{partition}").write_text(str(position))

    def close(self) -> None:
        pass


class RowMapper:
    """A JSON array is one event; an array of arrays a chunk of several."""

    def __init__(self, connector: Connector) -> None:
        self._schema = arrow_schema(connector.schema)

    def decode(self, messages: Messages) -> Decoded:
        rows, message, failures = [], [], []
        for i, payload in enumerate(messages.payloads):
            try:
                told = json.loads(payload)
            except ValueError as reason:
                failures.append(Undecodable(int(messages.positions[i]), str(reason), bytes(payload)))
                continue
            for row in told if told and isinstance(told[0], list) else [told]:
                rows.append(row)
                message.append(i)
        columns = [pa.array([r[k] for r in rows], field.type) for k, field in enumerate(self._schema)]
        batch = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        return Decoded(batch, np.array(message, np.int64), None, tuple(failures))


class RowSinkMapper:
    """One JSON line per row, one payload per batch."""

    def encode(self, batch: pa.RecordBatch) -> tuple[Sequence[bytes], Sequence[int]]:
        lines = [json.dumps(row) for row in batch.to_pylist()]
        return ["\n".join(lines).encode() + b"\n"], [0]


class ChunkSinkMapper:
    """A payload per chunk: its rows, a JSON line each."""

    def encode(self, batch: pa.RecordBatch) -> tuple[Sequence[bytes], Sequence[int]]:
        chunks = [*zip(batch.column(GROUP).to_pylist(), batch.column(CHUNK).to_pylist(), strict=True)]
        firsts = [i for i, chunk in enumerate(chunks) if i == 0 or chunks[i - 1] != chunk]
        lines = [json.dumps(row).encode() + b"\n" for row in batch.to_pylist()]
        return [b"".join(lines[a:b]) for a, b in zip(firsts, [*firsts[1:], len(lines)], strict=True)], firsts


class FolderSink:
    """`<file>/<cut>-<bucket>.jsonl`, visible when committed."""

    def __init__(self, folder: Path, refuse: Path | None = None, hold: Path | None = None) -> None:
        self._folder = folder
        self._hold = hold
        self._refuse = refuse
        folder.mkdir(parents=True, exist_ok=True)

    def write(self, delivery: Delivery) -> Receipt:
        while self._hold is not None and self._hold.exists():
            Path(f"{self._hold}-{delivery.bucket}").touch()
            time.sleep(0.01)
        name = f"{delivery.cut:06d}-{delivery.bucket}"
        word = self._refuse.read_bytes() if self._refuse is not None and self._refuse.exists() else None
        refused = [i for i, p in enumerate(delivery.payloads) if word is not None and word in p]
        taken = [p for i, p in enumerate(delivery.payloads) if i not in refused]
        (self._folder / f"{name}.staged").write_bytes(b"".join(taken))
        named = tuple(Refusal(i, f"it has {word!r}") for i in refused)
        return Receipt(delivery.bucket, delivery.cut, {"name": name}, named)

    def commit(self, cut: int, receipts: Sequence[Receipt]) -> None:
        for receipt in receipts:
            staged = self._folder / f"{receipt.content['name']}.staged"
            if staged.exists():
                staged.replace(staged.with_suffix(".jsonl"))

    def close(self) -> None:
        pass


def connectors(app: App, kind: str) -> tuple[Connector, ...]:
    found = [(s, a) for s in app.streams.values() if s.defined for a in s.annotations if a.name.lower() == kind]
    return tuple(
        Connector(s.key, s.schema, "test", {e.key.lower(): e.value for e in a.elements}, Annotation("map"), i)
        for i, (s, a) in enumerate(found)
    )


def open_log(connector: Connector, place: Place) -> LineLog:
    return LineLog(connector.options)


def open_sink(connector: Connector, place: Place) -> FolderSink:
    refuse, hold = (
        None if name not in connector.options else Path(connector.options[name]) for name in ("refuse", "hold")
    )
    return FolderSink(Path(connector.options["file"]), refuse, hold)


def make_source_mapper(connector: Connector) -> RowMapper:
    return RowMapper(connector)


def make_sink_mapper(connector: Connector) -> RowSinkMapper | ChunkSinkMapper:
    return ChunkSinkMapper() if "refuse" in connector.options else RowSinkMapper()


def make_ingress(connector: Connector, place: Place) -> None:
    return None


def committed(folder: Path) -> list[dict[str, object]]:
    """The rows of a FolderSink, in order of cuts and buckets."""
    files = sorted(folder.glob("*.jsonl"))
    return [json.loads(line) for path in files for line in path.read_text().splitlines()]
