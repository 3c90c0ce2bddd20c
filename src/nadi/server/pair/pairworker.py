"""`nadi worker` with `deployment.config: type: ha`: one of two nodes, of which one is active and the other one is ready to go on in its place."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError

from fastapi import FastAPI, Request
from starlette.responses import Response

from nadi.cluster.contract import Clock
from nadi.cluster.machineclock import MachineClock
from nadi.cluster.sqlstore import SqlStore
from nadi.config.deployment import Deployment, Listener
from nadi.config.release import release
from nadi.errors import NadiError, error
from nadi.eventsync.contract import Hello
from nadi.io.httpserver import HttpServer
from nadi.metrics import AppProgress
from nadi.pipeline.node import ExitReport, NodeOptions
from nadi.pipeline.run import Node
from nadi.pipeline.spec import AppSpec
from nadi.replica.contract import Record
from nadi.server import frontdoor
from nadi.server.apperrors import AppErrors
from nadi.server.appfiles import AppFiles
from nadi.server.applog import AppLog
from nadi.server.apps import AppNotThere, Apps
from nadi.server.claims import Claims
from nadi.server.deployer import Deployer
from nadi.server.distributed.loopthread import LoopThread
from nadi.server.distributed.membership import incarnation, trusted_of
from nadi.server.distributed.network import HttpNetwork
from nadi.server.distributed.nodeentrance import NodeEntrance
from nadi.server.distributed.nodekeys import NodeKey
from nadi.server.distributed.wire import Answer
from nadi.server.frontdoor import FrontDoor, Say
from nadi.server.home import Home, make_folder
from nadi.server.lastrevision import last_revision
from nadi.server.pair import place as places
from nadi.server.pair.activenode import OF_PAIRS, AnsweredElsewhere, ForActive, PassesOn
from nadi.server.pair.apptexts import AppTexts, CopiedTexts
from nadi.server.pair.compiles import Compiles
from nadi.server.pair.meters import SyncMeters
from nadi.server.pair.ownedhost import OwnedHost
from nadi.server.pair.pairapps import PairApps, PairRevisions
from nadi.server.pair.pairview import PairView
from nadi.server.pair.passiveapps import PassiveApps
from nadi.server.pair.returned import Returned
from nadi.server.pair.roles import ActiveRole, Roles, Server
from nadi.server.pair.services import PairServices
from nadi.server.pair.sharedfiles import SharedFiles
from nadi.server.pair.sharedsecret import secret_of
from nadi.server.pair.sync import Parts, Sync, keys_of
from nadi.server.preparation import AppPreparation
from nadi.server.quota import Quota
from nadi.server.reporters import statistics_for
from nadi.server.rest import page, pair, simulation
from nadi.server.rest.node import NodeFacts
from nadi.server.revisions import AppRevisions
from nadi.server.simulation.simulator import make_simulator
from nadi.server.simulation.targets import AppTargets
from nadi.server.worker import LARGEST_APP
from nadi.server.workerapi import WorkerApi

OPEN = (*frontdoor.OPEN, *page.OPEN)


class PairWorker:
    """See the module's text. `say` is told, in sentences, what an operator wants to know, `show` what no file may keep."""

    def __init__(self, deployment: Deployment, home: Home, say: Say, show: Say, clock: Clock | None = None) -> None:
        """Errors: INVALID_SETTING, FOLDER_NOT_PRIVATE, FOLDER_NOT_MADE, USERS_DAMAGED, CONNECTION_UNAVAILABLE (the coordination database)."""
        sections = deployment.sections
        self._deployment, self._home, self._say = deployment, home, say
        self._place = found = places.place_of(deployment)
        home.make()
        for file in sections.datasources.files():
            make_folder(file.parent)
        for notice in places.notices(deployment):
            say(f"warning: {notice}")
        self._services = PairServices(home)
        self._services.make()
        persistence = places.revisions_of(deployment, self._services.revisions)
        self._door = FrontDoor(deployment, home, say, show)
        self._options = options = NodeOptions(
            home.state,
            sections.spark.master,
            {**deployment.conf, **self._services.conf},
            persistence=persistence,
            error_store=deployment.error_store,
            stays=True,
            standby=True,
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
        self._texts = AppTexts(self._services.texts)
        self._files = AppFiles(home.apps, LARGEST_APP)
        self._compiles = Compiles(options, self._tell, self._node.expect)
        self._store = SqlStore(found.database, found.settings.group, found.settings.answers_within)
        self._store.open()
        secret = secret_of(sections.own.cluster.secret.get_secret_value(), self._store)
        self._key = NodeKey(secret)
        self._network = HttpNetwork(self._key, {}, None, trusted_of(deployment))
        self._roles = Roles(self, self._take_over, self._woken, lambda: self._node.waits)
        self._returned = Returned(self._services.returned, self._running)
        texts = CopiedTexts(self._files, self._texts, self._roles.wake)
        parts = Parts(self._roles, self._describe, texts, self._changed, self._returned)
        keys = keys_of(deployment, secret, self._door.certificate)
        self._sync = Sync(found, self._services, self._store, keys, incarnation(), parts, clock or MachineClock())
        self._coordination = LoopThread(self._life, self._failed)
        self._passes_on = PassesOn(self._network, self._coordination.submit, self._active_rest, self._is_leader)
        self._apps = PairApps(self._roles, self._passes_on, self._node, self._is_leader)
        self._revisions = PairRevisions(self._roles, self._passes_on)
        self._pairing = PairView(
            self._sync.node,
            self._coordination.submit,
            self._passes_on,
            self._sync.counters,
            lambda: self._texts.by_hand,
        )
        self._statistics.feed(SyncMeters(self._sync.counters))
        self._simulator = make_simulator(home.deployment, AppTargets(self._apps), reach=options.reach())
        self._facts = NodeFacts(sections.carbon.id, home.folder, time.time())
        self._digest = places.digest_of(deployment)
        self._said = ""
        self._reason: BaseException | None = None
        self._stopping = False

    def request_stop(self) -> None:
        """End what this node does, have the partner go on, and stop. Returns at once; safe in a signal handler."""
        if self._stopping:
            return
        self._stopping = True
        if not self._coordination.begin(self._leave):
            self._node.request_stop()

    def run(self) -> ExitReport:
        """Run until asked to stop. Errors: those of `Node.run`, SERVER_NOT_STARTED; what coordination ended with: PAIR_ID_TAKEN, PAIR_COMPLETE,
        PAIR_GROUPS_DIFFER."""
        with contextlib.ExitStack() as started:
            started.callback(self._store.close)
            started.callback(self._door.identity.close)
            self._services.start()
            started.callback(self._services.stop)
            with contextlib.suppress(OSError):  # the passive role tells of a folder that cannot be read
                self._texts.look(self._files.scan)  # before the active node asks what is there
            self._roles.begin()
            started.callback(self._roles.close)
            self._coordination.start()
            started.callback(self._coordination.close)
            self._simulator.start()
            started.callback(self._simulator.close)
            for what, listener, server in self._servers():
                server.start()
                started.callback(server.stop)
                self._say(f"{what}: {listener.scheme}://{listener.host}:{server.port}")
            self._say(f"apps: {self._home.apps}")
            self._say(f"pair: {self._place.settings.group}, event sync at {':'.join(map(str, self._place.reached))}")
            self._statistics.start(lambda name: self._apps.status(name) is not None)
            started.callback(self._statistics.close)
            report = self._node.run()
        if self._reason is not None:
            raise self._reason
        return report

    # ---- the pair

    async def _life(self) -> None:
        try:
            await self._sync.run()
        finally:
            await self._network.close()

    def _failed(self, reason: BaseException) -> None:
        """What decides has ended by itself: without it nothing may run."""
        self._reason = reason
        self._node.request_stop()
        self._node.break_off()

    async def _leave(self) -> None:
        try:
            await self._sync.node.leave()
        finally:
            self._node.request_stop()

    async def _take_over(self) -> None:
        await self._sync.take_over()

    def _describe(self) -> Hello:
        """What this node says of itself; id, incarnation, store and token are put in by who decides."""
        apps = self._texts.shared if self._is_leader() else self._texts.present
        return Hello("", "", "", 0, release(), places.SEMANTICS, self._digest, dict(apps), self._place.rest)

    def _is_leader(self) -> bool:
        return self._sync.node.is_leader

    def _active_rest(self) -> str:
        """Where the REST API of the active node is, while this one follows it."""
        followed = self._sync.node.passive.followed
        return followed.hello.rest if followed is not None and followed.connected else ""

    def _changed(self) -> None:
        """In the loop: the status may be another one. Roles and alarms are said once."""
        found = self._sync.node.status
        said = f"pair: {found.role.value}" + ("".join(f"; {alarm.message}" for alarm in found.alarms))
        if said != self._said:
            self._said = said
            self._say(said)

    def _woken(self) -> None:
        """Apps have come or gone with the role."""
        self._simulator.wake()

    def _by_hand(self) -> None:
        """Files of the passive node are others than before. Where somebody has changed them, the session begins anew, and the partner hears of it."""
        self._simulator.wake()
        names, followed = self._texts.by_hand, self._sync.node.passive.followed
        if names and followed is not None and followed.connected and not self._is_leader():
            self._say(f"warning: files of apps that the active node does not have: {', '.join(names)}")
            self._coordination.begin(self._sync.begin_anew)

    def _running(self) -> Iterator[AppSpec]:
        """The apps that run on this node as the active one."""
        active = self._roles.active
        for name in [] if active is None else active.apps.names(active=True):
            try:
                yield self._apps.live(name).spec
            except (NadiError, AppNotThere):
                continue  # it has just ended

    async def _settle(self) -> None:
        """Give error stores what waits for them."""
        try:
            await asyncio.to_thread(self._returned.settle)
        except (OSError, NadiError) as reason:
            self._say(f"warning: what a node had alone that returned stays in {self._services.returned}: {reason}")

    def prepare(self, record: Record) -> int:
        """Have a record at the partner. From any thread but that of the loop. Errors: NOT_ACTIVE, CONNECTION_UNAVAILABLE."""
        try:
            return self._coordination.submit(self._sync.node.prepare(record)).result()
        except CancelledError as ended:  # the partner may have it
            reason = "this node ends"
            raise error("CONNECTION_UNAVAILABLE", connector="event sync", reason=reason) from ended

    def confirm(self, ticket: int) -> None:
        """This node has it."""
        self._coordination.call(lambda: self._sync.node.confirm(ticket))

    def abandon(self, ticket: int) -> None:
        """This node will not have it."""
        self._coordination.call(lambda: self._sync.node.abandon(ticket))

    # ---- roles: `nadi.server.pair.roles.Makes`

    def active(self, token: int) -> ActiveRole:
        """What there is while this node is active."""
        files = SharedFiles(self._home.apps, LARGEST_APP, self, self._texts)
        claims = Claims(self._home.addresses, self._preparation.addresses)
        deployer = Deployer(files, self._preparation, self._deployment.sections.deployment.update_interval, claims)
        deployer.tell(self._simulator.wake, self._statistics.leave)
        host = OwnedHost(self._node, token, self._statistics.enter, self._preparation.name_in)
        apps = Apps(self._home, files, deployer, self._node, self._preparation, self._statistics.asked)
        found = AppRevisions(self._options, deployer, self._node)
        return ActiveRole(deployer, host, apps, found, contextlib.ExitStack())

    def passive(self) -> PassiveApps:
        """What there is while it is passive."""
        interval = self._deployment.sections.deployment.update_interval
        return PassiveApps(self._files, self._texts, self._preparation, self._compiles, interval, self._by_hand)

    def queries(self) -> Iterator[Server]:
        """The servers of on-demand queries."""
        for listener, server in self._door.servers(self._deployment.query, self._api().queries(), OPEN):
            self._say(f"on-demand queries: {listener.scheme}://{listener.host}:{listener.port}")
            yield server

    # ---- what is told

    def _note(self, progress: AppProgress) -> None:
        """What the node tells of an app."""
        self._app_log.note(progress)
        self._roles.note(progress)
        self._statistics.note(progress)
        if self._returned.is_due(progress.app):
            self._coordination.begin(self._settle)

    def _tell(self, app: str, what: str) -> None:
        self._say(f"{app}: {what}")

    # ---- servers

    def _servers(self) -> Iterator[tuple[str, Listener, HttpServer]]:
        """The servers that are open in both roles, not started yet, and what they are for."""
        routes = self._routes()
        for_active = ForActive(routes, self._is_working)
        for listener, server in self._door.servers(
            self._deployment.http,
            routes,
            OPEN,
            lambda guarded: NodeEntrance(guarded, _no_messages, self._key, for_active, OF_PAIRS),
        ):
            yield "REST API", listener, server

    def _api(self) -> WorkerApi:
        state, persistence = self._home.state, self._options.persistence
        return WorkerApi(
            deployment=self._deployment,
            door=self._door,
            apps=self._apps,
            revisions=self._revisions,
            errors=AppErrors(state, self._deployment.error_store, self._apps),
            preparation=self._preparation,
            statistics=self._statistics,
            facts=self._facts,
            last_revision=lambda: last_revision(persistence, state),
            quota=Quota(self._home.owners, self._options.settings().apps_user, self._apps.names),
            pair=self._pairing,
            pass_on=self._pass_on,
        )

    def _pass_on(self, method: str, target: str, body: bytes) -> None:
        if self._roles.active is None:
            self._passes_on(method, target, body)

    def _routes(self) -> FastAPI:
        made = self._api().routes(pair.routes(self._pairing), simulation.routes(self._simulator))

        @made.exception_handler(AnsweredElsewhere)
        async def elsewhere(_request: Request, problem: Exception) -> Response:
            assert isinstance(problem, AnsweredElsewhere)
            answer = problem.answer
            return Response(answer.body, answer.status, answer.headers, media_type="application/json")

        return made

    def _is_working(self) -> bool:
        return self._pairing.is_active


async def _no_messages(_path: str, _body: bytes) -> Answer:
    """A node of a pair takes no messages of a cluster."""
    return Answer(404, None)
