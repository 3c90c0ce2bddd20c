"""What an identity provider is asked over HTTP. What is no answer is PROVIDER_UNAVAILABLE: a provider that is away lets nobody in."""

from __future__ import annotations

import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx
import msgspec

from nadi.config.auth import AuthProperties
from nadi.errors import NadiError, error
from nadi.io.authorities import authorities
from nadi.received import read_json

LARGEST = 5_000_000  # bytes of an answer
AT_A_TIME = 1_000  # groups in one answer
REFUSED = frozenset({"invalid_grant", "access_denied"})
"""What a provider says of a wrong password, a code or a refresh token that is worth nothing. All else is a mistake of the deployment, or its own."""


@dataclass(frozen=True, slots=True)
class Client:
    """An application as the provider knows it."""

    name: str
    id: str
    secret: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Granted:
    """Tokens of the provider. `valid` in seconds."""

    access: str = field(repr=False)
    refresh: str = field(repr=False)
    id_token: str = field(repr=False)
    valid: int


@dataclass(frozen=True, slots=True)
class Account:
    """A user, with the ids of groups by their names."""

    name: str
    groups: Mapping[str, str]


class Service:
    """See the module's text. Errors of every method: PROVIDER_UNAVAILABLE. From any thread."""

    def __init__(self, given: AuthProperties) -> None:
        """Errors: INVALID_SETTING, for certificates that cannot be read."""
        self._given = given
        timeout = httpx.Timeout(given.read_timeout / 1000, connect=given.connection_timeout / 1000)
        # no redirects: passwords and tokens go where the deployment says, and nowhere else
        self._http = httpx.Client(timeout=timeout, verify=_trust(given.trusted_certificates), follow_redirects=False)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def grant(self, client: Client, grant: Mapping[str, str]) -> Granted | None:
        """Tokens for a grant; None where the provider refuses it."""
        url = f"{self._given.token_url}/token"
        answer = self._post(url, data=grant, auth=(client.id, client.secret))
        body = _object(answer)
        if answer.status_code == 200 and isinstance(body.get("access_token"), str):
            return Granted(
                body["access_token"],
                str(body.get("refresh_token") or ""),
                str(body.get("id_token") or ""),
                _seconds(body.get("expires_in")),
            )
        if answer.status_code in (400, 401, 403) and body.get("error") in REFUSED:
            return None
        raise _failed(url, _said(answer, body))

    def introspect(self, token: str) -> dict[str, Any] | None:
        """What the provider knows of an access token; None where it is not active."""
        url, given = self._given.introspection_url, self._given
        asked = {"token": token, "token_type_hint": "access_token"}
        answer = self._post(url, data=asked, auth=(given.km_username, given.km_password))
        body = _object(answer)
        if answer.status_code != 200 or not isinstance(body.get("active"), bool):
            raise _failed(url, _said(answer, body))
        return body if body["active"] else None

    def revoke(self, client: Client, token: str) -> None:
        """Make a token worth nothing."""
        url = f"{self._given.token_url}/revoke"
        answer = self._post(url, data={"token": token}, auth=(client.id, client.secret))
        if answer.status_code != 200:
            raise _failed(url, _said(answer, _object(answer)))

    def register(self, name: str, callback: str) -> Client:
        """Register an application."""
        given = self._given
        body = {
            "client_name": name,
            "grant_types": ["password", "authorization_code", "refresh_token"],
            "redirect_uris": [callback],
            "userinfo_signed_response_alg": given.user_info_algorithm,
            "ext_param_owner": given.owner,
        }
        answer = self._post(given.dcr_url, json=body, auth=(given.km_username, given.km_password))
        made = _object(answer)
        if answer.status_code not in (200, 201) or not made.get("client_id"):
            raise _failed(given.dcr_url, _said(answer, made))
        return Client(name, str(made["client_id"]), str(made.get("client_secret") or ""))

    def keys(self) -> dict[str, Any]:
        """The keys that id tokens are signed with (a JWK set)."""
        found = self._get(self._given.jwks_url)
        if not isinstance(found.get("keys"), list):
            raise _failed(self._given.jwks_url, "it has no keys")
        return found

    def account(self, name: str) -> Account | None:
        """The user of a name; None where there is none."""
        # a text of JSON is what a filter of SCIM takes: a name with quotes stays a name
        asked = {"filter": f"userName eq {json.dumps(name, ensure_ascii=False)}"}
        found = self._get(f"{self._given.idp_url}/Users", params=asked, scim=True)
        wanted = self._plain(name).casefold()
        named = [one for one in _resources(found) if self._plain(str(one.get("userName", ""))).casefold() == wanted]
        if len(named) != 1:
            return None  # nobody; or several, of whom it cannot be known which is meant
        groups = [one for one in named[0].get("groups") or [] if isinstance(one, Mapping)]
        return Account(name, {self._plain(str(one.get("display", ""))): str(one.get("value", "")) for one in groups})

    def roles(self) -> dict[str, str]:
        """The names of all groups by id."""
        url, found = f"{self._given.idp_url}/Groups", dict[str, str]()
        start = 1
        while True:
            asked = {"startIndex": str(start), "count": str(AT_A_TIME), "attributes": "id,displayName"}
            page = self._get(url, params=asked, scim=True)
            listed = _resources(page)
            before = len(found)
            found |= {str(one["id"]): self._plain(str(one.get("displayName", ""))) for one in listed if one.get("id")}
            start += len(listed)
            total = page.get("totalResults")
            if not listed or len(found) == before or not isinstance(total, int) or start > total:
                return found

    def _plain(self, name: str) -> str:
        """A name without the default user store and the default tenant.

        What is left of two names that differ in them only is the same.
        """
        return plain_name(name, self._given.default_user_store)

    # ---- requests

    def _get(self, url: str, params: Mapping[str, str] | None = None, scim: bool = False) -> dict[str, Any]:
        given = self._given
        auth = (given.idp_username, given.idp_password) if scim else None
        answer = self._send(self._http.build_request("GET", url, params=params), auth)
        body = _object(answer)
        if answer.status_code == 404 and scim:
            return {}  # the reference's server says so of a filter that nothing fits
        if answer.status_code != 200:
            raise _failed(url, _said(answer, body))
        return body

    def _post(self, url: str, auth: tuple[str, str], **content: Any) -> httpx.Response:
        return self._send(self._http.build_request("POST", url, **content), auth)

    def _send(self, request: httpx.Request, auth: tuple[str, str] | None) -> httpx.Response:
        url = str(request.url.copy_with(query=None))
        try:
            answer = self._http.send(request, auth=auth, stream=True)
            try:
                content = b""
                for part in answer.iter_bytes():
                    content += part
                    if len(content) > LARGEST:
                        raise _failed(url, f"its answer has more than {LARGEST:,} bytes")
            finally:
                answer.close()
        except (httpx.HTTPError, OSError, ValueError) as reason:
            raise _failed(url, f"{type(reason).__name__}: {reason}") from reason
        headers = {"content-type": answer.headers.get("content-type", "")}
        return httpx.Response(answer.status_code, headers=headers, content=content)


