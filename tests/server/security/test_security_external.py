"""Users of an identity provider, against one that the tests start."""

from __future__ import annotations

import base64
import json
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import httpx
import pytest
from joserfc.jwk import RSAKey
from security_build import Browser, Clock, application_of, auth_of, baked, identity_of, serving
from servers import asking
from servers.identityserver import IdentityServer, identity_server

from nadi.config.deployment import deployment_of
from nadi.errors import NadiError
from nadi.server.security.grants import AllGranted
from nadi.server.security.identity import Identity, make_identity
from nadi.server.security.permissions import SAPP


@dataclass
class World:
    idp: IdentityServer
    client: httpx.Client
    clock: Clock
    identity: Identity
    folder: Path

    @property
    def browser(self) -> Browser:
        return Browser(self.client)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with identity_server() as idp:
        clock = Clock(idp.now())
        idp.now = clock
        with identity_of(idp, tmp_path, clock) as identity, serving(application_of(identity)) as client:
            yield World(idp, client, clock, identity, tmp_path)


# ---- passwords and tokens


def test_a_user_of_the_provider_logs_in_with_name_and_password(world: World):
    browser = world.browser
    answer = browser.login("ada")
    assert answer.status_code == 200
    assert answer.json()["authUser"] == "ada"
    assert browser.get().json() == "ada"
    assert world.client.get("/own", headers={"Authorization": f"Bearer {browser.token}"}).json() == "ada"


def test_basic_credentials_are_those_of_the_provider_and_are_asked_about_once(world: World):
    for _ in range(3):
        assert world.client.get("/own", auth=("vic", "right")).json() == "vic"
    assert world.idp.asked.count("token") == 1
    world.clock.now += 301
    assert world.client.get("/own", auth=("vic", "right")).json() == "vic"
    assert world.idp.asked.count("token") == 2
    assert world.client.get("/own", auth=("vic", "wrong")).status_code == 401


def test_a_wrong_password_is_401(world: World):
    for user, password in (("ada", "wrong"), ("nobody", "right")):
        answer = world.browser.login(user, password)
        assert (answer.status_code, answer.json()["error"]) == (401, "Invalid_Credentials")


def test_a_provider_that_is_down_is_500_and_not_401(world: World):
    browser = world.browser
    browser.login("ada")
    world.idp.down = True
    answer = world.browser.login("vic")
    assert (answer.status_code, answer.json()["error"]) == (500, "Internal_Server_Error")
    assert world.client.get("/own", auth=("vic", "right")).status_code == 500
    assert world.client.get("/own", headers={"Authorization": "Bearer unknown"}).status_code == 500
    assert browser.refresh().status_code == 500
    world.idp.down = False
    assert world.browser.login("vic").status_code == 200


def test_a_provider_that_does_not_answer_is_500(tmp_path: Path):
    with identity_server() as idp:
        gone = idp
    with (
        identity_of(gone, tmp_path, Clock(), connectionTimeout=500) as identity,
        serving(application_of(identity)) as client,
    ):
        assert Browser(client).login("ada").status_code == 500
        assert client.get("/own", auth=("ada", "right")).status_code == 500


def test_a_refresh_is_that_of_the_provider(world: World):
    browser = world.browser
    browser.login("ada")
    old = browser.headers("LID", "ASID")
    assert browser.refresh().status_code == 200
    assert browser.get().json() == "ada"
    form = {"grantType": "refresh_token"}
    assert world.client.post("/login/portal", data=form, headers=old).status_code == 401


def test_a_token_is_asked_about_once_in_the_time_of_the_cache_and_not_after_its_end(world: World):
    browser = world.browser
    browser.login("vic")
    asked = world.idp.asked.count("introspect")
    for _ in range(3):
        assert browser.get().status_code == 200
    assert world.idp.asked.count("introspect") == asked
    world.clock.now += 901
    assert browser.get().status_code == 200
    assert world.idp.asked.count("introspect") == asked + 1
    world.clock.now += 3_600
    assert browser.get().status_code == 401


