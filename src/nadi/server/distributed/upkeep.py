"""What a manager does beside placing apps: it makes and restores revisions of apps, trims channels and cut logs, and tells how it is with channels."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from starlette.responses import Response

from nadi.cluster.contract import Clock, NoAnswer, Store
from nadi.cluster.ledger import Ledger
from nadi.cluster.manager import Manager
from nadi.config.deployment import Deployment
from nadi.io.contract import Place
from nadi.server.distributed.apprevisions import AppRevisions
from nadi.server.distributed.channelends import EndsOf
from nadi.server.distributed.channelreport import ChannelReport
from nadi.server.distributed.membership import shared_persistence
from nadi.server.distributed.network import HttpNetwork
from nadi.server.distributed.retention import Retention
from nadi.server.home import Home
from nadi.server.preparation import AppPreparation
from nadi.server.rest.answers import coded

PASSED_ON = 700_000  # ms that the leader has for what another manager was asked


class Upkeep:
    """See the module's text. Runs in the loop of its manager, which `submit` leads to from others. Errors of making one: INVALID_SETTING."""

    def __init__(
        self,
        deployment: Deployment,
        home: Home,
        group: str,
        manager: Manager,
        store: Store,
        clock: Clock,
        network: HttpNetwork,
        preparation: AppPreparation,
        submit: Callable[[Coroutine[Any, Any, Any]], Any],
    ) -> None:
        self._manager = manager
        self._network = network
        self._submit = submit
        ends = EndsOf(preparation.filled, place_of(home, deployment))
        cuts, bound = deployment.conf.get("nadi.cuts.url", ""), deployment.sections.own.cluster.channel_bytes
        persistence = shared_persistence(deployment)
        self._report = ChannelReport(store, ends, cuts, bound)
        self.report_of = self._report.of
        self.revisions = AppRevisions(self, manager.answer, store, group, clock, network, ends, persistence)
        self._retention = Retention(self, clock, ends, cuts, bound > 0, self.revisions.is_busy)

    async def run(self) -> None:
        """Do it until cancelled."""
        async with asyncio.TaskGroup() as duties:
            duties.create_task(self._retention.run())
            duties.create_task(self.revisions.run())

    def leads(self, token: int | None = None) -> bool:
        """Whether this manager does; with a token, whether it does so in that term."""
        held = self._manager.elector.held
        return self._manager.term is not None and (token is None or (held is not None and held.token == token))

    def ledger(self) -> tuple[int, Ledger] | None:
        """The token and the rows, where this manager leads and has read them."""
        term = self._manager.term
        try:
            return None if term is None else (term.token, term.ledger)
        except LookupError:
            return None

    # ---- for the servers' loops

    def asked(self, work: Coroutine[Any, Any, Any]) -> Awaitable[Any]:
        """Have something done in the manager's loop."""
        return asyncio.wrap_future(self._submit(work))

    def channels(self, app: str) -> Awaitable[list[dict[str, Any]]]:
        """How it is with the channels of an app. Errors: those of `ChannelReport.of`."""
        return self.asked(self._report.of(app))

    async def pass_on(self, method: str, target: str) -> Response | None:
        """The answer of the leader to a request; None where nobody leads."""
        leader = self._manager.elector.leader
        if leader is None:
            return None
        try:
            answer = await self.asked(self._network.request(leader.address, method, target, within=PASSED_ON))
        except NoAnswer as reason:
            return coded(503, 1, f"The leader does not answer: {reason}", {"Retry-After": "1"})
        return Response(answer.body, answer.status, answer.headers, media_type="application/json")


def place_of(home: Home, deployment: Deployment) -> Callable[[str], Place]:
    """What connectors of an instance are told where only their options are looked at."""
    config = deployment.sections.deployment_config
    known = {config.transport: config.channel_servers}
    return lambda instance: Place(instance, home.state / instance, channels=known)
