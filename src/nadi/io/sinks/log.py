"""`@sink(type='log')`: events as lines that the node shows.

A host has no screen, so the lines of a sink go to `<state>/sinks/<ordinal>/output.log`, each cut once; the node calls `new_lines` to show what has come.
A file begins again when it has grown beyond 16 MB. A line is `PRIORITY prefix : payload`: `prefix` is `<app> : <stream>` unless given, `priority` INFO;
with @map passThrough (the default) the payload is written as Siddhi writes an event, else it is what the mapper makes. Either way an event is one line:
line ends and control characters in it are written as `\\n`, `\\u001b` (`nadi.errors.readable`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from nadi.errors.readable import readable
from nadi.io.contract import Connector, Delivery, Place, Receipt
from nadi.io.mappers.columns import as_text
from nadi.io.options import Option
from nadi.io.registry import SinkKind, map_type
from nadi.io.sinks import ledger
from nadi.io.sinks.appender import Appender
from nadi.io.sinks.file import lines_of
from nadi.kernel.contract import TS
from nadi.plan.nodes import Schema

LIMIT = 16 << 20
_PRIORITIES = ("INFO", "DEBUG", "WARN", "FATAL", "ERROR", "OFF", "TRACE")


class LogSink:
    """Lines for the node to show."""

    guarantee = "at least once"

    def __init__(self, connector: Connector, place: Place) -> None:
        folder = ledger.folder(connector, place)
        self._schema = connector.schema
        self._as_event = map_type(connector) == "passthrough"
        self._priority = connector.options.get("priority", "INFO").upper()
        prefix = connector.options.get("prefix", f"{place.app} : {connector.stream}")
        self._before = f"{self._priority} {prefix} : "
        self._appender = Appender(folder, folder / "output.log", limit=LIMIT)

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
        self._appender.take(cut, receipts)

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


def new_lines(state: Path, seen: Mapping[str, int]) -> tuple[list[str], dict[str, int]]:
    """The whole lines that all log sinks of an app have written beyond `seen`, and what is seen then.

    Begin with an empty mapping for everything there is; a file that became shorter is read from its start.
    """
    lines: list[str] = []
    now = dict(seen)
    for path in sorted((state / "sinks").glob("*/output.log")):
        name = path.parent.name
        size = path.stat().st_size
        start = now.get(name, 0) if size >= now.get(name, 0) else 0
        with path.open("rb") as f:
            f.seek(start)
            new = f.read()
        whole = new[: new.rfind(b"\n") + 1]
        now[name] = start + len(whole)
        lines += whole.decode("utf-8", "replace").split("\n")[:-1]
    return lines, now


KIND = SinkKind(options=(Option("prefix"), Option("priority", choices=_PRIORITIES)), open=LogSink, local=True)