def test_a_token_that_ends_within_the_time_of_the_cache_ends(world: World):
    client = world.identity.provider._applications.client("sp").id  # type: ignore[attr-defined]
    token = world.idp.issue("ada", client, valid=60)
    assert world.client.get("/own", headers={"Authorization": f"Bearer {token}"}).status_code == 200
    world.clock.now += 61
    assert world.client.get("/own", headers={"Authorization": f"Bearer {token}"}).status_code == 401


@pytest.mark.parametrize("kind", ["Refresh", "code", "Bearer"])
def test_a_token_of_another_kind_or_for_another_application_is_refused(world: World, kind: str):
    own = world.identity.provider._applications.client("sp").id  # type: ignore[attr-defined]
    token = world.idp.issue("ada", "other" if kind == "Bearer" else own, kind)
    assert world.client.get("/own", headers={"Authorization": f"Bearer {token}"}).status_code == 401


def test_a_logout_revokes_the_token_at_the_provider(world: World):
    browser = world.browser
    browser.login("ada")
    token = browser.token
    assert token in world.idp.made
    assert browser.logout().status_code == 200
    assert token not in world.idp.made
    assert browser.get().status_code == 401


def test_a_logout_counts_here_though_the_provider_does_not_hear_of_it(world: World):
    browser = world.browser
    browser.login("ada")
    world.idp.down = True
    assert browser.logout().status_code == 500
    world.idp.down = False
    assert browser.get().status_code == 401


def test_a_token_of_a_user_who_was_removed_is_refused(world: World):
    browser = world.browser
    browser.login("vic")
    assert browser.get().status_code == 200
    del world.idp.people["vic"]
    world.clock.now += 61
    assert browser.get().status_code == 401


# ---- users and roles


def test_the_roles_of_the_provider_decide_what_a_user_may(world: World):
    assert world.client.post("/change", auth=("ada", "right")).status_code == 200  # of PRIMARY/admin
    assert world.client.get("/look", auth=("vic", "right")).status_code == 401
    id_ = world.client.post(
        "/permissions", json={"appName": SAPP.view.app, "permissionString": SAPP.view.text}, auth=("ada", "right")
    ).text
    granted = world.client.post(
        "/permissions/roles/g-2?action=grant",
        json={"appName": SAPP.view.app, "permissionString": SAPP.view.text},
        auth=("ada", "right"),
    )
    assert granted.status_code == 200
    assert world.client.get("/look", auth=("vic", "right")).status_code == 200
    assert world.client.get("/look", auth=("nil", "right")).status_code == 401
    roles = world.client.get(f"/permissions/{id_}/roles", auth=("ada", "right")).json()
    assert roles == [{"id": "g-2", "name": "viewers"}]


def test_all_pages_of_groups_are_read(world: World):
    assert dict(world.identity.provider.roles) == {"g-1": "admin", "g-2": "viewers", "g-3": "operators"}


def test_a_name_with_quotes_stays_a_name_in_a_filter(world: World):
    assert world.client.get("/own", auth=('o"hara', "right")).json() == 'o"hara'
    assert world.client.get("/own", auth=('x" or userName eq "ada', "right")).status_code == 401


def test_a_change_of_roles_is_seen_within_a_minute(world: World):
    assert world.client.post("/change", auth=("ada", "right")).status_code == 200
    world.idp.people["ada"].groups = ()
    world.clock.now += 61
    assert world.client.post("/change", auth=("ada", "right")).status_code == 401


# ---- applications


def test_an_application_is_registered_once_and_kept_with_its_secret_sealed(world: World):
    world.browser.login("ada")
    world.browser.login("vic")
    assert world.idp.asked.count("register") == 1
    with sqlite3.connect(world.folder / "oauthapps.db") as connection:
        ((name, id_, sealed),) = connection.execute("SELECT CLIENTNAME, CLIENTID, CLIENTSECRET FROM OAUTHAPP")
    connection.close()
    assert name == "sp_portal"
    secret = world.idp.clients[id_][0]
    assert secret not in sealed
    assert secret not in (world.folder / "oauth.key").read_text("latin-1")
    assert (world.folder / "oauth.key").stat().st_mode & 0o077 == 0
    with identity_of(world.idp, world.folder, world.clock) as again:
        assert again.provider.begin("ada", "right", "portal", "") is not None
    assert world.idp.asked.count("register") == 1


