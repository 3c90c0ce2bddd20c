"""`@sink(type='file')`: exactly once into one growing file (`file.uri`), or as a folder of part files (`dir.uri`).

Each message is a line (or several, where the mapper makes such) in the order cut, bucket, number. `append='false'` empties the file when the app starts with a
new state folder. The file belongs to the sink: what others add to it after the last cut is cut off. Parquet and Arrow need `dir.uri`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from nadi.errors import error
from nadi.io.block import Block
from nadi.io.contract import Connector, Delivery, Place, Receipt
from nadi.io.mappers.csv_sink import CsvSink
from nadi.io.options import Option, flag
from nadi.io.registry import SinkKind, map_type
from nadi.io.sinks import ledger
from nadi.io.sinks.appender import Appender
from nadi.io.sinks.parts import Parts

_WHOLE = {"parquet": "parquet", "arrow": "arrow", "passthrough": "arrow"}
_ENDINGS = {"json": "json", "csv": "csv"}


class FileSink:
    """Lines into one file."""

    guarantee = "exactly once"

    def __init__(self, appender: Appender) -> None:
        self._appender = appender

    def write(self, delivery: Delivery) -> Receipt:
        data = lines_of(delivery.payloads)
        return Receipt(delivery.bucket, delivery.cut, self._appender.hand(delivery.cut, delivery.bucket, data))

    def commit(self, cut: int, receipts: Sequence[Receipt]) -> None:
        self._appender.take(cut, receipts)

    def close(self) -> None:
        """Nothing is held open."""


class FolderSink:
    """Part files into a folder: lines, or whole batches as parquet or Arrow."""

    guarantee = "exactly once"

    def __init__(self, parts: Parts, names: Sequence[str], whole: str, header: bytes) -> None:
        self._parts = parts
        self._names = list(names)
        self._whole = whole
        self._header = header

    def write(self, delivery: Delivery) -> Receipt:
        rows = delivery.batch.select(self._names)
        data = _file_of(rows, self._whole) if self._whole else self._header + lines_of(delivery.payloads)
        return Receipt(delivery.bucket, delivery.cut, self._parts.stage(delivery.cut, delivery.bucket, data))

    def commit(self, cut: int, receipts: Sequence[Receipt]) -> None:
        self._parts.commit(cut, [str(r.content["name"]) for r in receipts])

    def close(self) -> None:
        """Nothing is held open."""


def lines_of(payloads: Sequence[bytes]) -> bytes:
    """Messages with a line end after each."""
    if isinstance(payloads, Block):
        return payloads.lines()
    return b"\n".join(payloads) + b"\n" if payloads else b""


def _file_of(batch: pa.RecordBatch, kind: str) -> bytes:
    out = pa.BufferOutputStream()
    if kind == "parquet":
        pq.write_table(pa.Table.from_batches([batch]), out)
    else:
        with pa.ipc.new_file(out, batch.schema) as writer:
            writer.write_batch(batch)
    return bytes(out.getvalue())


def _location(connector: Connector) -> tuple[str, bool]:
    """(path, whether it is a folder)."""
    where = f"@sink of {connector.stream} (file)"
    given = [(connector.options[n], n == "dir.uri") for n in ("file.uri", "dir.uri") if connector.options.get(n)]
    if len(given) != 1:
        raise error("OPTION_MISSING", connector.map.span, where=where, name="file.uri' or (one of them) 'dir.uri")
    path = given[0][0].removeprefix("file://").removeprefix("file:")
    if "://" in path or "{{" in path:
        raise error("NOT_SUPPORTED", what=f"{path} in {where}", alternative="name one local or mounted file or folder")
    if not given[0][1] and map_type(connector) in _WHOLE:
        what = f"one growing file of {map_type(connector)} in {where}"
        raise error("NOT_SUPPORTED", what=what, alternative="give dir.uri: a folder of part files")
    return os.path.abspath(path), given[0][1]


def open_file_sink(connector: Connector, place: Place) -> FileSink | FolderSink:
    """The target of a file sink. Errors: OPTION_MISSING, NOT_SUPPORTED."""
    path, is_folder = _location(connector)
    kept = ledger.folder(connector, place)
    kind = map_type(connector)
    names = CsvSink(connector).header if kind == "csv" else None
    header = names + b"\n" if names is not None else b""
    if not is_folder:
        return FileSink(Appender(kept, Path(path), flag(connector.options, "append", True), header, output=True))
    whole = _WHOLE.get(kind, "")
    return FolderSink(
        Parts(kept, Path(path), whole or _ENDINGS.get(kind, "txt")), connector.schema.names, whole, header
    )


KIND = SinkKind(
    options=(
        Option("file.uri"),
        Option("dir.uri"),
        Option("append", kind="bool"),
        Option("add.line.separator", choices=("true",)),
    ),
    open=open_file_sink,
    sole=lambda connector: _location(connector)[0],
    local=True,
)
