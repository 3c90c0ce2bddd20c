"""`nadi worker` in a cluster: a node whose apps a manager gives it, with REST APIs beside it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator

from nadi.cluster.contract import Clock, NoAnswer, StoreAway
from nadi.cluster.machineclock import MachineClock
from nadi.cluster.messages import Farewell, Message, Metrics, Owners, Unknown, Where
from nadi.cluster.settings import WorkerSettings
from nadi.cluster.worker import Worker
from nadi.config.deployment import HTTP, HTTPS, Deployment, Listener
from nadi.config.release import release
from nadi.errors import error
from nadi.io.httpserver import HttpServer
from nadi.io.wallclock import WALL
from nadi.metrics import AppProgress
from nadi.pipeline.node import ExitReport, NodeOptions
from nadi.pipeline.run import Node
from nadi.server import frontdoor
from nadi.server.apperrors import AppErrors
from nadi.server.applog import AppLog
from nadi.server.distributed.contact import Contact
from nadi.server.distributed.entrance import entrance_of
from nadi.server.distributed.instanceapps import InstanceApps
from nadi.server.distributed.instancenode import InstanceNode
from nadi.server.distributed.instancerevisions import InstanceRevisions
from nadi.server.distributed.instancetrials import InstanceTrials
from nadi.server.distributed.loopthread import LoopThread
from nadi.server.distributed.managedrevisions import ManagedRevisions
from nadi.server.distributed.membership import network_of, node_key, shared_conf, shared_persistence
from nadi.server.distributed.nodeentrance import OF_WORKERS, NodeEntrance
from nadi.server.frontdoor import FrontDoor, Say
from nadi.server.home import Home
from nadi.server.lastrevision import last_revision
from nadi.server.preparation import AppPreparation
from nadi.server.reporters import statistics_for
from nadi.server.rest import instancestates, nodemessages, page
from nadi.server.rest.node import NodeFacts
from nadi.server.workerapi import WorkerApi

ASKED_WITHIN = 2_000  # ms that a manager has to say where sources are
LEAVES_WITHIN = 30_000  # ms that the leader and the instances have, until the worker ends in any case
OPEN = (*frontdoor.OPEN, *page.OPEN)


class ClusterWorker:
    """See the module's text. `say` is told, in sentences, what an operator wants to know, `show` what no file may keep."""

    def __init__(self, deployment: Deployment, home: Home, say: Say, show: Say, clock: Clock | None = None) -> None:
        """Errors: INVALID_SETTING, FOLDER_NOT_PRIVATE, FOLDER_NOT_MADE, USERS_DAMAGED."""
        sections, config = deployment.sections, deployment.sections.deployment_config
        if not config.managers:
            wanted = "the managers, each with host and port"
            raise error("INVALID_SETTING", name="deployment.config.resourceManagers", value="missing", wanted=wanted)
        self._deployment = deployment
        self._home = home
        self._say = say
        home.make()
        self._door = FrontDoor(deployment, home, say, show)
        self._persistence = shared_persistence(deployment)
        options = NodeOptions(
            home.state,
            sections.spark.master,
            shared_conf(deployment),
            persistence=self._persistence,
            error_store=deployment.error_store,
            stays=True,
            updates=True,
            certificate=self._door.certificate,
            home=home.folder,
            closed=home.closed(deployment),
            sources=deployment.sources_of_apps,
        )
        self._statistics = statistics_for(deployment, options, home.folder)
        self._preparation = AppPreparation(options, sections.own.variables, deployment.refs)
        self._app_log = AppLog()
        self._node = Node((), options, self._note)
        self._revisions = InstanceRevisions(options, self._is_active, self._folder_of)
        self._trials = InstanceTrials(options, self._preparation)
        self._instances = InstanceNode(
            self._node, self._preparation, self._statistics.enter, self._metrics, self._revisions.begin
        )
        self._apps = InstanceApps(home.state, self._instances, self._is_ready, self._statistics.asked)
        self._facts = NodeFacts(sections.carbon.id, home.folder, time.time())
        own = config.interface(HTTPS, HTTP)
        self._network = network_of(deployment, own)
        self._managers = tuple(manager.address for manager in config.managers)
        settings = WorkerSettings(
            sections.carbon.id,
            own.address,
            self._managers,
            config.receiver,
            config.leader_retry,
            version=release(),
        )
        self._contact = Contact(self._network, say)
        self._worker = Worker(settings, clock or MachineClock(), self._contact, self._instances, WALL.agree)
        self._coordination = LoopThread(self._life, self._failed)
        self._reason: BaseException | None = None

    def request_stop(self) -> None:
        """Leave the cluster, so that what runs here goes on elsewhere at once, and stop. Returns at once; safe in a signal handler."""
        if not self._coordination.begin(self._leave):
            self._node.request_stop()

    async def _leave(self) -> None:
        try:
            self._say(farewell(await self._worker.leave(LEAVES_WITHIN)))
        finally:
            self._instances.hush()
            self._node.request_stop()

    def run(self) -> ExitReport:
        """Run until asked to stop. Errors: those of `Node.run`, SERVER_NOT_STARTED; what coordination ended with."""
        with contextlib.ExitStack() as started:
            started.callback(self._door.identity.close)
            self._coordination.start()
            started.callback(self._coordination.close)
            for what, listener, server in self._servers():
                server.start()
                started.callback(server.stop)
                self._say(f"{what}: {listener.scheme}://{listener.host}:{server.port}")
            if (entrance := entrance_of(self._deployment, self._door.certificate, self._owners)) is not None:
                entrance.start()
                started.callback(entrance.stop)
                self._say(f"entrance for messages: {self._deployment.sections.own.cluster.entrance}")
            self._statistics.start(lambda name: self._apps.status(name) is not None)
            started.callback(self._statistics.close)
            try:
                report = self._node.run()
            finally:
                self._instances.close()
        if self._reason is not None:
            raise self._reason
        return report

    async def _life(self) -> None:
        try:
            await self._worker.run()
        finally:
            await self._network.close()

    def _failed(self, reason: BaseException) -> None:
        """Coordination has ended by itself: without it nothing may run."""
        self._reason = reason
        self._node.request_stop()
        self._node.break_off()

    def _folder_of(self, instance: str) -> str:
        return self._instances.folder_of(instance)

    def _is_active(self, instance: str) -> bool:
        return self._apps.is_active(instance)

    def _is_ready(self) -> bool:
        return self._node.is_open and self._contact.is_taken

    def _note(self, progress: AppProgress) -> None:
        self._app_log.note(progress)
        self._instances.note(progress)
        self._statistics.note(progress)

    def _metrics(self) -> Metrics:
        if not self._statistics.is_enabled:
            return Metrics()
        found = self._statistics.worker_metrics()
        return Metrics(found.system_cpu, found.process_cpu, found.memory_usage)

    # ---- servers

    def _servers(self) -> Iterator[tuple[str, Listener, HttpServer]]:
        """The servers of all listeners, not started yet, and what they are for."""
        key, answers = node_key(self._deployment), nodemessages.worker_answers(self._answer)
        made = WorkerApi(
            deployment=self._deployment,
            door=self._door,
            apps=self._apps,
            revisions=ManagedRevisions(self._managers),
            errors=AppErrors(self._home.state, self._deployment.error_store, self._apps, self._folder_of),
            preparation=self._preparation,
            statistics=self._statistics,
            facts=self._facts,
            last_revision=lambda: last_revision(self._persistence, self._home.state),
        )
        api = made.routes(
            nodemessages.message_routes(answers),
            instancestates.routes(self._revisions.backup, self._trials.tried),
        )
        for listener, server in self._door.servers(
            self._deployment.http, api, OPEN, lambda guarded: NodeEntrance(guarded, answers, key, api, OF_WORKERS)
        ):
            yield "REST API", listener, server
        for listener, server in self._door.servers(self._deployment.query, made.queries()):
            yield "on-demand queries", listener, server

    async def _owners(self) -> Owners:
        """In the loop of a server: who takes messages for http sources. Errors: StoreAway."""
        return await asyncio.wrap_future(self._coordination.submit(self._told_owners()))

    async def _told_owners(self) -> Owners:
        """What the first manager says that knows. Errors: StoreAway."""
        said = ""
        for manager in self._managers:
            try:
                answer = await self._network.ask(manager, Where(), ASKED_WITHIN)
            except NoAnswer as reason:
                said = str(reason)
                continue
            if isinstance(answer, Owners):
                return answer
            said = answer.reason if isinstance(answer, Unknown) else repr(answer)
        raise StoreAway(f"no manager can say where sources are: {said}")

    async def _answer(self, asked: Message) -> Message:
        """In the loop of a server: have the worker's loop answer."""
        return await asyncio.wrap_future(self._coordination.submit(self._worker.answer(asked)))


def farewell(said: Farewell | None) -> str:
    """What an operator wants to know of how a worker has left.

    >>> farewell(Farewell(("Meters: no worker has port 8006 free",)))
    'cluster: left; no other worker can run these now: Meters: no worker has port 8006 free'
    """
    if said is None:
        return "cluster: no manager has said that this worker may go; what ran here goes on elsewhere when its lease is over"
    if said.waiting:
        return f"cluster: left; no other worker can run these now: {'; '.join(said.waiting)}"
    return "cluster: left; what ran here goes on elsewhere"
