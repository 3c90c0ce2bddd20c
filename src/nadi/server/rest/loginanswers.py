"""What the login API answers: tokens in halves, one in the body and one in a cookie that scripts cannot read; either alone is worth nothing.

| cookie | what it has | path |
|---|---|---|
| `HID` | the second half of the access token, whose first is `PID` | `/{app}` |
| `JID` | the same | `/logout/{app}` |
| `ASID` | the second half of the refresh token, whose first is `LID` | `/login/{app}` |
| `FID` | the second half of the id token, whose first is `IID` (single sign-on) | `/logout/slo/{app}` |
| `USER_DTO` | the body of a login by single sign-on, JSON with percents, for scripts | `/{app}`; of the page at `/`: that |
| `LOGIN_STATE` | what a login on a page of the provider needs to be ended, sealed | `/login/callback/{app}` |
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

import msgspec
from starlette.responses import JSONResponse, Response

from nadi.server.security.guard import ACCESS
from nadi.server.security.providers import PAGE, Login, Redirection
from nadi.server.security.requests import set_cookie

LOGOUT, REFRESH, ID_TOKEN, USER, BROWSER = "JID", "ASID", "FID", "USER_DTO", "LOGIN_STATE"
REMEMBERED = 7 * 86_400  # seconds that a browser keeps the refresh token's half, with rememberMe
NO_STORE = {"Cache-Control": "no-store"}

CREDENTIALS, GRANT, INTERNAL = "Invalid_Credentials", "Grant_Type_Not_Supported", "Internal_Server_Error"
REQUEST, FOREIGN, TOO_MANY = "Invalid_Request", "Foreign_Origin", "Too_Many_Attempts"
"""Errors of the contract, and nadi's own."""


class Refused(Exception):
    """A request that is answered with a status, `{error, description}` and headers."""

    def __init__(self, status: int, error: str, description: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(description)
        self.answer = JSONResponse(
            {"error": error, "description": description}, status, {**NO_STORE, **(headers or {})}
        )


def halves(token: str) -> tuple[str, str]:
    """The half of a token for the body, and that for a cookie."""
    return token[: len(token) // 2], token[len(token) // 2 :]


def body_of(login: Login) -> dict[str, Any]:
    """The body of a login."""
    body: dict[str, Any] = {"authUser": login.user, "PID": halves(login.access)[0]}
    if login.refresh:
        body["LID"] = halves(login.refresh)[0]
    if login.id_token:
        body["IID"] = halves(login.id_token)[0]
    return {**body, "validityPeriod": login.valid}


def logged_in(app: str, login: Login, remember: bool) -> Response:
    """A login that succeeded; `remember`: the browser keeps what it takes to refresh it when it is closed."""
    answer = JSONResponse(body_of(login), headers=NO_STORE)
    half = halves(login.access)[1]
    bakes = [set_cookie(ACCESS, half, f"/{app}"), set_cookie(LOGOUT, half, f"/logout/{app}")]
    if login.refresh:
        seconds = REMEMBERED if remember else None
        bakes.append(set_cookie(REFRESH, halves(login.refresh)[1], f"/login/{app}", seconds=seconds))
    return _baked(answer, bakes)


def logged_out(app: str, body: dict[str, str] | None = None) -> Response:
    """The end of a session: the cookies are removed."""
    answer = Response(status_code=200) if body is None else JSONResponse(body)
    answer.headers.update(NO_STORE)
    paths = {ACCESS: "", LOGOUT: "/logout", REFRESH: "/login", ID_TOKEN: "/logout/slo"}
    bakes = [set_cookie(name, "", f"{path}/{app}", seconds=0) for name, path in paths.items()]
    return _baked(answer, [*bakes, set_cookie(USER, "", _shown_at(app), seconds=0, script=True)])


def redirected(app: str, begun: Redirection) -> Response:
    """302 for a page that logs in at the provider: where its browser has to go."""
    body = {
        "clientId": begun.client_id,
        "redirectUrl": begun.authorize_url,
        "callbackUrl": begun.callback_url,
        "authorizeUrl": begun.whole_url,
    }
    # Lax: the browser comes back from a page of the provider
    bake = set_cookie(BROWSER, begun.browser, f"/login/callback/{app}", seconds=begun.seconds, lax=True)
    return _baked(JSONResponse(body, 302, NO_STORE), [bake])


def come_back(app: str, login: Login, home: str) -> Response:
    """302 for a browser that comes back from the provider: logged in, and on to the application."""
    answer = logged_in(app, login, remember=True)
    answer.status_code = 302
    answer.headers["Location"] = home
    return _baked(
        answer,
        [
            set_cookie(USER, quote(msgspec.json.encode(body_of(login)), safe=""), _shown_at(app), script=True),
            set_cookie(ID_TOKEN, halves(login.id_token)[1], f"/logout/slo/{app}"),
            set_cookie(BROWSER, "", f"/login/callback/{app}", seconds=0, lax=True),
        ],
    )


def _shown_at(app: str) -> str:
    """The path of an application's pages."""
    return "/" if app == PAGE else f"/{app}"


def _baked(answer: Response, bakes: Iterable[str]) -> Response:
    for bake in bakes:
        answer.headers.append("Set-Cookie", bake)
    return answer
