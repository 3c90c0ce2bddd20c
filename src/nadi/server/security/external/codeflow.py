"""Logins on a page of the provider: the code flow of OpenID Connect, with PKCE.

What a login under way needs is in a cookie of the browser that began it, sealed: nothing is kept here, so nobody can fill a place. The browser comes back with
the state in the address and the seal in the cookie; one without the other is worth nothing.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from urllib.parse import urlencode

import msgspec
from authlib.oauth2.rfc7636 import create_s256_code_challenge

from nadi.config.auth import Auth
from nadi.received import read_json
from nadi.server.security.external.applications import Applications, SecretBox
from nadi.server.security.external.idtokens import IdTokens
from nadi.server.security.external.provider import ExternalProvider
from nadi.server.security.external.remembered import Remembered
from nadi.server.security.external.service import Service
from nadi.server.security.providers import Login, Redirection

WITHIN = 600  # seconds that a person has to log in
_SEAL = "login"


class _Begun(msgspec.Struct, frozen=True):
    """A login under way."""

    app: str
    state: str
    verifier: str
    nonce: str
    until: float


class CodeFlow:
    """Implements `nadi.server.security.providers.SingleSignOn`."""

    def __init__(
        self,
        auth: Auth,
        service: Service,
        applications: Applications,
        provider: ExternalProvider,
        tokens: IdTokens,
        box: SecretBox,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._auth = auth
        self._given = auth.properties
        self._service = service
        self._applications = applications
        self._provider = provider
        self._tokens = tokens
        self._box = box
        self._clock = clock
        self._spent: Remembered[bool] = Remembered(clock)
        self._access: Remembered[bytes] = Remembered(clock)

    @property
    def is_default(self) -> bool:
        return self._auth.sso_enabled

    def start(self, app: str) -> Redirection | None:
        if not self._applications.has(app):
            return None
        client, callback = self._applications.client(app), self._applications.callback(app)
        state, verifier, nonce = (secrets.token_urlsafe(48) for _ in range(3))
        url = f"{self._given.token_url}/authorize"
        asked = {
            "response_type": "code",
            "client_id": client.id,
            "redirect_uri": callback,
            "scope": "openid",
            "state": state,
            "nonce": nonce,
            "code_challenge": create_s256_code_challenge(verifier),
            "code_challenge_method": "S256",
        }
        begun = _Begun(app, state, verifier, nonce, self._clock() + WITHIN)
        sealed = self._box.sealed(_SEAL, msgspec.json.encode(begun).decode())
        return Redirection(client.id, url, callback, f"{url}?{urlencode(asked)}", sealed, WITHIN)

    def finish(self, app: str, code: str, state: str, browser: str, address: str) -> Login | None:
        begun = self._begun(browser)
        if begun is None or begun.app != app or not secrets.compare_digest(begun.state.encode(), state.encode()):
            return None
        if begun.until <= self._clock() or not code or self._spent.get(state):
            return None
        self._spent.put(state, True, WITHIN)
        client = self._applications.client(app)
        grant = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._applications.callback(app),
            "code_verifier": begun.verifier,
        }
        granted = self._provider.asked(address, lambda: self._service.grant(client, grant))
        if granted is None:
            return None
        claims = self._tokens.checked(granted.id_token, client.id, begun.nonce, granted.access)
        if claims is None:
            return None
        login = self._provider.logged_in(granted)
        if login is not None and granted.id_token:
            self._access.put(granted.id_token, self._provider.mark(granted.access), granted.valid)
        return login

    def home(self, app: str) -> str:
        return self._applications.home(app)

    def sign_out(self, app: str, id_token: str) -> str | None:
        client = self._applications.client(app)
        if not self._tokens.was_given(id_token, client.id):
            return None
        access = self._access.get(id_token)
        if access is not None:
            self._provider.refuse(access)
            self._access.drop(id_token)
        url = self._given.external_logout_url
        if not url:
            return ""
        asked = {"id_token_hint": id_token, "post_logout_redirect_uri": self.home(app)}
        return f"{url}{'&' if '?' in url else '?'}{urlencode(asked)}"

    def _begun(self, browser: str) -> _Begun | None:
        opened = self._box.opened(_SEAL, browser)
        try:
            return None if opened is None else read_json(opened, _Begun)
        except msgspec.MsgspecError:
            return None
