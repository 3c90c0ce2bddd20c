"""The end of a cut: its sinks commit, its error rows and faults are kept, and the group's commit record is written. From then on the cut is done.

Everything before the record may be done again: sinks, error store and fault log know the cuts that they have.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import msgspec

from nadi.errors.exceptions import ConnectionUnavailableException
from nadi.io.contract import Announcing, Receipt, Sink
from nadi.io.registry import sink_traits
from nadi.metrics import Counts, Progress
from nadi.pipeline.cutting.commitlog import Commit, Commits
from nadi.pipeline.cutting.cuts import Cut
from nadi.pipeline.executor.stopwatch import Stopwatch
from nadi.pipeline.outputs import stagedrows
from nadi.pipeline.progress import read_progress, write_progress
from nadi.pipeline.spec import AppSpec
from nadi.pipeline.statelog.lines import Base, Piece


class Ledger:
    """Commits the cuts of one group, in order."""

    def __init__(self, spec: AppSpec, commits: Commits, cuts: tuple[int, int] = (-1, -1)) -> None:
        """`cuts` are the last that is committed and the last that is logged. Errors: those of sinks that announce."""
        self._spec = spec
        self._commits = commits
        self._app = spec.plan()
        self._errors = spec.open_errors()
        self._faults = spec.open_faults()
        self._sinks: dict[int, Sink] = {}
        self._totals = _totals_before(spec)
        self._watch = Stopwatch(spec.place.state) if spec.profile else None
        self.waited = 0.0  # seconds that the last commit waited for sinks
        self._announcing: dict[int, Announcing] = {}
        try:
            self._begin(cuts)
        except BaseException:
            self.close()
            raise

    def _begin(self, cuts: tuple[int, int]) -> None:
        """Take what this run announces to from the runs before it."""
        for ordinal, connector in enumerate(self._spec.load_connectors().connectors(self._app, "sink")):
            traits = sink_traits(connector.type)
            if traits is not None and traits.announces:
                sink = self._sink(ordinal)
                assert isinstance(sink, Announcing)
                sink.begin(self._spec.epoch, cuts)
                self._announcing[ordinal] = sink

    @property
    def idle_after(self) -> float | None:
        """Seconds after which those who read are told that nothing has come; None where nobody is."""
        return min((sink.idle_after / 1000 for sink in self._announcing.values()), default=None)

    def idle(self, clock: int) -> None:
        """Tell those who read that nothing has come up to a clock (ms); again later where they cannot be told. Errors: FENCED, REFUSED."""
        for sink in self._announcing.values():
            with suppress(ConnectionUnavailableException):
                sink.idle(clock)

    def finish(self) -> None:
        """Tell those who read that nothing will come any more. Errors: those of the sinks."""
        for sink in self._announcing.values():
            sink.finish()

    def commit(self, cut: Cut, buckets: Sequence[Mapping[str, Any]]) -> Progress:
        """Make a cut done that all buckets have processed and written. Errors: those of the sinks; CUT_FENCED, DISK_FULL, CONNECTION_UNAVAILABLE."""
        if self._watch is None:
            return self._commit(cut, buckets)
        return self._watch.timed("commit", lambda: self._commit(cut, buckets))

    def _commit(self, cut: Cut, buckets: Sequence[Mapping[str, Any]]) -> Progress:
        ordered = sorted(buckets, key=lambda b: b["bucket"])
        begin = time.monotonic()
        self._commit_sinks(cut, ordered)
        self.waited = time.monotonic() - begin
        state = self._spec.place.state
        for bucket in ordered:
            stagedrows.stage_carried(state, cut.n, bucket)
        self._errors.commit(cut.n, [b["bucket"] for b in ordered if b["errors"]])
        self._faults.commit(cut.n, [b["bucket"] for b in ordered if b["faults"]])
        told = progress_of(cut, ordered, self._spec.host_of)
        self._commits.append(commit_of(cut, self._spec.epoch, ordered, told))
        done = replace(told, before=self._totals)
        self._totals = done.totals
        write_progress(state, done)
        return done

    def close(self) -> None:
        """Let go of the sinks."""
        if self._watch is not None:
            self._watch.write()
        for sink in self._sinks.values():
            sink.close()
        self._sinks.clear()

    def _commit_sinks(self, cut: Cut, buckets: Sequence[Mapping[str, Any]]) -> None:
        receipts: dict[int, list[Receipt]] = {}
        for bucket in buckets:
            for ordinal, number, n, content in bucket["receipts"]:
                receipts.setdefault(ordinal, []).append(Receipt(number, n, content))
        for ordinal, sink in self._announcing.items():
            sink.announce(cut.n, cut.clock, receipts.pop(ordinal, []))
        for ordinal, held in sorted(receipts.items()):
            self._sink(ordinal).commit(cut.n, held)

    def _sink(self, ordinal: int) -> Sink:
        if ordinal not in self._sinks:
            registry = self._spec.load_connectors()
            connector = registry.connectors(self._app, "sink")[ordinal]
            self._sinks[ordinal] = registry.open_sink(connector, self._spec.place)
        return self._sinks[ordinal]


def _totals_before(spec: AppSpec) -> Counts:
    """What was counted before this run: only shown, so what a crash takes of it does not matter."""
    known = read_progress(spec.place.state)
    return Counts() if known is None else known.totals


def commit_of(cut: Cut, epoch: int, buckets: Sequence[Mapping[str, Any]], told: Progress) -> Commit:
    """The record of a cut."""
    return Commit(
        cut.n,
        epoch,
        told.due,
        told.highs,
        deltas=tuple((b["bucket"], _piece(b["piece"])) for b in buckets if b["piece"] is not None),
        bases=tuple((b["bucket"], msgspec.convert(b["base"], Base)) for b in buckets if b["base"] is not None),
        receipts=tuple(_kept(receipt) for b in buckets for receipt in b["receipts"]),
    )


def _kept(receipt: Sequence[Any]) -> tuple[Any, ...]:
    """A receipt without what was for the commit only."""
    sink, bucket, cut, content = receipt
    return (sink, bucket, cut, {name: value for name, value in content.items() if not isinstance(value, bytes)})


def _piece(told: Sequence[Any]) -> Piece:
    return Piece(*told)


def progress_of(cut: Cut, buckets: Sequence[Mapping[str, Any]], host_of: Callable[[int], int]) -> Progress:
    """The progress of a cut from what its buckets told; `host_of` says where each of them lives."""
    dues = [b["due"] for b in buckets if b["due"] is not None]
    counts = Counts(set_aside=cut.set_aside)
    entries: dict[str, int] = {}
    highs: dict[tuple[int, int], int] = {}
    memory: dict[str, int] = {}
    for b in buckets:
        counts = counts.plus(Counts(b["in"], b["out"], b["errors"], b["bytes"]))
        for element, size in b["entries"].items():
            entries[element] = entries.get(element, 0) + size
        host = str(host_of(b["bucket"]))
        memory[host] = max(memory.get(host, 0), b["memory"])
        highs |= {(o, p): high for o, p, high in b["highs"]}
    return Progress(
        cut.n,
        min(dues) if dues else None,
        tuple((o, p, high) for (o, p), high in sorted(highs.items())),
        counts=counts,
        entries=entries,
        state_bytes=sum(b["state_bytes"] for b in buckets),
        state_written=sum(b["state_written"] for b in buckets),
        memory=memory,
    )
