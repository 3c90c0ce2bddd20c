"""On-demand queries to an app of a cluster: which instance answers for the app, and its answer.

What is kept in memory (tables, named windows, aggregations) is in one instance of one group: the rules of cutting see to that. A table in a store is the same
for all instances that have it. So one instance has all that a query needs, also for sums and orders over all rows, and changes what it changes once; a query
for which there is none is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from functools import lru_cache
from typing import Any
from urllib.parse import quote

import msgspec

from nadi.cluster.contract import NoAnswer
from nadi.cluster.overview import AppView, InstanceView
from nadi.errors import NadiError, error
from nadi.pipeline import engine
from nadi.pipeline.ondemand import Found
from nadi.plan.distribution import Topology
from nadi.plan.nodes import App
from nadi.server.distributed.wire import Answer, Network
from nadi.server.preparation import AppPreparation

WITHIN = 35_000  # ms: more than a worker takes for an answer, or to say that there is none
PLANNED = 256
"""So many texts are remembered as they are planned."""


class Detail(msgspec.Struct):
    """A column of an answer."""

    name: str
    dataType: str  # noqa: N815 - the contract's name


class Told(msgspec.Struct):
    """What a worker answers."""

    records: list[list[Any]] = []
    details: list[Detail] | None = None
    message: str = ""


_TOLD = msgspec.json.Decoder(Told)


class Questions:
    """See the module's text. From any thread but that of the manager's loop."""

    def __init__(
        self,
        submit: Callable[[Coroutine[Any, Any, Answer]], Future[Answer]],
        network: Network,
        preparation: AppPreparation,
    ) -> None:
        self._submit = submit
        self._network = network
        self._preparation = preparation
        self._planned = lru_cache(PLANNED)(self._plan)

    def ask(self, app: AppView, topology: Topology, query: str) -> Found | None:
        """Find, or change: None once the change is made.

        Errors: SiddhiParserException, OnDemandQueryCreationException, as the whole app has them; CLUSTER_QUERY_REFUSED; INSTANCE_NOT_ANSWERING.
        """
        engine.plan_on_demand(self._planned(app.text), query)
        able = self._able(app, topology, query)
        if not able:
            reason = "no instance has all that it names"
            raise error("CLUSTER_QUERY_REFUSED", app=app.name, reason=reason)
        return self._asked(next((one for one in able if one.runs), able[0]), query)

    def _plan(self, text: str) -> App:
        return self._preparation.filled(text).planned(engine)

    def _able(self, app: AppView, topology: Topology, query: str) -> list[InstanceView]:
        """The instances that have all that a query names; that of an aggregation before those that only read what it has stored."""
        kinds = {group.name: group.kind for group in topology.groups}
        found: dict[str, bool] = {}
        for one in app.instances:
            if one.group not in found:  # all of a group have the same
                found[one.group] = self._fits(one.text, query)
        able = [one for one in app.instances if found[one.group]]
        return sorted(able, key=lambda one: kinds.get(one.group) != "aggregation")

    def _fits(self, text: str, query: str) -> bool:
        try:
            engine.plan_on_demand(self._planned(text), query)
        except NadiError:
            return False
        return True

    def _asked(self, one: InstanceView, query: str) -> Found | None:
        """The answer of an instance. One that did not come is not asked for again: a change may have been made."""
        if not one.runs:
            raise error("INSTANCE_NOT_ANSWERING", instance=one.instance, reason=f"it does not run now: {one.state}")
        body = msgspec.json.encode({"query": query, "details": True})
        path = f"/siddhi-apps/{quote(one.instance, safe='')}/query"
        try:
            answer = self._submit(self._network.request(one.address, "POST", path, body, WITHIN)).result()
            told = _TOLD.decode(answer.body or b"{}")
        except (NoAnswer, msgspec.MsgspecError) as reason:
            raise error("INSTANCE_NOT_ANSWERING", instance=one.instance, reason=reason) from reason
        if answer.status != 200:
            raise error("INSTANCE_NOT_ANSWERING", instance=one.instance, reason=told.message or answer.status)
        if told.details is None:
            return None
        names, types = (tuple(c.name for c in told.details), tuple(c.dataType.lower() for c in told.details))
        return Found(names, [tuple(row) for row in told.records], types)
