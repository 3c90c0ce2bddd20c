"""`@sink(type='log')`: events as lines that the node shows.

A host has no screen, so the lines of a sink go to `<state>/sinks/<ordinal>/output.log`, each cut once; the node calls `new_lines` to show what has come.
A file begins again when it has grown beyond 16 MB. A line is `PRIORITY prefix : payload`: `prefix` is `<app> : <stream>` unless given, `priority` INFO;
`<state>/sinks/<ordinal>/cuts` says where the lines of each cut are; it is for those who look on, and nothing waits for it to be on the disk.
With @map passThrough (the default) the payload is written as Siddhi writes an event, else it is what the mapper makes. Either way an event is one line:
line ends and control characters in it are written as `\\n`, `\\u001b` (`nadi.errors.readable`).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from nadi.errors.readable import readable
from nadi.io.block import lines_of
from nadi.io.contract import Connector, Delivery, Place, Receipt
from nadi.io.mappers.columns import as_text
from nadi.io.registry import SinkKind, map_type
from nadi.io.sinks import ledger
from nadi.io.sinks.appender import Appender
from nadi.kernel.contract import TS
from nadi.plan.connectortraits import AT_LEAST_ONCE, SinkTraits
from nadi.plan.nodes import Schema
from nadi.plan.options import Option

LIMIT = 16 << 20
OUTPUT, CUTS = "output.log", "cuts"
_PLACE = struct.Struct("<qqq")  # where the lines of a cut begin and end, and the cut
_PRIORITIES = ("INFO", "DEBUG", "WARN", "FATAL", "ERROR", "OFF", "TRACE")


class LogSink:
    """Lines for the node to show."""

    def __init__(self, connector: Connector, place: Place) -> None:
        folder = ledger.folder(connector, place)
        self._schema = connector.schema
        self._as_event = map_type(connector) == "passthrough"
        self._priority = connector.options.get("priority", "INFO").upper()
        prefix = connector.options.get("prefix", f"{place.app} : {connector.stream}")
        self._before = f"{self._priority} {prefix} : "
        self._appender = Appender(folder, folder / OUTPUT, limit=LIMIT)
        self._cuts = folder / CUTS

    def write(self, delivery: Delivery) -> Receipt:
        if self._priority == "OFF":
            texts: Sequence[str] = ()
        elif self._as_event:
            texts = as_events(delivery.batch, self._schema)
        else:
            texts = [bytes(p).decode("utf-8", "replace") for p in delivery.payloads]
        data = lines_of([readable(self._before + t).encode() for t in texts])
        return Receipt(delivery.bucket, delivery.cut, self._appender.hand(delivery.cut, delivery.bucket, data))

    def commit(self, cut: int, receipts: Sequence[Receipt]) -> None:
        new = self._appender.take(cut, receipts)
        with self._cuts.open("ab" if new.stop else "wb") as file:  # the lines begin again, and so does this
            file.write(_PLACE.pack(new.start, new.stop, cut))

    def close(self) -> None:
        """Nothing is held open."""


def as_events(batch: pa.RecordBatch, schema: Schema) -> list[str]:
    """Rows as Siddhi writes an event: `Event{timestamp=1, data=[WSO2, 55.6, null], isExpired=false}`."""
    columns = [as_text(batch.column(c.name), c.type).to_pylist() for c in schema.columns]
    times = batch.column(TS).to_pylist()
    rows = zip(*columns) if columns else [()] * batch.num_rows
    return [
        f"Event{{timestamp={ts}, data=[{', '.join('null' if v is None else v for v in row)}], isExpired=false}}"
        for ts, row in zip(times, rows)
    ]


def new_lines(state: Path, seen: Mapping[str, int]) -> tuple[list[tuple[str, int]], dict[str, int]]:
    """The lines that all log sinks of an app have written since `seen`, with their cuts, and what is seen then.

    Begin with an empty mapping for everything there is; what begins again is read from its start.
    """
    lines: list[tuple[str, int]] = []
    now = dict(seen)
    for path in sorted((state / "sinks").glob(f"*/{CUTS}")):
        name, size = path.parent.name, path.stat().st_size
        start = now.get(name, 0) if size >= now.get(name, 0) else 0
        with path.open("rb") as file, path.with_name(OUTPUT).open("rb") as output:
            file.seek(start)
            noted = file.read((size - start) // _PLACE.size * _PLACE.size)
            for begin, end, cut in _PLACE.iter_unpack(noted):
                output.seek(begin)
                texts = output.read(end - begin).decode("utf-8", "replace").split("\n")[:-1]
                lines += [(text, cut) for text in texts]
        now[name] = start + len(noted)
    return lines, now


KIND = SinkKind(
    options=(
        Option("prefix", doc="`<app> : <stream>`", default="{app} : {stream}"),
        Option(
            "priority",
            choices=_PRIORITIES,
            doc="`INFO`; `DEBUG`, `WARN`, `ERROR`, `FATAL`, `TRACE`; `OFF` writes nothing",
            default="INFO",
        ),
    ),
    open=LogSink,
    traits=SinkTraits(
        guarantee=AT_LEAST_ONCE,
        why="a log holds no numbers: after a crash the last batch may be written again, with the same numbers",
        refuses="",
        announces=False,
        journal=False,
        local=True,
        header=False,
        topics=None,
        moved="writes its lines at the worker where its instance runs; those of the last cut may be at two of them",
        alone=(),
    ),
    loops=(),
)
