"""The fault log of an app: what the targets of its sinks refused and `on.error='STREAM'` sends into the app again, a line per payload.

It is `<state>/faults.jsonl` and files that follow it, an input like any other: events of a fault stream are made of what stands here, at the place that a cut
gives it, and of nothing else. Lines are staged by the write stage and appended by the commit of their cut, exactly once; a batch that is repeated after that
adds nothing. What no revision needs any more is forgotten, a file at a time (`nadi.io.segmentedlines`). Where another node may go on with the app, it is in the
journal (`nadi.io.journalrecords`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from nadi.io.contract import Connector, Log
from nadi.io.segmentedlines import SegmentedLines, SegmentLog
from nadi.lang.tree import Annotation
from nadi.plan.nodes import Schema

TYPE = "faults"
FAULTS = "what sinks refused"
"""The name of the fault log among the inputs of an app; no stream can have this name."""


class Fault(msgspec.Struct, frozen=True):
    """A payload that was refused: the events of one chunk of a fault stream.

    `time` is the clock of the cut (ms), so that times never go back. `stream` is the key of the sink's stream, `sink` its ordinal, `number` that of the first
    row within (stream, group). `rows` are [timestamp (ms), [values]]; a double that is no number is its text. The rows came out of `bucket` and go there again:
    what the state is keyed by, they have in common with the events that they were made of.
    """

    time: int
    stream: str
    sink: int
    cut: int
    bucket: int
    group: int
    number: int
    error: str
    rows: list[tuple[int, list[Any]]]


class _Timed(msgspec.Struct, frozen=True):
    """As much of a line as its time needs."""

    time: int


_TIMED = msgspec.json.Decoder(_Timed)


def fault_connector(ordinal: int) -> Connector:
    """The fault log as one of an app's inputs."""
    return Connector(FAULTS, Schema(()), TYPE, {}, Annotation("map"), ordinal)


class FaultLog(Protocol):
    """The fault log of an app, wherever it is."""

    def open(self) -> Log:
        """As an input, as far as it is committed."""
        ...

    def commit(self, cut: int, buckets: Sequence[int]) -> None:
        """Append what these buckets have staged for the cut, once. Errors: DISK_FULL, STAGE_MISSING, TARGET_CHANGED, CONNECTION_UNAVAILABLE."""
        ...

    def trim(self, before: int) -> None:
        """Forget lines before number `before`, so far as that costs little."""
        ...


class FaultFile:
    """That of an app in its state folder."""

    def __init__(self, state: Path) -> None:
        self._state = state

    def open(self) -> Log:
        return fault_log(self._state)

    def commit(self, cut: int, buckets: Sequence[int]) -> None:
        commit(self._state, cut, buckets)

    def trim(self, before: int) -> None:
        trim(self._state, before)


def fault_log(state: Path) -> SegmentLog:
    """The log in the state folder of an app, as far as it is committed."""
    return SegmentLog(_lines(state))


def stage(state: Path, cut: int, bucket: int, faults: Iterable[Fault]) -> int:
    """Keeps what a bucket met for the commit of the cut; returns how many. A second call replaces the first. Errors: DISK_FULL."""
    return _lines(state).stage(cut, bucket, faults)


def commit(state: Path, cut: int, buckets: Sequence[int]) -> None:
    """Appends what these buckets have staged for the cut, once. Errors: DISK_FULL, STAGE_MISSING, TARGET_CHANGED."""
    _lines(state).commit(cut, buckets)


def trim(state: Path, before: int) -> None:
    """Forget lines before number `before`, so far as that costs little."""
    _lines(state).trim(before)


def staged(state: Path, cut: int, buckets: Sequence[int]) -> list[bytes]:
    """What these buckets have staged for the cut, a line for each. Errors: STAGE_MISSING."""
    return [line for bucket in sorted(buckets) for line in _lines(state).staged(cut, bucket).splitlines()]


def clear(state: Path, cut: int) -> None:
    """Forget what was staged for this cut and those before it: it is kept elsewhere."""
    _lines(state).clear(cut)


def time_of(line: bytes) -> int:
    """The time (ms) of a line."""
    return _TIMED.decode(line).time


def _lines(state: Path) -> SegmentedLines:
    return SegmentedLines(state / "faults", state / "faults.jsonl")
