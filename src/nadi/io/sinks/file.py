"""`@sink(type='file')`: exactly once into one growing file (`file.uri`), or as a folder of part files (`dir.uri`).

Each message is a line (or several, where the mapper makes such) in the order cut, bucket, number. `append='false'` empties the file when the app starts with a
new state folder. The file belongs to the sink: what others add to it after the last cut is cut off. Parquet and Arrow need `dir.uri`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from nadi.errors import NOWHERE, Span, error
from nadi.io.block import lines_of
from nadi.io.contract import Connector, Delivery, Place, ReadBack, Receipt
from nadi.io.mappers.csv_sink import CsvSink
from nadi.io.reach import Reached
from nadi.io.registry import SinkKind, map_type
from nadi.io.sinks import ledger
from nadi.io.sinks.appender import Appender
from nadi.io.sinks.filereadback import FileReadBack, FolderReadBack
from nadi.io.sinks.parts import Parts
from nadi.plan.connectortraits import EXACTLY_ONCE, SinkTraits
from nadi.plan.options import Option, flag, one_of

_WHOLE = {"parquet": "parquet", "arrow": "arrow", "passthrough": "arrow"}
_ENDINGS = {"json": "json", "csv": "csv"}


class FileSink:
    """Lines into one file."""

    def __init__(self, appender: Appender, check: Callable[[], None]) -> None:
        self._appender = appender
        self._check = check

    def write(self, delivery: Delivery) -> Receipt:
        data = lines_of(delivery.payloads)
        return Receipt(delivery.bucket, delivery.cut, self._appender.hand(delivery.cut, delivery.bucket, data))

    def commit(self, cut: int, receipts: Sequence[Receipt]) -> None:
        self._check()
        self._appender.take(cut, receipts)

    def close(self) -> None:
        """Nothing is held open."""


class FolderSink:
    """Part files into a folder: lines, or whole batches as parquet or Arrow."""

    def __init__(
        self, parts: Parts, names: Sequence[str], whole: str, header: bytes, check: Callable[[], None]
    ) -> None:
        self._parts = parts
        self._names = list(names)
        self._whole = whole
        self._header = header
        self._check = check

    def write(self, delivery: Delivery) -> Receipt:
        self._check()
        rows = delivery.batch.select(self._names)
        data = _file_of(rows, self._whole) if self._whole else self._header + lines_of(delivery.payloads)
        return Receipt(delivery.bucket, delivery.cut, self._parts.stage(delivery.cut, delivery.bucket, data))

    def commit(self, cut: int, receipts: Sequence[Receipt]) -> None:
        self._check()
        self._parts.commit(cut, [str(r.content["name"]) for r in receipts])

    def close(self) -> None:
        """Nothing is held open."""


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
    option, text = one_of(where, connector.options, ("file.uri", "dir.uri"), NOWHERE)
    path = text.removeprefix("file://").removeprefix("file:")
    if "://" in path or "{{" in path:
        what, alternative = f"{path} in {where}", "name one local or mounted file or folder"
        raise error("NOT_SUPPORTED", connector.place(option), what=what, alternative=alternative)
    if option == "file.uri" and map_type(connector) in _WHOLE:
        what = f"one growing file of {map_type(connector)} in {where}"
        alternative = "give dir.uri: a folder of part files"
        raise error("NOT_SUPPORTED", connector.place(option), what=what, alternative=alternative)
    return os.path.abspath(path), option == "dir.uri"


def open_file_sink(connector: Connector, place: Place) -> FileSink | FolderSink:
    """The target of a file sink. Errors: OPTION_MISSING, NOT_SUPPORTED."""
    path, is_folder = _location(connector)
    folder, kept = ledger.folder(connector, place), ledger.kept(connector, place)
    kind = map_type(connector)
    names = CsvSink(connector).header if kind == "csv" else None
    header = names + b"\n" if names is not None else b""
    if not is_folder:
        append, notes = flag(connector.options, "append", True), kept if place.shared else None
        return FileSink(
            Appender(folder, Path(path), append, header, output=True, notes=notes), _checked(connector, place)
        )
    whole = _WHOLE.get(kind, "")
    return FolderSink(
        Parts(
            kept, lambda: ledger.run(ledger.shared(connector, place)), Path(path), whole or _ENDINGS.get(kind, "txt")
        ),
        connector.schema.names,
        whole,
        header,
        _checked(connector, place),
    )


def _checked(connector: Connector, place: Place) -> Callable[[], None]:
    """What to call before the target is touched: it may have become a link since the sink was opened. Errors: PATH_NOT_ALLOWED."""
    where = f"@sink of {connector.stream} (file)"

    def check() -> None:
        for one in _reaches(connector):
            place.reach.check(where, one)

    return check


def _check(connector: Connector, _span: Span) -> None:
    _location(connector)


def _reaches(connector: Connector) -> tuple[Reached, ...]:
    path, is_folder = _location(connector)
    return (Reached("dir.uri" if is_folder else "file.uri", path),)


def _ask(connector: Connector) -> None:
    """Whether what is there may be written, or made. Errors: REFUSED."""
    given, is_folder = _location(connector)
    path = Path(given)
    reason = _why_not(path, folder=True) if is_folder or not path.exists() else _why_not(path, folder=False)
    if reason:
        raise error(
            "REFUSED",
            connector=f"the file system of this worker ({connector.type} sink of {connector.stream})",
            reason=reason,
        )


def _why_not(path: Path, folder: bool) -> str:
    """Why a file, or a folder or the nearest one above it that is there, cannot be written; "" where it can."""
    while folder and not path.exists() and path != path.parent:
        path = path.parent
    if path.is_dir() != folder:
        return f"{path} is {'not a folder' if folder else 'a folder'}"
    return "" if os.access(path, os.W_OK | (os.X_OK if folder else 0)) else f"{path} may not be written"


def _read_back(connector: Connector, place: Place) -> ReadBack:
    path, is_folder = _location(connector)
    return (FolderReadBack if is_folder else FileReadBack)(connector, place, Path(path))


KIND = SinkKind(
    options=(
        Option("file.uri", doc="one file that grows, a line per message; this or `dir.uri`"),
        Option(
            "dir.uri",
            doc=(
                "a folder that gets a file `part-<run>-<cut>-<bucket>.<ending>` per batch and bucket, visible"
                " when it is complete; needed for `parquet`, `arrow` and `passThrough`"
            ),
        ),
        Option(
            "append",
            kind="bool",
            doc=("`false`: with a new state folder, begin with an empty file; else the sink keeps what is there"),
        ),
        Option("add.line.separator", choices=("true",), doc="`true` only"),
    ),
    open=open_file_sink,
    checks=(_check,),
    sole=lambda connector: _location(connector)[0],
    ask=_ask,
    reaches=_reaches,
    read_back=_read_back,
    traits=SinkTraits(
        guarantee=EXACTLY_ONCE,
        why="a batch is appended once: a ledger of committed lengths is kept beside the file, folders get files under their final names",
        refuses="",
        announces=False,
        journal=False,
        local=True,
        header=True,
        topics=None,
        moved="needs its path on a mount of all workers: elsewhere its instance stops with TARGET_CHANGED when it moves. A run that was replaced is refused "
        "before it touches the file; if it falls asleep right behind that and wakes up later, it cuts off what has come since (dir.uri: parts of one cut come "
        "again)",
        # Parts of a folder have names of their own.
        alone=(("file.uri", "each would cut off what the others have written"),),
    ),
    loops=(),
)
