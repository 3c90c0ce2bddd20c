"""The batches of a measured node: what Spark tells of each, and what the group committed in it.

Spark counts rows of the connector, not events, numbers its batches anew in each run of a query, and takes the waiting for events for a part of a batch. So a
batch is known by its cut here, has the events of that cut, and begins when the cut began to be made, if Spark waited for it until then.

    watch = Watch()
    with watch.noting():
        supervise(session, specs, options, stop, tell, watch.start, watch.make_cuts)
    watch.batches()
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from bench.plan import Batch
from nadi.metrics import Progress
from nadi.pipeline.coordinator import group
from nadi.pipeline.coordinator.ledger import Ledger
from nadi.pipeline.cutting.cutmaker import CutMaker
from nadi.pipeline.cutting.cuts import Cut
from nadi.pipeline.query import QueryPlan, start_query
from nadi.pipeline.spec import AppSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery


class Committed(NamedTuple):
    """A cut that was committed: when it began to be made and when it was done (ms since the epoch), and its events."""

    n: int
    begun: float
    done: float
    events: int


class Watch:
    """Notes the cuts of one app while it runs. `kind` makes its cut maker."""

    def __init__(self, kind: Callable[[AppSpec], CutMaker] = CutMaker) -> None:
        self._kind = kind
        self._queries: list[StreamingQuery] = []
        self._begun: dict[int, float] = {}
        self._done: list[Committed] = []

    def start(self, session: SparkSession, plan: QueryPlan) -> StreamingQuery:
        """Starts a query as a node does."""
        self._queries.append(start_query(session, plan))
        return self._queries[-1]

    def make_cuts(self, spec: AppSpec) -> CutMaker:
        """A cut maker of whose cuts it is noted when they began to be made."""
        maker = self._kind(spec)
        inner = maker.next

        def following(start: Cut, known: Progress | None) -> Cut | None:
            begin = time.time()
            cut = inner(start, known)
            if cut is not None:
                self._begun[cut.n] = begin * 1000
            return cut

        maker.next = following
        return maker

    @contextmanager
    def noting(self) -> Iterator[None]:
        """Have the groups that are made meanwhile tell of what they commit: the pipeline has no hook for that."""
        watch = self

        class NotingLedger(Ledger):
            def commit(self, cut: Cut, buckets: Sequence[Mapping[str, Any]]) -> Progress:
                done = super().commit(cut, buckets)
                watch.committed(cut.n, buckets)
                return done

        group.Ledger = NotingLedger
        try:
            yield
        finally:
            group.Ledger = Ledger

    def committed(self, n: int, buckets: Sequence[Mapping[str, Any]]) -> None:
        """A cut is done; `buckets` is what each of its buckets told."""
        events = sum(sum(b["in"].values()) for b in buckets)
        now = time.time() * 1000
        self._done.append(Committed(n, self._begun.get(n, now), now, events))

    def batches(self) -> list[Batch]:
        """Those that Spark remembers and that had a cut committed, by cut."""
        told = [msgspec.json.decode(p.json) for query in self._queries for p in query.recentProgress]
        made = (batch_of(each, self._done) for each in told)
        return sorted((b for b in made if b is not None), key=lambda b: b.id)


def batch_of(told: Mapping[str, Any], done: Sequence[Committed]) -> Batch | None:
    """The batch that Spark tells of (`StreamingQueryProgress`); None for one in which nothing was committed. `done` is in the order of time.

    >>> told = {"timestamp": "1970-01-01T00:00:01.000Z", "durationMs": {"latestOffset": 500, "triggerExecution": 700}}
    >>> batch_of(told, [Committed(4, 1_460.0, 1_690.0, 12)])
    Batch(id=4, begin=1460, events=12, ms={'latestOffset': 40, 'triggerExecution': 240})
    """
    begin = round(datetime.fromisoformat(told["timestamp"].replace("Z", "+00:00")).timestamp() * 1000)
    ms = dict(told["durationMs"])
    at = bisect_left(done, begin, key=lambda c: c.done)
    if at == len(done) or done[at].done > begin + ms["triggerExecution"] + 1:
        return None
    cut = done[at]
    waited = min(ms["latestOffset"], max(0, int(cut.begun) - begin))
    waiting = {name: ms[name] - waited for name in ("latestOffset", "triggerExecution")}
    return Batch(cut.n, begin + waited, cut.events, {**ms, **waiting})
