"""`nadi manager`: a server that takes apps, cuts them, and has workers run them.

manager = ClusterManager(deployment, open_home(Path("nadi-manager")), print, print)
manager.run()           # manager.request_stop() from a signal handler ends it
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Coroutine
from typing import Any, TypeVar

from fastapi import APIRouter, FastAPI, Request
from starlette.responses import JSONResponse, Response

from nadi.channels.administration import Bounds
from nadi.cluster.contract import StoreAway
from nadi.cluster.leases import Candidate
from nadi.cluster.machineclock import MachineClock
from nadi.cluster.manager import Manager
from nadi.cluster.messages import Message, Owners, Unknown, Where
from nadi.cluster.settings import Election, Placing, Timing
from nadi.cluster.sqlstore import SqlStore
from nadi.config.deployment import MANAGER_HTTP, MANAGER_HTTPS
from nadi.config.deployment import Deployment as Configured
from nadi.config.places import DataSource
from nadi.config.settings import read_settings
from nadi.databases import Address
from nadi.errors import error
from nadi.errors.redaction import redacted
from nadi.io.kafkatrust import WANTED, brokers_of
from nadi.pipeline.node import NodeOptions
from nadi.pipeline.stoprequest import StopRequest
from nadi.server import frontdoor
from nadi.server.appfiles import SUFFIX
from nadi.server.distributed.channelmeters import ChannelMeters
from nadi.server.distributed.channelplace import ChannelPlace
from nadi.server.distributed.clusterapps import ClusterApps
from nadi.server.distributed.clusterstatistics import ClusterStatistics
from nadi.server.distributed.clusterwatch import ClusterWatch, Sight
from nadi.server.distributed.deployment import Deployment
from nadi.server.distributed.entrance import entrance_of
from nadi.server.distributed.entranceroutes import KINDS, owners_of
from nadi.server.distributed.execution import Execution
from nadi.server.distributed.instancecounts import InstanceCounts
from nadi.server.distributed.leftovers import Leftovers
from nadi.server.distributed.loopthread import LoopThread
from nadi.server.distributed.membership import incarnation, network_of, node_key, shared_persistence
from nadi.server.distributed.nodeentrance import OF_MANAGERS, NodeEntrance
from nadi.server.distributed.oldversions import OldVersions
from nadi.server.distributed.questions import Questions
from nadi.server.distributed.trials import Trials
from nadi.server.distributed.upkeep import Upkeep
from nadi.server.frontdoor import FrontDoor, Say
from nadi.server.home import Home, make_folder
from nadi.server.lastrevision import last_revision
from nadi.server.preparation import AppPreparation
from nadi.server.quota import Quota
from nadi.server.reporters import statistics_for
from nadi.server.rest import (
    clusterchanges,
    clusterchannels,
    clusterpage,
    clusterrevisions,
    elements,
    login,
    managers,
    nodemessages,
    page,
    permissions,
    siddhiapps,
    statistics,
    storequery,
)
from nadi.server.rest.answers import coded, declared
from nadi.server.rest.application import make_routes
from nadi.server.rest.node import NodeFacts, node_routes
from nadi.server.security.permissions import EVERYBODY

T = TypeVar("T")
OPEN = (*frontdoor.OPEN, *page.OPEN)
STOP_WITHIN = 3_000  # ms that workers have to stop an instance


class ClusterManager:
    """See the module's text. `say` is told, in sentences, what an operator wants to know, `show` what no file may keep."""

    def __init__(self, deployment: Configured, home: Home, say: Say, show: Say) -> None:
        """Errors: INVALID_SETTING, FOLDER_NOT_PRIVATE, FOLDER_NOT_MADE, USERS_DAMAGED, DATABASE_UNKNOWN, CONNECTION_UNAVAILABLE."""
        sections, config = deployment.sections, deployment.sections.deployment_config
        if not config.is_distributed:
            raise error(
                "INVALID_SETTING",
                name="deployment.config.type",
                value=config.type,
                wanted="'distributed', for a manager",
            )
        self._configured = deployment
        self._home = home
        self._say = say
        home.make()
        for file in sections.datasources.files():
            make_folder(file.parent)
        self._door = FrontDoor(deployment, home, say, show)
        self._election = election_of(deployment)
        self._timing = timing_of(deployment)
        own = config.interface(MANAGER_HTTPS, MANAGER_HTTP)
        self._network = network_of(deployment, own)
        self._store = SqlStore(database_of(deployment, home), self._election.group)
        self._clock = MachineClock()
        me = Candidate(sections.carbon.id, incarnation(), own.address)
        placing = Placing(config.algorithm, config.least)
        execution = Execution.of(deployment)
        self._on_spark = execution.is_spark
        self._watch = ClusterWatch(self._store, self._clock, me.incarnation)
        self._manager = Manager(
            me, self._clock, self._store, self._network, self._election, self._timing, placing, self._watch.ring
        )
        self.changes = Deployment(
            self._manager,
            self._store,
            self._clock,
            channels_of(deployment),
            leftovers_of(deployment),
            execution,
            sections.own.variables,
            deployment.refs,
            Trials(self._network),
        )
        self._old_versions = OldVersions(
            self._manager,
            self._store,
            self._clock,
            leftovers_of(deployment),
            self.changes.homes_of,
            self.changes.remove,
        )
        self._coordination = LoopThread(self._life, self._failed)
        options = NodeOptions()
        self._preparation = AppPreparation(options, sections.own.variables, deployment.refs)
        questions = Questions(self._coordination.submit, self._network, self._preparation)
        counts = InstanceCounts(self._coordination.submit, self._network)
        self._apps = ClusterApps(self._coordination.submit, self.changes, self._store, self._knows, questions, counts)
        self._upkeep = Upkeep(
            deployment,
            home,
            self._election.group,
            self._manager,
            self._store,
            self._clock,
            self._network,
            self._preparation,
            self._coordination.submit,
        )
        self._statistics = statistics_for(deployment, options, home.folder)
        self._statistics.feed(ChannelMeters(self._coordination.submit, self._store, self._upkeep.report_of, self.leads))
        self._stop = StopRequest()  # an event of `threading` would not be safe in a handler of signals
        self._reason: BaseException | None = None
        self._facts = NodeFacts(sections.carbon.id, home.folder, time.time())

    def request_stop(self) -> None:
        """Give the leadership back and stop. Returns at once; safe in a signal handler."""
        self._stop.set()

    def run(self) -> None:
        """Run until asked to stop. Errors: CONNECTION_UNAVAILABLE (the database), SERVER_NOT_STARTED; what coordination ended with."""
        with contextlib.ExitStack() as started:
            started.callback(self._door.identity.close)
            started.callback(self._store.close)
            self._store.open()
            self._coordination.start()
            started.callback(self._coordination.close)
            self._mention_files()
            self._statistics.start(lambda _app: False)
            started.callback(self._statistics.close)
            answers = nodemessages.manager_answers(self._answer, self._timing.interval, self._timing.retries)
            routes, key = self._routes(answers), node_key(self._configured)
            for listener, server in self._door.servers(
                self._configured.manager_http,
                routes,
                OPEN,
                around=lambda guarded: NodeEntrance(guarded, answers, key, routes, OF_MANAGERS),
            ):
                server.start()
                started.callback(server.stop)
                started.callback(self._let_go)
                self._say(f"REST API: {listener.scheme}://{listener.host}:{server.port}")
            if (entrance := entrance_of(self._configured, self._door.certificate, self._owners)) is not None:
                entrance.start()
                started.callback(entrance.stop)
                self._say(f"entrance for messages: {self._configured.sections.own.cluster.entrance}")
            self._say(
                f"cluster: {self._election.group}, channels on {self._configured.sections.deployment_config.transport}"
                + (f", groups on {self._configured.sections.spark.master}" if self._on_spark else "")
            )
            self._stop.wait()
        if self._reason is not None:
            raise self._reason

    def _mention_files(self) -> None:
        """An app of a cluster is a row in its database, which all managers see: a file would be known to one of them, and go with its machine."""
        if found := sorted(path.name for path in self._home.apps.glob(f"*{SUFFIX}")):
            how = "a manager takes apps over REST: nadi app deploy <file> --url <manager>"
            self._say(f"warning: not deployed: {', '.join(found)} in {self._home.apps}; {how}")

    async def _life(self) -> None:
        house = asyncio.create_task(self._old_versions.run())
        try:
            async with asyncio.TaskGroup() as duties:
                duties.create_task(self._manager.run())
                duties.create_task(self._upkeep.run())
        finally:
            house.cancel()
            with contextlib.suppress(StoreAway):  # then the lease ends by itself
                await self._manager.elector.resign()
            await self._network.close()

    def _failed(self, reason: BaseException) -> None:
        self._reason = reason
        self._stop.set()

    # ---- for the servers' loops

    def asked(self, work: Coroutine[Any, Any, T]) -> Awaitable[T]:
        """Have something done in the manager's loop."""
        return asyncio.wrap_future(self._coordination.submit(work))

    async def _answer(self, asked: Message) -> Message:
        if isinstance(asked, Where):
            try:
                return await self._owners()
            except StoreAway as reason:
                return Unknown(str(reason))
        return await self.asked(self._manager.answer(asked))

    def leads(self) -> bool:
        """Whether this manager does."""
        return self._manager.term is not None

    def _news(self, mark: str) -> Awaitable[Sight | None]:
        return self.asked(self._watch.after(mark))

    def _let_go(self) -> None:
        """Those who wait for news would hold up the end of a server."""
        self._coordination.submit(self._closed_watch())

    async def _closed_watch(self) -> None:
        self._watch.close()

    def _knows(self) -> bool | None:
        return None if self._manager.elector.leader is None else self.leads()

    async def _owners(self) -> Owners:
        """Who takes messages for http sources. Errors: StoreAway."""
        return owners_of(await self.asked(self._store.read(*KINDS)))

    def _routes(self, answers: nodemessages.Answers) -> FastAPI:
        identity, cluster = self._door.identity, self._configured.sections.cluster
        measured = ClusterStatistics(self._coordination.submit, self._network, self._apps.look)
        most = read_settings(self._configured.conf).apps_user
        quota = Quota(self._home.owners, most, self._apps.names)
        made = make_routes(
            "nadi manager",
            [
                self._health(),
                nodemessages.manager_routes(answers),
                clusterchannels.routes(self._upkeep.channels),
                managers.routes(self._apps.look, self.leads, self._election.group, cluster.enabled),
                statistics.app_routes(self._apps, measured),  # before those of an app that has any name
                elements.routes(self._apps, self._preparation, lambda text: redacted(text, self._configured.secrets)),
                clusterrevisions.routes(self._upkeep),
                siddhiapps.routes(self._apps, quota),
                storequery.routes(self._apps),
                clusterchanges.routes(self._apps),
                node_routes(self._facts, "manager"),
                statistics.node_routes(
                    self._statistics,
                    lambda: last_revision(shared_persistence(self._configured), self._home.state),
                    group=self._election.group if cluster.enabled else "",
                ),
                login.routes(self._door.login_api),
                permissions.routes(identity.permissions, identity.provider),
                clusterpage.routes(
                    self._news, self._apps, self._upkeep.channels, clusterpage.Place(self._election.group, self._facts)
                ),
            ],
        )

        @made.exception_handler(StoreAway)
        async def away(_request: Request, problem: Exception) -> Response:
            return coded(503, 1, f"The coordination database is away: {problem}", {"Retry-After": "1"})

        return made

    def _health(self) -> APIRouter:
        found = APIRouter(tags=["Health"], dependencies=[EVERYBODY])

        @found.get("/health", summary="Whether the server answers")
        async def health() -> dict[str, str]:
            return {"status": "healthy"}

        @found.get("/health/ready", responses=declared(503), summary="Whether this manager knows who leads")
        async def ready() -> Response:
            elector = self._manager.elector
            if elector.alarm:
                return JSONResponse({"status": "alarm", "reason": elector.alarm}, 503, {"Retry-After": "1"})
            if elector.leader is None:
                return JSONResponse({"status": "starting"}, 503, {"Retry-After": "1"})
            return JSONResponse({"status": "ready", "leads": self.leads()})

        return found