def test_a_secret_that_was_put_under_another_name_is_not_taken(world: World):
    world.browser.login("ada")
    with sqlite3.connect(world.folder / "oauthapps.db") as connection:
        connection.execute("UPDATE OAUTHAPP SET CLIENTID = 'of-somebody-else'")
    connection.close()
    with identity_of(world.idp, world.folder, world.clock) as again:
        assert again.provider.begin("ada", "right", "portal", "") is not None
    assert world.idp.asked.count("register") == 2  # what was kept could not be opened


def test_given_ids_are_taken_and_nothing_is_registered(tmp_path: Path):
    with identity_server() as idp:
        idp.clients["mine"] = ("hush", [])
        given = {"spClientId": "mine", "spClientSecret": "hush"}
        with identity_of(idp, tmp_path, Clock(idp.now()), **given) as identity:
            assert identity.provider.login("ada", "right") is not None
        assert "register" not in idp.asked


def test_a_wrong_secret_is_the_deployments_mistake_and_no_wrong_password(tmp_path: Path):
    with identity_server() as idp:
        given = {"spClientId": "mine", "spClientSecret": "wrong"}
        with identity_of(idp, tmp_path, Clock(idp.now()), **given) as identity, pytest.raises(NadiError) as raised:
            identity.provider.login("ada", "right")
        assert raised.value.condition == "PROVIDER_UNAVAILABLE"
        assert "invalid_client" in str(raised.value)


def test_a_login_that_names_no_grant_is_what_the_deployment_says(tmp_path: Path):
    with identity_server() as idp:
        made = make_identity(tmp_path, deployment_of({"auth.configs": auth_of(idp)}))
        with serving(application_of(made)) as client:
            form = {"username": "ada", "password": "right"}
            assert client.post("/login/portal", data=form).json()["authUser"] == "ada"
        made.close()


# ---- logins on a page of the provider


def start(world: World, app: str = "portal") -> tuple[dict[str, str], str]:
    """(what the login answers, the cookie that the browser keeps)"""
    answer = world.client.post(f"/login/{app}", data={"grantType": "authorization_code"})
    assert answer.status_code == 302
    cookie = baked(answer)["LOGIN_STATE"]
    world.client.cookies.clear()
    assert (cookie["path"], cookie["samesite"], cookie["httponly"], cookie["secure"]) == (
        f"/login/callback/{app}",
        "Lax",
        True,
        True,
    )
    return answer.json(), cookie.value


def returned(world: World, begun: dict[str, str]) -> str:
    """The address that the provider sends the browser to, without the host."""
    answer = asking.get(begun["authorizeUrl"])
    assert answer.status_code == 302, answer.text
    return str(answer.headers["location"]).removeprefix("https://node.example")


def finish(world: World, path: str, cookie: str) -> httpx.Response:
    answer = world.client.get(path, headers={"Cookie": f"LOGIN_STATE={cookie}"})
    world.client.cookies.clear()
    return answer


def test_the_type_of_logins_is_sso(world: World):
    assert world.client.get("/login/auth-type").json() == {"authType": "sso"}


def test_a_login_by_code_answers_where_to_go(world: World):
    begun, _cookie = start(world)
    assert begun["redirectUrl"] == f"{world.idp.url}/oauth2/authorize"
    assert begun["callbackUrl"] == "https://node.example/login/callback/portal"
    assert begun["clientId"] in world.idp.clients
    assert "code_challenge_method=S256" in begun["authorizeUrl"]


