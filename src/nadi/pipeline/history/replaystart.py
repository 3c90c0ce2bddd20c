"""Where a replay begins that is not to begin at the first cut: the state of a revision, which the cuts after it go on from.

start = named_start(spec, read_revision(store, "Orders", "1700000000000__Orders"), cuts)
start, notes = newest_start(spec, store, Edge(1_700_000_000_000, is_time=True), cuts)

A revision is good for a replay where the same text made it, with the same inputs, and the cut log has its cut: then what comes of the cuts after it is what
comes of them in a replay from the first cut.
"""

from __future__ import annotations

from collections.abc import Iterator

from nadi.errors import NadiError, error
from nadi.functions.registry import default_registry
from nadi.kernel.segments import Part
from nadi.persistence.contract import Store
from nadi.persistence.restoredstate import Restored
from nadi.persistence.revisions import StoredRevision, read_revision
from nadi.pipeline.cutting.cutlog import Cuts
from nadi.pipeline.cutting.cuts import Cut
from nadi.pipeline.history.replay import Start, first_after
from nadi.pipeline.history.rerun import Edge
from nadi.pipeline.revision.restore import kernel_maker
from nadi.pipeline.spec import AppSpec
from nadi.plan import plan_app, plan_restore
from nadi.plan.nodes import App
from nadi.plan.restore import RestorePlan


def named_start(spec: AppSpec, stored: StoredRevision, cuts: Cuts) -> Start:
    """The state of a revision that was asked for.

    Errors: REVISION_NOT_REPLAYABLE, CUTS_TRIMMED.
    """
    return _Candidate(spec, stored, cuts).start()


def newest_start(spec: AppSpec, store: Store, first: Edge, cuts: Cuts) -> tuple[Start | None, list[NadiError]]:
    """The state of the newest whole revision before a stretch, None where none will do; what is wrong with newer ones.

    Errors: those of the store.
    """
    problems: list[NadiError] = []
    for name in reversed(store.names(spec.app)):
        try:
            candidate = _Candidate(spec, read_revision(store, spec.app, name), cuts)
            if first.of(candidate.cut) < first.value:
                start = candidate.start()
                candidate.stored.verify()
                return start, problems
        except NadiError as problem:
            problems.append(problem)
    return None, problems


class _Candidate:
    """A revision that a replay may begin with."""

    def __init__(self, spec: AppSpec, stored: StoredRevision, cuts: Cuts) -> None:
        self._spec, self._cuts = spec, cuts
        self.stored = stored
        self.cut = Cut.from_offset(stored.revision.meta.cut)

    def start(self) -> Start:
        """Its state. Errors: REVISION_NOT_REPLAYABLE, CUTS_TRIMMED."""
        meta = self.stored.revision.meta
        app = plan_app(self._spec.text, default_registry(), connections=self._spec.variables)
        if meta.text != app.text:
            raise self._unfit("another text of the app made it")
        if meta.inputs and self._spec.inputs and meta.inputs != self._spec.inputs:
            raise self._unfit("its inputs were others")
        columns = self.stored.on_columns(app)
        plan = plan_restore(app, app, default_registry(), meta.fingerprints, columns=columns)
        if not plan.unchanged:
            raise self._unfit("a nadi made it that keeps something else in its state")
        self._check_cut()
        return Start(self.cut, dict(enumerate(self._states(app, plan))))

    def _check_cut(self) -> None:
        found, last = self._cuts.at(self.cut.n), self._cuts.last()
        if found == self.cut:
            return
        if last is None or last.n < self.cut.n:
            ends = "is empty" if last is None else f"ends with cut {last.n}"
            raise self._unfit(f"it stands after cut {self.cut.n}, and the cut log {ends}")
        if found is None:
            raise error("CUTS_TRIMMED", cut=self.cut.n, first=first_after(self._cuts, self.cut.n, last.n))
        raise self._unfit(f"the cut log has another cut {self.cut.n}: it is that of another state folder")

    def _states(self, app: App, plan: RestorePlan) -> list[Iterator[Part]]:
        buckets = self._spec.buckets
        if self.stored.buckets == buckets:
            return [self.stored.parts(bucket) for bucket in range(buckets)]
        clock, make = self.stored.revision.meta.clock, kernel_maker(self._spec)
        restored = Restored(self.stored, plan, app, app, buckets, clock, make)
        return [restored.parts(bucket) for bucket in range(buckets)]

    def _unfit(self, reason: str) -> NadiError:
        name = self.stored.revision.name
        return error("REVISION_NOT_REPLAYABLE", app=self._spec.app, revision=name, reason=reason)
