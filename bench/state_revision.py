"""Revisions of a running app and the batches meanwhile: asking for them, reading the newest one back, figures."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from bench.checks import WrongOutputError
from bench.pace import Pace
from bench.plan import Batch
from bench.state import spread
from nadi.config import Persistence
from nadi.persistence.revisions import newest_good
from nadi.persistence.stores import store_of
from nadi.pipeline.revision.revisions import ask_for

FIRST = 3  # paced batches that do not count: they find the node busy with the ones before


class Asked(msgspec.Struct, frozen=True):
    """A revision: when it was asked for, when it was there (s since the epoch); its name."""

    asked: float
    there: float
    name: str


class Paced(msgspec.Struct, frozen=True):
    """A batch of those that come at a pace: when its events were there, when it began and ended (s since the epoch), and its own length without waiting for
    events (ms)."""

    release: float
    begin: float
    end: float
    own: float

    @property
    def ms(self) -> float:
        """From when its events were there to its end."""
        return (self.end - self.release) * 1000


def ask(state: Path, within: float) -> Asked:
    """Ask the node that runs an app for a revision, as `nadi revision create` does, and wait for it. Errors: those of `ask_for`."""
    asked = time.time()
    name = ask_for(state, within)
    return Asked(asked, time.time(), name)


def read_back(state: Path, app: str, asked: Sequence[Asked]) -> dict[str, Any]:
    """The newest revision, read from beginning to end: bytes of its state, and as they are stored. Errors: WrongOutputError, those of reading."""
    store = store_of(Persistence(), state)
    begin = time.time()
    found, problems = newest_good(store, app)
    if found is None or problems or found.revision.name != asked[-1].name:
        told = "; ".join(map(str, problems)) or (found.revision.name if found is not None else "nothing")
        raise WrongOutputError(f"the revision {asked[-1].name} was written, and what was read is: {told}")
    pieces = [piece for bucket in found.revision.state for piece in bucket]
    return {
        "bytes": sum(piece.bytes for piece in pieces),
        "stored": found.revision.stored,
        "pieces": len(pieces),
        "read_back_s": time.time() - begin,
    }


def paced_batches(batches: Sequence[Batch], pace: Pace) -> list[Paced]:
    """The batches of a pace."""
    found, position = [], 0
    for batch in batches:
        if pace.base <= position < pace.upto:
            begin = batch.begin / 1000
            end = begin + batch.ms["triggerExecution"] / 1000
            own = batch.ms["triggerExecution"] - batch.ms.get("latestOffset", 0)
            found.append(Paced(pace.release_of(position), begin, end, own))
        position += batch.events
    return found


def revision_figures(batches: Sequence[Batch], pace: Pace, asked: Sequence[Asked]) -> dict[str, Any]:
    """Batches before the first revision, and those that a revision was made beside."""
    paced = paced_batches(batches, pace)
    before = [b for b in paced if b.end <= asked[0].asked][FIRST:]
    during = [b for b in paced if b.end > asked[0].asked and b.release < asked[-1].there]
    told = {"before": before, "during": during}
    ms = {what: spread([b.ms for b in these]) for what, these in told.items()}
    own = {what: spread([b.own for b in these]) for what, these in told.items()}
    return {
        "period_s": pace.period,
        "seconds": [round(a.there - a.asked, 2) for a in asked],
        "ms": ms,
        "own_ms": own,
        "p99_ratio": ratio(ms, "p99"),
        "median_ratio": ratio(ms, "median"),
        "own_p99_ratio": ratio(own, "p99"),
        "all_batches": [[b.release, b.begin, b.end, b.own] for b in paced],
    }


def ratio(told: dict[str, dict[str, float]], what: str) -> float | None:
    """During to before."""
    before, during = told["before"].get(what), told["during"].get(what)
    return during / before if before and during else None