def test_the_browser_comes_back_with_a_code_and_is_logged_in(world: World):
    begun, cookie = start(world)
    answer = finish(world, returned(world, begun), cookie)
    assert answer.status_code == 302
    assert answer.headers["location"] == "https://node.example/portal"
    cookies = baked(answer)
    assert {name: one["path"] for name, one in cookies.items()} == {
        "HID": "/portal",
        "JID": "/logout/portal",
        "ASID": "/login/portal",
        "USER_DTO": "/portal",
        "FID": "/logout/slo/portal",
        "LOGIN_STATE": "/login/callback/portal",
    }
    shown = json.loads(unquote(cookies["USER_DTO"].value))
    assert sorted(shown) == ["IID", "LID", "PID", "authUser", "validityPeriod"]
    assert not cookies["USER_DTO"]["httponly"]
    token = shown["PID"] + cookies["HID"].value
    assert world.client.get("/own", headers={"Authorization": f"Bearer {token}"}).json() == "ada"


def test_a_login_on_the_worker_s_own_page_comes_back_to_it(world: World):
    begun, cookie = start(world, "status")
    assert begun["callbackUrl"] == "https://node.example/login/callback/status"
    answer = finish(world, returned(world, begun), cookie)
    assert (answer.status_code, answer.headers["location"]) == (302, "https://node.example/")
    cookies = baked(answer)
    paths = {name: bake["path"] for name, bake in cookies.items()}
    assert (paths["HID"], paths["USER_DTO"], paths["FID"]) == ("/status", "/", "/logout/slo/status")
    shown = json.loads(unquote(cookies["USER_DTO"].value))
    bearer = {"Authorization": f"Bearer {shown['PID']}", "Cookie": f"HID={cookies['HID'].value}"}
    assert world.client.get("/own", headers=bearer).json() == "ada"
    assert [addresses for _secret, addresses in world.idp.clients.values() if addresses] == [[begun["callbackUrl"]]]


def test_a_login_of_an_application_that_the_provider_does_not_know_is_400(world: World):
    answer = world.client.post("/login/unheard-of", data={"grantType": "authorization_code"})
    assert answer.status_code == 400


def test_a_callback_without_code_or_state_is_400(world: World):
    for path in ("/login/callback/portal", "/login/callback/portal?code=x", "/login/callback/portal?state=x"):
        assert world.client.get(path).status_code == 400
    assert world.client.get("/login/callback/portal?error=access_denied&state=x").status_code == 401


def test_a_browser_that_did_not_begin_the_login_does_not_end_it(world: World):
    begun, cookie = start(world)
    other, other_cookie = start(world)
    path = returned(world, begun)
    assert finish(world, path, "").status_code == 401
    assert finish(world, path, other_cookie).status_code == 401
    assert finish(world, path, cookie[:-4] + "AAAA").status_code == 401
    assert finish(world, path.replace("/portal", "/monitoring"), cookie).status_code == 401
    assert finish(world, returned(world, other).split("&state=")[0] + "&state=x", other_cookie).status_code == 401
    assert finish(world, path, cookie).status_code == 302


def test_a_callback_is_taken_once(world: World):
    begun, cookie = start(world)
    path = returned(world, begun)
    assert finish(world, path, cookie).status_code == 302
    assert finish(world, path, cookie).status_code == 401


def test_a_login_that_takes_too_long_is_over(world: World):
    begun, cookie = start(world)
    path = returned(world, begun)
    world.clock.now += 601
    assert finish(world, path, cookie).status_code == 401


@pytest.mark.parametrize(
    "claims",
    [
        {"aud": "other"},
        {"aud": ["other"]},
        {"iss": "https://evil.example"},
        {"nonce": "another"},
        {"exp": 1_000},
        {"nbf": 9_999_999_999},
        {"azp": "other"},
        {"exp": None},
        {"at_hash": "x"},
    ],
)
def test_an_id_token_that_does_not_hold_is_401(world: World, claims: dict[str, Any]):
    world.idp.claims = claims
    begun, cookie = start(world)
    answer = finish(world, returned(world, begun), cookie)
    assert answer.status_code == 401
    assert "set-cookie" not in answer.headers