def plain_name(name: str, store: str) -> str:
    """A name without the default user store and the default tenant.

    >>> plain_name("PRIMARY/ada@carbon.super", "PRIMARY"), plain_name("OTHER/ada", "PRIMARY")
    ('ada', 'OTHER/ada')
    """
    bare = name.removesuffix("@carbon.super")
    before, slash, after = bare.partition("/")
    return after if slash and before.upper() == store.upper() else bare


def _trust(certificates: str) -> ssl.SSLContext:
    if not certificates:
        return authorities()
    try:
        return ssl.create_default_context(cafile=certificates)
    except (OSError, ssl.SSLError) as reason:
        name = "auth.configs.properties.trustedCertificates"
        raise error("INVALID_SETTING", name=name, value=certificates, wanted=f"a file in PEM ({reason})") from reason


def _object(answer: httpx.Response) -> dict[str, Any]:
    """The body of an answer; empty where it is no object of JSON."""
    try:
        found = read_json(answer.content)
    except msgspec.DecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def _resources(page: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found = page.get("Resources")
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []


def _seconds(value: object) -> int:
    """How long a token is valid; a provider that does not say it is believed for an hour."""
    try:
        return max(0, int(str(value)))
    except ValueError:
        return 3_600


def _said(answer: httpx.Response, body: Mapping[str, Any]) -> str:
    """What a provider says, without what was asked."""
    return f"it answers {answer.status_code} {str(body.get('error', ''))[:100]}".strip()


def _failed(url: str, reason: str) -> NadiError:
    return error("PROVIDER_UNAVAILABLE", url=url, reason=reason)
