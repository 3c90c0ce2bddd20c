"""What stands between a node and those who ask it over HTTP: its users, its certificate, and a guarded server for each listener."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from fastapi import FastAPI

from nadi.config.deployment import Deployment, Listener
from nadi.io.httpserver import Application, HttpServer
from nadi.server.home import Home
from nadi.server.rest import login
from nadi.server.rest.application import guarded
from nadi.server.security.attempts import Attempts
from nadi.server.security.certificate import certificate_of, context_of
from nadi.server.security.identity import Identity, make_identity

OPEN = ("/health", "/health/*", "/login/*", "/logout/*")
"""Paths that never want credentials: load balancers and browsers ask them, or they look at credentials themselves."""

Say = Callable[[str], object]


class FrontDoor:
    """See the module's text. `show` is told what no file may keep. Errors: INVALID_SETTING, USERS_DAMAGED, DATABASE_UNKNOWN, FOLDER_NOT_MADE."""

    def __init__(self, deployment: Deployment, home: Home, say: Say, show: Say) -> None:
        sections = deployment.sections
        self._deployment = deployment
        self._home = home
        self._attempts = Attempts(of_address=deployment.sections.auth.rest.wrong_passwords)
        self.certificate = certificate_of(home.security, sections.own.tls, sections.carbon.id)
        self.identity: Identity = make_identity(home.security, deployment)
        for notice in self.identity.notices:
            say(f"warning: {notice}")
        if self.identity.password:
            show(f"user 'admin' was made, with the password {self.identity.password} (it is not shown again)")

    @property
    def login_api(self) -> login.LoginApi:
        """What `/login` needs."""
        identity = self.identity
        return login.LoginApi(identity.provider, self._attempts, identity.sso, identity.grant)

    def servers(
        self,
        listeners: Iterable[Listener],
        routes: FastAPI,
        open_paths: Iterable[str] = OPEN,
        around: Callable[[Application], Application] | None = None,
    ) -> Iterator[tuple[Listener, HttpServer]]:
        """A server for each listener, not started yet. `open_paths` are open to all; `around` makes another application of the
        guarded one. Errors: KEY_STORE_OF_JAVA, CERTIFICATE_UNUSABLE."""
        rest = self._deployment.sections.auth.rest
        application = guarded(
            routes,
            self.identity.provider if rest.auth_enable else None,
            self._attempts,
            (*open_paths, *rest.exclude),
            self.identity.grants,
            self.identity.provider,
        )
        if around is not None:
            application = around(application)
        for listener in listeners:
            tls = context_of(listener, self.certificate, self._home.folder)
            yield listener, HttpServer(application, listener.host, listener.port, tls)