def test_an_id_token_that_another_has_signed_is_401(world: World):
    for kid in ("first", "second"):
        world.idp.signing = RSAKey.generate_key(2048, {"kid": kid}, private=True)
        begun, cookie = start(world)
        assert finish(world, returned(world, begun), cookie).status_code == 401


@pytest.mark.parametrize("bomb", ["[", '{"a":'])
def test_brackets_without_end_in_an_id_token_are_401(world: World, bomb: str):
    deep = base64.urlsafe_b64encode((bomb * (5_500 // len(bomb))).encode()).decode().rstrip("=")
    for token in (f"{deep}.{deep}.x", f"{deep}..", f".{deep}."):
        first, second = token[: len(token) // 2], token[len(token) // 2 :]
        headers = {"Fid": first, "Cookie": f"FID={second}"}
        assert world.client.get("/logout/slo/portal", headers=headers).status_code == 401


@pytest.mark.parametrize(
    "said", [b"[" * 100_000, b'{"error":' + b"[" * 100_000, b'{"error":' + b"[" * 900 + b"]" * 900 + b"}", b"\xff"]
)
def test_brackets_without_end_from_the_provider_are_no_answer(
    world: World, said: bytes, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(world.idp, "raw", said)
    assert world.client.get("/own", auth=("ada", "right")).status_code == 500
    assert world.client.get("/own", headers={"Authorization": "Bearer x"}).status_code == 500
    assert world.browser.login("ada").json()["error"] == "Internal_Server_Error"


def test_a_key_that_the_provider_has_changed_is_looked_up(world: World):
    begun, cookie = start(world)
    assert finish(world, returned(world, begun), cookie).status_code == 302
    world.idp.key = world.idp.signing = RSAKey.generate_key(2048, {"kid": "second"}, private=True)
    world.clock.now += 61
    begun, cookie = start(world)
    assert finish(world, returned(world, begun), cookie).status_code == 302


def test_a_provider_that_is_down_at_the_callback_is_500(world: World):
    begun, cookie = start(world)
    path = returned(world, begun)
    world.idp.down = True
    assert finish(world, path, cookie).status_code == 500


def test_a_single_logout_ends_the_session_and_says_where_to_go(world: World):
    begun, cookie = start(world)
    cookies = baked(finish(world, returned(world, begun), cookie))
    shown = json.loads(unquote(cookies["USER_DTO"].value))
    headers = {"Fid": shown["IID"], "Cookie": f"FID={cookies['FID'].value}"}
    answer = world.client.get("/logout/slo/portal", headers=headers)
    assert answer.status_code == 200
    assert answer.json()["externalLogoutUrl"].startswith("https://idp.example/logout?id_token_hint=")
    bearer = {"Authorization": f"Bearer {shown['PID'] + cookies['HID'].value}"}
    assert world.client.get("/own", headers=bearer).status_code == 401
    forged = {"Fid": shown["IID"], "Cookie": "FID=xxxx"}
    assert world.client.get("/logout/slo/portal", headers=forged).status_code == 401


# ---- the deployment


def test_a_deployment_names_the_provider(tmp_path: Path):
    with identity_server() as idp:
        made = make_identity(tmp_path, deployment_of({"auth.configs": auth_of(idp)}))
        assert made.provider.login("ada", "right") is not None
        assert not isinstance(made.grants, AllGranted)
        assert not (tmp_path / "users.json").exists()
        made.close()


@pytest.mark.parametrize("url", ["http://idp.example/oauth2", "ftp://x", "idp.example", "https://"])
def test_passwords_are_not_sent_over_the_network_in_the_clear(url: str):
    with pytest.raises(NadiError) as raised:
        deployment_of({"auth.configs": {"type": "external", "properties": {"kmTokenUrl": url}}})
    assert "auth.configs.properties.kmTokenUrl" in str(raised.value)


def test_the_well_known_password_is_a_notice():
    found = deployment_of({"auth.configs": {"type": "external"}})
    assert any("well-known" in notice for notice in found.notices)
    given = found.sections.auth.properties
    assert (given.introspection_url, given.cache_timeout) == ("https://localhost:9443/oauth2/introspect", 900)
