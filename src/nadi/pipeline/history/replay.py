"""The reference: what an app emits, made again from its input logs and its cut log, in this process and without Spark.

    with Inputs(spec) as inputs:
        for emitted in Replayer(spec).all(inputs, logged(open_cut_log(spec))):
            ...                                             # the numbered rows of one cut of one bucket

The outputs of an app are a function of these logs, so this is what every run of it must have written, whatever was killed meanwhile. Nothing is
written here, no sink is opened, and the logs are only read: it can be done beside the live app.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from nadi.errors import error
from nadi.kernel.contract import Failure, Kernel, Segment
from nadi.kernel.control import CONTROL
from nadi.pipeline.cutting.cutlog import Cuts
from nadi.pipeline.cutting.cuts import Cut
from nadi.pipeline.hosting.protocol import Part
from nadi.pipeline.inputs.fatrows import Gathered, gather
from nadi.pipeline.inputs.rangereader import Input, Read, open_input, read_range
from nadi.pipeline.inputs.ranges import Range
from nadi.pipeline.spec import AppSpec, planned
from nadi.plan.nodes import App

Rows = list[tuple[dict[str, Any], Part]]
"""Fat rows of one bucket: (head, body)."""


@dataclass(frozen=True, slots=True)
class Start:
    """A state to begin with instead of nothing: that of every bucket after `cut`, as `Kernel.load` takes it (segments of a dump, then deltas)."""

    cut: Cut
    states: Mapping[int, Iterable[Segment | bytes]]


@dataclass(frozen=True, slots=True)
class Emitted:
    """What one bucket gave in one cut: per output stream its attributes and `OUTPUT_COLUMNS`.

    `failures` are events that a query could not process, `undecodable` counts messages that no event could be made of.
    """

    cut: Cut
    bucket: int
    batches: Mapping[str, pa.RecordBatch]
    failures: tuple[Failure, ...] = ()
    undecodable: int = 0
    events: Mapping[str, int] = field(default_factory=dict)


def logged(log: Cuts, after: int = 0) -> Iterator[tuple[Cut, Cut]]:
    """Each cut of a cut log with the one before it, from the cut after `after` to what is the last one at the call.

    Errors: CUT_LOG_DAMAGED, CUTS_TRIMMED where cut `after` is no longer there.
    """
    last = log.last()
    if last is None:
        return
    before = log.at(after)
    for n in range(after + 1, last.n + 1):
        cut = log.at(n)
        if before is None or cut is None:
            raise error("CUTS_TRIMMED", cut=after, first=first_after(log, n, last.n))
        yield before, cut
        before = cut


def first_after(log: Cuts, n: int, last: int) -> int:
    """The number of the first cut from `n` to `last` that the log has."""
    return next(m for m in range(n, last + 1) if log.at(m) is not None)


class Inputs:
    """The logs of an app, open for reading, by the ordinals that cuts have. Closed at the end of a `with` block."""

    def __init__(self, spec: AppSpec) -> None:
        """Errors: those of opening the logs."""
        self._app = spec.plan()
        self.sources = spec.sources(self._app)
        self.streams = {c.ordinal: c.stream for c in self.sources}
        self._buckets = spec.buckets
        self._open: dict[int, Input] = {}
        for source in self.sources:
            self._open[source.ordinal] = open_input(spec, self._app, source)

    def read(self, before: Cut, cut: Cut) -> list[Gathered]:
        """What each bucket is given for a cut. Errors: LOG_TRUNCATED where it is no longer kept; those of the logs."""
        rows: list[Rows] = [[] for _ in range(self._buckets)]
        told: list[list[int | None]] = []
        started = cut.started
        for (ordinal, partition), end in sorted(cut.ends.items()):
            begin, high = cut.start_of((ordinal, partition), before), cut.highs.get((ordinal, partition))
            if begin >= end or ordinal not in self._open:  # a restore let go of the input
                continue
            state = Read()
            aside = cut.aside.get((ordinal, partition), ())
            for row in read_range(self._open[ordinal], Range(ordinal, partition, begin, end, 0, high, aside), state):
                rows[row.bucket].append((row.head, row.body))
            told.append([ordinal, partition, 0, high, state.high])
            if state.low is not None:
                started = min(started, state.low)
        clock = {"k": "clock", "n": cut.n, "clock": cut.clock, "started": started, "ranges": told}
        return [gather([*mine, (clock, b"")], self.streams) for mine in rows]

    def close(self) -> None:
        """Close the logs."""
        for each in self._open.values():
            each.log.close()
        self._open = {}

    def __enter__(self) -> Inputs:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Replayer:
    """The kernels of an app and the clock they stand at; takes the cuts one after another."""

    def __init__(self, spec: AppSpec, start: Start | None = None) -> None:
        """Errors: those of the text; NOT_SUPPORTED where a replay would write into a foreign store."""
        engine = spec.load_engine()
        self.app: App = planned(engine, spec.text, spec.variables)
        check_harmless(self.app)
        self._at = 0 if start is None else start.cut.n
        self._begun = start is not None
        self._kernels: list[Kernel] = [
            engine.make_kernel(self.app, spec.outputs, bucket, spec.properties) for bucket in range(spec.buckets)
        ]
        if start is not None:
            for bucket, kernel in enumerate(self._kernels):
                kernel.load(start.states[bucket])

    @property
    def kernels(self) -> Sequence[Kernel]:
        """That of each bucket, with the state after the last cut taken."""
        return self._kernels

    @property
    def at(self) -> int:
        """The number of the last cut taken."""
        return self._at

    def take(self, cut: Cut, given: Iterable[Gathered]) -> list[Emitted]:
        """What the buckets make of a cut, in their order; `given` is what `Inputs.read` gave for it.

        Raises ValueError where it is not the next cut.
        """
        if cut.n != self._at + 1:
            raise ValueError(f"cut {cut.n} does not follow cut {self._at}")
        self._at = cut.n
        made = []
        for bucket, (kernel, gathered) in enumerate(zip(self._kernels, given, strict=True)):
            if not self._begun:
                kernel.start(gathered.started)
            outputs = kernel.process(gathered.arrivals, gathered.clock)
            events = {stream: n for stream, n in gathered.events.items() if stream != CONTROL}
            told = (outputs.failures, len(gathered.errors), events)
            made.append(Emitted(cut, bucket, outputs.batches, *told))
            kernel.delta()  # what is noted for a delta is let go
        self._begun = True
        return made

    def all(self, inputs: Inputs, cuts: Iterable[tuple[Cut, Cut]]) -> Iterator[Emitted]:
        """What all buckets make of all cuts, by cut and bucket."""
        for before, cut in cuts:
            yield from self.take(cut, inputs.read(before, cut))


def check_harmless(app: App) -> None:
    """Errors: NOT_SUPPORTED where kernels of the app write into a table outside, which they would do once more."""
    for table in app.tables.values():
        if table.storage is not None:
            what = f"a replay of '{app.name}', whose table '{table.name}' is kept in a foreign store,"
            raise error(
                "NOT_SUPPORTED", what=what, alternative="leave @store out: the table is then a part of the state"
            )
