"""`nadi worker`: a node whose apps are the files of a folder, with REST APIs beside it.

worker = Worker(deployment, open_home(Path("nadi-home")), print)
worker.run()            # worker.request_stop() from a signal handler ends it
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence

from fastapi import FastAPI

from nadi.config.deployment import Deployment, Listener, hidden
from nadi.io.httpserver import HttpServer
from nadi.metrics import AppProgress
from nadi.pipeline.node import ExitReport, NodeOptions
from nadi.pipeline.run import Node
from nadi.server.appfiles import AppFiles
from nadi.server.applog import AppLog
from nadi.server.apps import Apps
from nadi.server.deployer import Deployer
from nadi.server.home import Home, make_folder
from nadi.server.lastrevision import last_revision
from nadi.server.measuredhost import MeasuredHost
from nadi.server.preparation import AppPreparation
from nadi.server.reporters import statistics_for
from nadi.server.rest import (
    elements,
    login,
    page,
    permissions,
    revisions,
    siddhiapps,
    simulation,
    statistics,
    storequery,
)
from nadi.server.rest.application import guarded, make_routes
from nadi.server.rest.node import NodeFacts, health_routes, node_routes
from nadi.server.revisions import AppRevisions
from nadi.server.security.attempts import Attempts
from nadi.server.security.certificate import certificate_of, context_of
from nadi.server.security.identity import Identity, make_identity
from nadi.server.simulation.simulator import make_simulator
from nadi.server.simulation.targets import AppTargets

LARGEST_APP = 5_000_000  # bytes of a text
OPEN = ("/health", "/health/*", "/login/*", "/logout/*", *page.OPEN)
"""Paths that never want credentials: load balancers and browsers ask them, or they look at credentials themselves."""

Say = Callable[[str], object]


class Worker:
    """See the module's text. `say` is told, in sentences, what an operator wants to know, `show` what no file may keep."""

    def __init__(self, deployment: Deployment, home: Home, say: Say, show: Say | None = None) -> None:
        """Errors: INVALID_SETTING, FOLDER_NOT_PRIVATE, FOLDER_NOT_MADE, USERS_DAMAGED."""
        sections = deployment.sections
        self._deployment = deployment
        self._home = home
        self._say = say
        self._show = show or say
        home.make()
        for file in sections.datasources.files():  # SQLite makes its files, and not their folders
            make_folder(file.parent)
        self._certificate = certificate_of(home.security, sections.own.tls, sections.carbon.id)
        options = NodeOptions(
            home.state,
            sections.spark.master,
            deployment.conf,
            persistence=deployment.persistence,
            error_store=deployment.error_store,
            stays=True,
            updates=True,
            certificate=self._certificate,
        )
        self._statistics = statistics_for(deployment, options, home.folder)
        self._preparation = preparation = AppPreparation(options, sections.own.variables, deployment.refs)
        files = AppFiles(home.apps, LARGEST_APP)
        self._identity = self._make_identity()
        self._attempts = Attempts()
        self._app_log = AppLog()
        self._deployer = Deployer(files, preparation, sections.deployment.update_interval)
        first = self._deployer.first()
        for text in first:
            self._statistics.enter(text)
        self._node = Node(first, options, self._note, self._deployer.refused)
        self._apps = Apps(home, files, self._deployer, self._node, preparation, self._statistics.asked)
        self._revisions = AppRevisions(options, self._deployer, self._node)
        self._simulator = make_simulator(home.deployment, AppTargets(self._apps))
        self._deployer.tell(self._simulator.wake)
        self._facts = NodeFacts(sections.carbon.id, home.folder, time.time())

    def request_stop(self) -> None:
        """Finish the batches under way and stop. Returns at once; safe in a signal handler."""
        self._node.request_stop()

    def run(self) -> ExitReport:
        """Run until asked to stop. Errors: those of `Node.run`, SERVER_NOT_STARTED."""
        with contextlib.ExitStack() as started:
            started.callback(self._identity.close)
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
        identity = self._identity
        state, persistence = self._home.state, self._deployment.persistence
        api = make_routes(
            "nadi worker",
            [
                health_routes(self._apps),
                statistics.app_routes(self._apps, self._statistics),  # before those of an app that has any name
                revisions.routes(self._revisions),
                elements.routes(self._apps, self._preparation, self._hide),
                siddhiapps.routes(self._apps),
                node_routes(self._facts),
                login.routes(login.LoginApi(identity.provider, self._attempts, identity.sso, identity.grant)),
                statistics.node_routes(self._statistics, lambda: last_revision(persistence, state)),
                permissions.routes(identity.permissions, identity.provider),
                simulation.routes(self._simulator),
                page.routes(self._apps, self._facts, self._statistics.last_minutes),
            ],
        )
        query = make_routes("nadi on-demand queries", [health_routes(self._apps), storequery.routes(self._apps)])
        return [
            *(("REST API", *one) for one in self._of(self._deployment.http, api)),
            *(("on-demand queries", *one) for one in self._of(self._deployment.query, query)),
        ]

    def _of(self, listeners: Sequence[Listener], routes: FastAPI) -> Iterator[tuple[Listener, HttpServer]]:
        """A server for each listener. Errors: KEY_STORE_OF_JAVA, CERTIFICATE_UNUSABLE."""
        rest = self._deployment.sections.auth.rest
        application = guarded(
            routes,
            self._identity.provider if rest.auth_enable else None,
            self._attempts,
            (*OPEN, *rest.exclude),
            self._identity.grants,
            self._identity.provider,
        )
        for listener in listeners:
            tls = context_of(listener, self._certificate, self._home.folder)
            yield listener, HttpServer(application, listener.host, listener.port, tls)

    def _hide(self, text: str) -> str:
        return hidden(text, self._deployment.secrets)

    def _make_identity(self) -> Identity:
        made = make_identity(self._home.security, self._deployment)
        for notice in made.notices:
            self._say(f"warning: {notice}")
        if made.password:
            self._show(f"user 'admin' was made, with the password {made.password} (it is not shown again)")
        return made
