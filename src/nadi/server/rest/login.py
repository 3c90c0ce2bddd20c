"""`/login` and `/logout`: users get tokens, new ones for old ones, and end them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import structlog
from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.responses import Response

from nadi.errors import NadiError
from nadi.server.rest.answers import declared
from nadi.server.rest.loginanswers import (
    BROWSER,
    CREDENTIALS,
    FOREIGN,
    GRANT,
    ID_TOKEN,
    INTERNAL,
    LOGOUT,
    REFRESH,
    REQUEST,
    TOO_MANY,
    Refused,
    come_back,
    logged_in,
    logged_out,
    redirected,
)
from nadi.server.security.attempts import Attempts
from nadi.server.security.audit import Origin, note
from nadi.server.security.entrance import Busy, Entrance, TooMany
from nadi.server.security.permissions import EVERYBODY
from nadi.server.security.providers import Login, Provider, SingleSignOn, Slower
from nadi.server.security.requests import Bearer, authorization, cookie, is_foreign, only
from nadi.server.security.sessions import Replayed

_APP = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}")

NO_HEADER = "Invalid Authorization header. Please provide the Authorization header to proceed."
WRONG = "Username or Password is invalid. Please check again."

FIELDS = ("username", "password", "grantType", "rememberMe", "appId")
FORM = {
    "requestBody": {
        "required": True,
        "content": {
            "application/x-www-form-urlencoded": {
                "schema": {"type": "object", "properties": {name: {"type": "string"} for name in FIELDS}}
            }
        },
    }
}

log = structlog.get_logger("nadi.server")


@dataclass(frozen=True, slots=True)
class _Form:
    username: str = ""
    password: str = ""
    grant: str = ""
    remember: bool = False
    app_id: str = ""


class LoginApi:
    """The paths, over a provider. `sso`: users may log in on a page of the provider; `grant`: what a form without `grantType` means."""

    def __init__(
        self, provider: Provider, attempts: Attempts, sso: SingleSignOn | None = None, grant: str = ""
    ) -> None:
        self._provider = provider
        self._grant = grant
        self._entrance = Entrance(attempts)
        self._sso = sso

    def auth_type(self) -> dict[str, str]:
        """How pages should log in."""
        return {"authType": "sso" if self._sso is not None and self._sso.is_default else "default"}

    async def login(self, app: str, request: Request) -> Response:
        """A login by password, a refresh, or the beginning of a login on a page of the provider."""
        _check(app, request)
        form = await _form(request)
        match form.grant or self._grant:
            case "password":
                return logged_in(app, await self._by_password(app, form, request), form.remember)
            case "refresh_token":
                return logged_in(app, await self._by_refresh(app, request), form.remember)
            case "authorization_code" if self._sso is not None:
                return await self._to_provider(app, self._sso)
        raise Refused(400, GRANT, f"Grant type '{form.grant[:64]}' is not supported.")

    async def _by_password(self, app: str, form: _Form, request: Request) -> Login:
        origin = _origin(form.username, request)
        found = await self._entrance.enter(
            origin, "password", lambda: self._provider.begin(form.username, form.password, app, form.app_id)
        )
        if isinstance(found, Busy):
            raise Refused(503, TOO_MANY, "Too many passwords wait to be checked.", {"Retry-After": str(found.seconds)})
        if isinstance(found, TooMany):
            raise Refused(429, TOO_MANY, "Too many wrong passwords.", {"Retry-After": str(found.seconds)})
        if found is None:
            raise Refused(401, CREDENTIALS, WRONG)
        return found

    async def _by_refresh(self, app: str, request: Request) -> Login:
        first, second = _bearer(request), cookie(request.scope["headers"], REFRESH)
        if not first or not second:
            raise Refused(400, CREDENTIALS, NO_HEADER)
        try:
            found = await run_in_threadpool(self._provider.renew, first + second, app, _address(request))
        except Replayed as replayed:
            note("token", _origin(replayed.user, request), "replayed", grant="refresh_token")
            found = None
        if found is None:
            note("login", _origin("", request), "refused", grant="refresh_token")
            raise Refused(401, CREDENTIALS, "The refresh token is not known, or has expired.")
        note("login", _origin(found.user, request), "ok", grant="refresh_token")
        return found

    async def _to_provider(self, app: str, sso: SingleSignOn) -> Response:
        found = await run_in_threadpool(sso.start, app)
        if found is None:
            raise Refused(400, REQUEST, f"There is no single sign-on for the application '{app}'.")
        return redirected(app, found)

    async def callback(self, app: str, code: str, state: str, request: Request) -> Response:
        """The end of a login on a page of the provider."""
        if self._sso is None:
            raise Refused(400, INTERNAL, "This API is only supported with an external identity provider.")
        _check_name(app)
        if not state or not (code or "error" in request.query_params):
            raise Refused(400, REQUEST, "The parameters 'code' and 'state' are missing.")
        browser = cookie(request.scope["headers"], BROWSER)
        found = await run_in_threadpool(self._sso.finish, app, code, state, browser, _address(request))
        if found is None:
            note("login", _origin("", request), "refused", grant="authorization_code")
            raise Refused(401, CREDENTIALS, "Unable to get the token from the returned code.")
        note("login", _origin(found.user, request), "ok", grant="authorization_code")
        return come_back(app, found, self._sso.home(app))

    async def logout(self, app: str, request: Request) -> Response:
        """The end of a session."""
        _check(app, request)
        token = _bearer(request)
        if not token:
            raise Refused(400, INTERNAL, NO_HEADER)
        await self._end(app, token, request, LOGOUT)
        return logged_out(app)

    async def single_logout(self, app: str, request: Request) -> Response:
        """The end of a session, and where the browser has to go to end that at the provider."""
        _check(app, request)
        headers = request.scope["headers"]
        first, second, token = only(headers, b"fid") or b"", cookie(headers, ID_TOKEN), _bearer(request)
        if not token and not (first and second):
            raise Refused(400, INTERNAL, NO_HEADER)
        if token:
            await self._end(app, token, request, LOGOUT)
        if not (first and second) or self._sso is None:
            return logged_out(app)
        url = await run_in_threadpool(self._sso.sign_out, app, first.decode("latin-1") + second)
        if url is None:
            raise Refused(401, CREDENTIALS, "The id token is not known, or has expired.")
        return logged_out(app, {"externalLogoutUrl": url} if url else None)

    async def _end(self, app: str, token: str, request: Request, second: str) -> None:
        half = cookie(request.scope["headers"], second)
        for whole in (token + half, token) if half else (token,):
            user = await run_in_threadpool(self._provider.end, whole, app, _address(request))
            if user is not None:
                note("logout", _origin(user, request), "ok")
                return


def routes(api: LoginApi) -> APIRouter:
    """The paths; the guard has to let strangers through to them."""
    found = APIRouter(tags=["Login"], dependencies=[EVERYBODY], responses=declared(400, 401, 429, 500, 503))

    @found.get("/login/auth-type", summary="How to log in")
    async def auth_type() -> dict[str, str]:
        return api.auth_type()

    @found.post("/login/{app}", openapi_extra=FORM, summary="Log in, or get new tokens")
    async def login(app: str, request: Request) -> Response:
        return await _answered(api.login(app, request))

    @found.get(
        "/login/callback/{app}",
        responses=declared(302),
        summary="Where the identity provider sends a browser after a login",
    )
    async def callback(app: str, request: Request, code: str = "", state: str = "") -> Response:
        return await _answered(api.callback(app, code, state, request))

    @found.post("/logout/{app}", summary="Log out")
    async def logout(app: str, request: Request) -> Response:
        return await _answered(api.logout(app, request))

    @found.get("/logout/slo/{app}", summary="Log out, at the identity provider too")
    async def single_logout(app: str, request: Request) -> Response:
        return await _answered(api.single_logout(app, request))

    return found


async def _answered(answer: Any) -> Response:
    try:
        found: Response = await answer
    except Refused as refused:
        return refused.answer
    except Slower as slower:
        return Refused(
            429, TOO_MANY, "Too many tokens that are not known.", {"Retry-After": str(slower.seconds)}
        ).answer
    except NadiError as reason:
        log.error("a login failed", reason=str(reason))
        return Refused(500, INTERNAL, "The identity provider cannot be asked; the server's log has the reason.").answer
    return found


def _check(app: str, request: Request) -> None:
    """What every request to an application needs: a name of one, and no page of another origin behind it."""
    _check_name(app)
    if is_foreign(request.scope["headers"]):
        note("foreign origin", _origin("", request), "refused")
        raise Refused(403, FOREIGN, "A page of another origin may not log anybody in or out.")


def _check_name(app: str) -> None:
    if _APP.fullmatch(app) is None:
        raise Refused(400, REQUEST, "The name of an application has letters, digits, '.', '_' and '-'.")


def _origin(user: str, request: Request) -> Origin:
    return Origin(user, _address(request), request.url.path)


def _address(request: Request) -> str:
    return "" if request.client is None else request.client.host


def _bearer(request: Request) -> str:
    header = only(request.scope["headers"], b"authorization")
    found = None if header is None else authorization(header)
    return found.token if isinstance(found, Bearer) else ""


async def _form(request: Request) -> _Form:
    try:
        given = await request.form(max_files=0, max_fields=20)
    except HTTPException as reason:
        raise Refused(400, REQUEST, str(reason.detail)) from reason
    fields = {name: _one(given, name) for name in FIELDS}
    remember = fields["rememberMe"].lower() == "true"
    return _Form(fields["username"], fields["password"], fields["grantType"], remember, fields["appId"])


def _one(given: FormData, name: str) -> str:
    found = given.getlist(name)
    if len(found) > 1 or not all(isinstance(one, str) for one in found):
        raise Refused(400, REQUEST, f"The field '{name}' comes more than once, or is a file.")
    return str(found[0]) if found else ""
