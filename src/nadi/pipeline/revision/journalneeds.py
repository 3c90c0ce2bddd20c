"""What revisions need of the journal of an app: a restore reads the events after them again, so these stay whatever `journal.retention.hours` says.

Until the store has told of its revisions for the first time nothing is removed. Afterwards it is asked now and then, as others make and delete them, too.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

import structlog

from nadi.errors import NadiError
from nadi.io.journalholds import hold
from nadi.io.journalmessages import Name
from nadi.io.registry import SOURCES, source_kind
from nadi.persistence.contract import Store
from nadi.persistence.revisions import read_revision
from nadi.persistence.stores import store_of
from nadi.pipeline.cutting.cutlog import Cuts
from nadi.pipeline.cutting.cutlogs import open_cut_log
from nadi.pipeline.cutting.cuts import Cut
from nadi.pipeline.revision.revisions import KEPT_BACK, Keeping
from nadi.pipeline.spec import AppSpec

EVERY = 600.0  # seconds between two questions to the store
AGAIN = 30.0  # … where it was away

log = structlog.get_logger(__name__)


class JournalNeeds:
    """Holds the journal of an app while it is served, until `over` is set."""

    def __init__(self, spec: AppSpec, keeping: Keeping, over: threading.Event) -> None:
        self._spec = spec
        self._keeping = keeping
        self._over = over
        self._known: dict[str, dict[int, int]] = {}  # by the names of revisions

    def begin(self) -> None:
        """Hold all for now, and ask in a thread of its own; nothing of it where no revisions are kept, or the app has no journal."""
        if self._keeping.persistence.enabled and self._spec.journal:
            self._hold(None)
            threading.Thread(target=self._ask, name=f"journal {self._spec.app}", daemon=True).start()

    def _ask(self) -> None:
        sources = self._spec.sources(self._spec.plan())
        if not any(c.type in SOURCES and source_kind(c.type).ingress is not None for c in sources):
            return  # nothing of it is in the journal
        pause = 0.0
        while not self._over.wait(pause):
            pause = EVERY if self.learn() else AGAIN

    def learn(self) -> bool:
        """Hold what the revisions need that there are; False: the store does not tell, and what was held stays so."""
        try:
            store = store_of(self._keeping.persistence, self._keeping.base)
            try:
                self._hold(self._needed(store, open_cut_log(self._spec)))
            finally:
                store.close()
        except NadiError as reason:
            log.warning("the journal is not trimmed", app=self._spec.app, reason=str(reason))
            return False
        return True

    def _needed(self, store: Store, cuts: Cuts) -> dict[Name, int]:
        """From where on the revisions need each input. One that cannot be read needs nothing: nobody can go on from it."""
        names = store.names(self._spec.app)
        self._known = {
            name: self._known[name] if name in self._known else _ends(store, cuts, self._spec.app, name)
            for name in names
        }
        needed: dict[Name, int] = {}
        for ends in self._known.values():
            for ordinal, end in ends.items():
                needed[ordinal] = min(end, needed.get(ordinal, end))
        return needed

    def _hold(self, needed: Mapping[Name, int] | None) -> None:
        hold(self._spec.journal, self._spec.identity, needed)


def _ends(store: Store, cuts: Cuts, app: str, name: str) -> dict[int, int]:
    """Where each input stood at a revision, and a cut before it: order times go by that. Errors: PERSISTENCE_STORE_FAILED."""
    try:
        cut = Cut.from_offset(read_revision(store, app, name).revision.meta.cut)
    except NadiError as reason:
        if reason.condition == "PERSISTENCE_STORE_FAILED":
            raise
        return {}
    before = cuts.at(cut.n - KEPT_BACK) or cut
    return {ordinal: before.ends.get((ordinal, partition), end) for (ordinal, partition), end in cut.ends.items()}