def election_of(deployment: Configured) -> Election:
    """How managers agree."""
    cluster = deployment.sections.cluster
    return Election(cluster.group, cluster.strategy.interval, cluster.strategy.retries, cluster.strategy.polling)


def timing_of(deployment: Configured) -> Timing:
    """How workers are held."""
    config = deployment.sections.deployment_config
    lease = Timing(config.interval, config.retries).lease
    return Timing(config.interval, config.retries, min(STOP_WITHIN, lease * 3 // 8))


def channels_of(deployment: Configured) -> ChannelPlace:
    """Where channels are. Errors: INVALID_SETTING."""
    config, own = deployment.sections.deployment_config, deployment.sections.own.cluster
    key = "bootstrapURLs" if config.transport == "kafka" else "natsServerUrl"
    if not config.channel_servers:
        raise error("INVALID_SETTING", name=f"deployment.config.{key}", value="missing", wanted="where channels are")
    if "@" in config.channel_servers:
        wanted = "an address without user and password: it stands in the texts of partial apps"
        raise error("INVALID_SETTING", name=f"deployment.config.{key}", value="…", wanted=wanted)
    if config.transport == "kafka" and (unknown := brokers_of(config.channel_servers).unknown):
        raise error("INVALID_SETTING", name=f"deployment.config.{key}", value=unknown[0], wanted=WANTED)
    bounds = Bounds(own.channel_bytes, own.channel_replicas)
    return ChannelPlace(config.transport, config.channel_servers, bounds)


def leftovers_of(deployment: Configured) -> Leftovers:
    """What is known of where workers keep state."""
    conf = deployment.conf
    cuts, state, journal = (conf.get(f"nadi.{name}.url", "") for name in ("cuts", "state", "journal"))
    return Leftovers(cuts, state, journal, shared_persistence(deployment))


def database_of(deployment: Configured, home: Home) -> Address:
    """The coordination database: that of the strategy, else of the deployment; without one a single manager keeps a file. Errors: INVALID_SETTING."""
    sections = deployment.sections
    name = sections.cluster.strategy.datasource
    found: DataSource | None = sections.datasources.find(name)
    if found is None and not sections.cluster.enabled:
        found = sections.datasources.find(sections.deployment_config.datasource)
        if found is None:
            return Address(f"sqlite:///{home.state}/cluster.db")
    if found is None:
        found = sections.datasources.source(name, "cluster.config.strategyConfig.datasource")
    return Address(found.jdbc_url, found.username, found.password)
