"""Revisions that are asked for while things are killed, and what they must be good for: the cuts after one give the rows that a replay from the first cut
gives.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from reference import Reference, Row
from world import World

from nadi.errors import NadiError
from nadi.kernel.contract import GROUP, NUMBER
from nadi.persistence.revisions import read_revision
from nadi.persistence.stores import store_of
from nadi.pipeline.history.replay import Inputs, Replayer, logged
from nadi.pipeline.history.replaystart import named_start
from nadi.pipeline.revision.revisions import ask_for

ANSWERED_WITHIN = 120.0  # seconds


class Asking:
    """Asks the node for revisions, one per app at a time, as `nadi revision create` does; what became of each is counted by its outcome."""

    def __init__(self, world: World, apps: Sequence[str]) -> None:
        self.apps = tuple(apps)
        self._world = world
        self._store = store_of(world.persistence, world.state)
        self._under_way: dict[str, threading.Thread] = {}
        self.outcomes: Counter[str] = Counter()

    def ask(self, app: str) -> None:
        """Ask for one; returns at once. While an answer is awaited there is no other question."""
        before = self._under_way.get(app)
        if before is None or not before.is_alive():
            thread = threading.Thread(target=self._ask, args=(app,), daemon=True)
            self._under_way[app] = thread
            thread.start()

    def _ask(self, app: str) -> None:
        try:
            ask_for(self._world.state / app, ANSWERED_WITHIN)
        except NadiError as reason:  # no node, or one that died while it wrote: the next one answers
            self.outcomes[reason.condition] += 1
        else:
            self.outcomes["made"] += 1

    def newest(self, app: str) -> str:
        """The name of the newest revision, "" where there is none."""
        return (self._store.names(app) or [""])[-1]

    def kept(self, app: str) -> list[str]:
        """The names of all there are, oldest first."""
        return list(self._store.names(app))

    def wrong(self, reference: Reference, journal: str) -> list[str]:
        """What is wrong with the revisions of an app that are kept. Errors: those of the logs."""
        told = []
        for name in self.kept(reference.app):
            stored = read_revision(self._store, reference.app, name)
            stored.verify()
            spec = replace(reference.spec(journal), buckets=stored.buckets)
            cuts = reference.cut_log()
            start = named_start(spec, stored, cuts)
            found: dict[int, list[tuple[int, Row]]] = {}
            with Inputs(spec) as inputs:
                for emitted in Replayer(spec, start).all(inputs, logged(cuts, start.cut.n)):
                    for row in emitted.batches["Out"].to_pylist() if "Out" in emitted.batches else ():
                        found.setdefault(row[GROUP], []).append((row[NUMBER], reference.row(row)))
            wanted = reference.after(start.cut.n)
            told += [] if found == wanted else [f"{name} of cut {start.cut.n}: the cuts after it give other rows"]
        return told
