"""`nadi worker`: a node whose apps are the files of a folder, with REST APIs beside it.

worker = Worker(deployment, open_home(Path("nadi-home")), print)
worker.run()            # worker.request_stop() from a signal handler ends it
"""

from __future__ import annotations

import contextlib
import time

from nadi.config.deployment import Deployment, Listener
from nadi.io.httpserver import HttpServer
from nadi.metrics import AppProgress
from nadi.pipeline.node import ExitReport, NodeOptions
from nadi.pipeline.run import Node
from nadi.server import frontdoor
from nadi.server.apperrors import AppErrors
from nadi.server.appfiles import AppFiles
from nadi.server.applog import AppLog
from nadi.server.apps import Apps
from nadi.server.claims import Claims
from nadi.server.deployer import Deployer
from nadi.server.frontdoor import FrontDoor, Say
from nadi.server.home import Home, make_folder
from nadi.server.lastrevision import last_revision
from nadi.server.measuredhost import MeasuredHost
from nadi.server.preparation import AppPreparation
from nadi.server.quota import Quota
from nadi.server.reporters import statistics_for
from nadi.server.rest import page, simulation
from nadi.server.rest.node import NodeFacts
from nadi.server.revisions import AppRevisions
from nadi.server.simulation.simulator import make_simulator
from nadi.server.simulation.targets import AppTargets
from nadi.server.workerapi import WorkerApi

LARGEST_APP = 5_000_000  # bytes of a text
OPEN = (*frontdoor.OPEN, *page.OPEN)
"""Paths that never want credentials."""


class Worker:
    """See the module's text. `say` is told, in sentences, what an operator wants to know, `show` what no file may keep."""

    def __init__(self, deployment: Deployment, home: Home, say: Say, show: Say | None = None) -> None:
        """Errors: INVALID_SETTING, FOLDER_NOT_PRIVATE, FOLDER_NOT_MADE, USERS_DAMAGED."""
        sections = deployment.sections
        self._deployment = deployment
        self._home = home
        self._say = say
        home.make()
        for file in sections.datasources.files():  # SQLite makes its files, and not their folders
            make_folder(file.parent)
        self._door = FrontDoor(deployment, home, say, show or say)
        options = NodeOptions(
            home.state,
            sections.spark.master,
            deployment.conf,
            persistence=deployment.persistence,
            error_store=deployment.error_store,
            stays=True,
            updates=True,
            certificate=self._door.certificate,
            home=home.folder,
            closed=home.closed(deployment),
            sources=deployment.sources_of_apps,
        )
        self._statistics = statistics_for(deployment, options, home.folder)
        self._preparation = preparation = AppPreparation(options, sections.own.variables, deployment.refs)
        files = AppFiles(home.apps, LARGEST_APP)
        self._app_log = AppLog()
        claims = Claims(home.addresses, preparation.addresses)
        self._deployer = Deployer(files, preparation, sections.deployment.update_interval, claims)
        first = self._deployer.first()
        for text in first:
            self._statistics.enter(text)
        self._node = Node(first, options, self._note, self._deployer.refused)
        self._apps = Apps(home, files, self._deployer, self._node, preparation, self._statistics.asked)
        self._revisions = AppRevisions(options, self._deployer, self._node)
        self._simulator = make_simulator(home.deployment, AppTargets(self._apps), reach=options.reach())
        self._deployer.tell(self._simulator.wake, self._statistics.leave)
        self._most = options.settings().apps_user
        self._facts = NodeFacts(sections.carbon.id, home.folder, time.time())

    def request_stop(self) -> None:
        """Finish the batches under way and stop. Returns at once; safe in a signal handler."""
        self._node.request_stop()

    def run(self) -> ExitReport:
        """Run until asked to stop. Errors: those of `Node.run`, SERVER_NOT_STARTED."""
        with contextlib.ExitStack() as started:
            started.callback(self._door.identity.close)
            self._simulator.start()
            started.callback(self._simulator.close)
            for what, listener, server in self._servers():
                server.start()
                started.callback(server.stop)
                self._say(f"{what}: {listener.scheme}://{listener.host}:{server.port}")
            self._say(f"apps: {self._home.apps}")
            self._statistics.start(lambda name: self._apps.status(name) is not None)
            started.callback(self._statistics.close)
            self._deployer.start(MeasuredHost(self._node, self._statistics))
            started.callback(self._deployer.close)
            return self._node.run()

    def _note(self, progress: AppProgress) -> None:
        """What the node tells of an app."""
        self._app_log.note(progress)
        self._deployer.note(progress)
        self._statistics.note(progress)

    # ---- servers

    def _servers(self) -> list[tuple[str, Listener, HttpServer]]:
        """The servers of all listeners, not started yet, and what they are for."""
        state, persistence = self._home.state, self._deployment.persistence
        made = WorkerApi(
            deployment=self._deployment,
            door=self._door,
            apps=self._apps,
            revisions=self._revisions,
            errors=AppErrors(state, self._deployment.error_store, self._apps),
            preparation=self._preparation,
            statistics=self._statistics,
            facts=self._facts,
            last_revision=lambda: last_revision(persistence, state),
            quota=Quota(self._home.owners, self._most, self._apps.names),
        )
        api, query = made.routes(simulation.routes(self._simulator)), made.queries()
        return [
            *(("REST API", *one) for one in self._door.servers(self._deployment.http, api, OPEN)),
            *(("on-demand queries", *one) for one in self._door.servers(self._deployment.query, query, OPEN)),
        ]
