"""The node of the pair for those who ask from other threads than its own: people over REST, pages, load balancers."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any

from nadi.cluster.pair import Loss, PairNode, PairStatus, Role
from nadi.errors import Diagnostic, diagnostic
from nadi.eventsync.counters import Counters
from nadi.server.pair.activenode import AnsweredElsewhere, PassesOn
from nadi.server.rest.statistics import HaFacts

Submit = Callable[[Coroutine[Any, Any, Any]], "Future[Any]"]
"""Hands work over to the loop of the pair's node."""

WORKING = (Role.ACTIVE, Role.SUSPENDED)


class PairView:
    """Implements `nadi.server.rest.pair.PairView`. `by_hand` names files of apps that only this node has."""

    def __init__(
        self, node: PairNode, submit: Submit, passes_on: PassesOn, counters: Counters, by_hand: Callable[[], list[str]]
    ) -> None:
        self._node = node
        self._submit = submit
        self._passes_on = passes_on
        self._counters = counters
        self._by_hand = by_hand

    @property
    def is_active(self) -> bool:
        """Whether this node does the work."""
        return self._node.role in WORKING

    def status(self) -> dict[str, Any]:
        found = self._node.status
        counters = self._counters
        return described(found, self._alarms(found)) | {
            "sentRecords": counters.sent_records,
            "receivedRecords": counters.received_records,
            "inFlight": counters.in_flight,
            "backlogBytes": counters.backlog,
        }

    def facts(self) -> HaFacts:
        """As `GET /statistics` has them."""
        found = self._node.status
        return HaFacts(found.group, self.is_active, found.in_sync, found.last_sync or 0)

    def switch(self) -> None:
        if not self._node.is_leader:
            try:
                self._passes_on("POST", "/ha/switch")
            except AnsweredElsewhere as elsewhere:
                if elsewhere.answer.status == 200:
                    return
                raise
        self._submit(self._node.switch()).result()

    def promote(self, accept_loss: bool) -> dict[str, Any]:
        lost: Loss = self._submit(self._node.promote(accept_loss)).result()
        return {
            "promoted": accept_loss or lost.none,
            "since": lost.since,
            "others": list(lost.others),
            "reason": lost.reason,
        }

    def _alarms(self, found: PairStatus) -> tuple[Diagnostic, ...]:
        names = [] if self.is_active else self._by_hand()
        if not names:
            return found.alarms
        mine = diagnostic("PAIR_APPS_DIFFER", id=found.id, group=found.group, apps=", ".join(names))
        return (*found.alarms, mine)


def described(found: PairStatus, alarms: tuple[Diagnostic, ...]) -> dict[str, Any]:
    """A status as JSON; times are ms of the epoch."""
    partner = None if found.partner is None else {"id": found.partner.id, "address": found.partner.address}
    return {
        "id": found.id,
        "group": found.group,
        "role": found.role.value,
        "token": found.token,
        "active": found.active,
        "partner": partner,
        "inSync": found.in_sync,
        "lastSync": found.last_sync,
        "skew": found.skew,
        "reason": found.reason,
        "unready": found.unready,
        "alarms": [{"condition": one.condition, "message": one.message, "next": one.next_step} for one in alarms],
    }
