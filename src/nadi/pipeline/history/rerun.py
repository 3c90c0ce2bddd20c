"""A stretch of an app's history run again beside it: the rows with their numbers, and whether they are what was emitted.

report = rerun(spec, Stretch(Edge(17), None), file)
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import msgspec

from nadi.io.contract import Connector, Place, ReadBack, Verdict
from nadi.io.registry import SINKS, sink_kind
from nadi.kernel.contract import GROUP, NUMBER, TS
from nadi.lang.tree import Type
from nadi.pipeline.cutting.cutlogs import open_cut_log
from nadi.pipeline.cutting.cuts import Cut
from nadi.pipeline.history.replay import Emitted, Inputs, Replayer, Start, logged
from nadi.pipeline.spec import AppSpec
from nadi.plan.nodes import App

_ENCODE = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Edge:
    """Where a stretch begins or ends: a cut by its number, or a time (ms), which stands for the clocks of cuts."""

    value: int
    is_time: bool = False

    def of(self, cut: Cut) -> int:
        """What of a cut is compared with it."""
        return cut.clock if self.is_time else cut.n


@dataclass(frozen=True, slots=True)
class Stretch:
    """The cuts from `first` to `last`, both included; None: no bound.

    >>> Stretch(Edge(2), None).has(Cut(1, 1, 50, 0, {})), Stretch(Edge(40, True), None).has(Cut(1, 1, 50, 0, {}))
    (False, True)
    """

    first: Edge | None = None
    last: Edge | None = None

    def has(self, cut: Cut) -> bool:
        return (self.first is None or self.first.of(cut) >= self.first.value) and not self.behind(cut)

    def behind(self, cut: Cut) -> bool:
        """Whether a cut, and every one after it, comes after the stretch."""
        return self.last is not None and self.last.of(cut) > self.last.value


@dataclass(slots=True)
class Report:
    """What was replayed: the first and the last cut of the stretch (0: there is none), and what came of them; what the sinks say. `begun` is the cut of the
    revision that it began with, 0 where it began at the first cut.
    """

    begun: int = 0
    first: int = 0
    last: int = 0
    events: int = 0
    rows: int = 0
    failures: int = 0
    undecodable: int = 0
    sinks: tuple[Verdict, ...] = ()

    @property
    def differs(self) -> bool:
        return any(sink.equal is False for sink in self.sinks)

    def add(self, emitted: Emitted) -> None:
        """Count what one bucket gave in a cut of the stretch."""
        self.first = self.first or emitted.cut.n
        self.last = emitted.cut.n
        self.events += sum(emitted.events.values())
        self.failures += len(emitted.failures)
        self.undecodable += emitted.undecodable


def rerun(spec: AppSpec, stretch: Stretch, out: BinaryIO, start: Start | None = None) -> Report:
    """Write the rows of a stretch as JSON lines, in the order of cuts, buckets, streams and numbers.

    Kernels begin with nothing, at the first cut, or with the state of `start`; nothing is written of what comes before the stretch. Only logs and files are
    read, so the app may be running.

    Errors: those of the text, of the logs (LOG_TRUNCATED, CUTS_TRIMMED where what is needed is no longer kept), CUT_LOG_DAMAGED, NOT_SUPPORTED.
    """
    replayer = Replayer(spec, start)
    report = Report(replayer.at)
    app = replayer.app
    sinks = spec.load_connectors().connectors(app, "sink")
    comparisons = [(sink, _read_back(sink, spec.place)) for sink in sinks]
    backs = [(sink.stream, back) for sink, back in comparisons if back is not None]
    last = max((back.through for _stream, back in backs), default=-1)
    with Inputs(spec) as inputs, contextlib.ExitStack() as opened:
        for _stream, back in backs:
            opened.callback(back.close)
        for before, cut in logged(open_cut_log(spec), replayer.at):
            if stretch.behind(cut) and cut.n > last:
                break
            inside = stretch.has(cut)
            for emitted in replayer.take(cut, inputs.read(before, cut)):
                for stream, back in backs:
                    batch = emitted.batches.get(stream)
                    if batch is not None and batch.num_rows:
                        back.note(cut.n, emitted.bucket, batch, inside)
                if inside:
                    report.add(emitted)
                    for line in lines(app, emitted):
                        out.write(line)
                        report.rows += 1
        report.sinks = tuple(_verdict(sink, back) for sink, back in comparisons)
    return report


def _read_back(sink: Connector, place: Place) -> ReadBack | None:
    """What compares with a sink, None where that cannot be read again."""
    made = sink_kind(sink.type).read_back if sink.type in SINKS else None
    return None if made is None else made(sink, place)


def _verdict(sink: Connector, back: ReadBack | None) -> Verdict:
    if back is None:
        return Verdict(f"{sink.type} sink of {sink.stream}", None, "cannot be read back, so it was not compared")
    return back.verdict()


def lines(app: App, emitted: Emitted) -> Iterator[bytes]:
    """A row a line: `{"cut", "bucket", "stream", "group", "number", "timestamp", "event": {…}}`."""
    for stream, batch in sorted(emitted.batches.items()):
        schema = app.streams[stream].schema
        objects = [c.name for c in schema.columns if c.type is Type.OBJECT]
        for row in batch.to_pylist():
            event: dict[str, Any] = {name: row[name] for name in schema.names}
            for name in objects:
                event[name] = None if row[name] is None else msgspec.Raw(row[name].encode())
            place = {"cut": emitted.cut.n, "bucket": emitted.bucket, "stream": stream}
            numbers = {"group": row[GROUP], "number": row[NUMBER], "timestamp": row[TS]}
            yield _ENCODE({**place, **numbers, "event": event}) + b"\n"
