"""What is counted and told of a running app: plain records, made by the pipeline, shown by whoever looks on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from nadi.metrics.measured import NOTHING, Measured


@dataclass(frozen=True, slots=True)
class Counts:
    """Totals since the state folder was made: events per input stream and per output stream, rows of the error store, bytes decoded, messages
    that are set aside."""

    events_in: dict[str, int] = field(default_factory=dict)
    events_out: dict[str, int] = field(default_factory=dict)
    errors: int = 0
    bytes_in: int = 0
    set_aside: int = 0

    def plus(self, other: Counts) -> Counts:
        """Both together."""
        return Counts(
            _sum(self.events_in, other.events_in),
            _sum(self.events_out, other.events_out),
            self.errors + other.errors,
            self.bytes_in + other.bytes_in,
            self.set_aside + other.set_aside,
        )


def _sum(left: Mapping[str, int], right: Mapping[str, int]) -> dict[str, int]:
    return {k: left.get(k, 0) + right.get(k, 0) for k in (*left, *(k for k in right if k not in left))}


@dataclass(frozen=True, slots=True)
class Progress:
    """After cut `n`: when the next timer is due (ms), running maxima of log times, totals, state.

    `highs` are triples (ordinal, partition, ms). `entries` is what each element holds, over all buckets (of a large state: at its last snapshot); `state_bytes`
    the size of the state frames that count, `state_written` the bytes of frames that the cut wrote; `memory` the bytes that each host holds, by its number.
    """

    n: int
    due: int | None = None
    highs: tuple[tuple[int, int, int], ...] = ()
    before: Counts = field(default_factory=Counts)
    counts: Counts = field(default_factory=Counts)
    entries: dict[str, int] = field(default_factory=dict)
    state_bytes: int = 0
    state_written: int = 0
    memory: dict[str, int] = field(default_factory=dict)

    @property
    def totals(self) -> Counts:
        """What was counted before and in this cut."""
        return self.before.plus(self.counts)

    def high_of(self) -> dict[tuple[int, int], int]:
        """The maxima by (ordinal, partition)."""
        return {(ordinal, partition): high for ordinal, partition, high in self.highs}


@dataclass(frozen=True, slots=True)
class Circuit:
    """Whether a source or sink reaches its other side: closed (it does), open (it does not, and waits), half-open (it is trying again).

    `connector` is as in "sink http of Out". Where it is not closed: since when (ms), how many attempts failed (0 for a source, which is asked all the
    time), why the last one did.
    """

    connector: str
    state: str = "closed"
    since: int = 0
    attempts: int = 0
    reason: str = ""


class Said(NamedTuple):
    """A line that an app has written, and the cut that it is from; None where it is from none."""

    text: str
    cut: int | None = None


@dataclass(frozen=True, slots=True)
class AppProgress:
    """A snapshot of a running app, for people to look at.

    `carried` is whether a query carries it; until its first commit, for which it may wait for ever, its state is starting all the same.
    `state` is starting, running, waiting (for the next attempt after `last_error`), stopping, stopped, finished or failed. `rate` is events in
    per second, lately. `batch_ms` is the last batch by phase, as Spark names them ("triggerExecution" is the whole). `lag` counts messages that
    wait, per stream; `away` says which inputs cannot be reached and why, `circuits` how it is with each source and sink.
    `set_aside` counts messages that hosts died of.
    `batches` is the number of the last cut that is done, `entries` what each stateful element holds.
    `awaits` is what an app that starts waits for, where that is known.
    `refused` counts the messages that its sources refused since it came to the node: their senders heard so, and they are in no error store.
    `crashed`: it failed because the JVM under it ended, and goes on in the next one, which the node starts.
    `warnings` are conditions that do not keep it from running. `said` are the lines that its log sinks have written since the snapshot before, `measured` is
    what was measured since then.
    """

    app: str
    state: str = "starting"
    batches: int = 0
    events_in: Mapping[str, int] = field(default_factory=dict)
    events_out: Mapping[str, int] = field(default_factory=dict)
    errors: int = 0
    set_aside: int = 0
    rate: float = 0.0
    batch_ms: Mapping[str, int] = field(default_factory=dict)
    lag: Mapping[str, int] = field(default_factory=dict)
    away: Mapping[str, str] = field(default_factory=dict)
    circuits: tuple[Circuit, ...] = ()
    entries: Mapping[str, int] = field(default_factory=dict)
    state_bytes: int = 0
    restarts: int = 0
    last_error: str = ""
    warnings: tuple[str, ...] = ()
    said: tuple[Said, ...] = ()
    measured: Measured = NOTHING
    carried: bool = False
    awaits: str = ""
    refused: int = 0
    crashed: bool = False
