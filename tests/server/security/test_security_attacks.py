"""What strangers and users try: tokens that are none, of others, old or halved; names with SQL; roles with commas; time that tells; planted sessions."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import sqlite3
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from security_build import Browser, Clock, local_identity, serving_identity, users_section

from nadi.config.deployment import deployment_of
from nadi.errors import NadiError
from nadi.server.security import passwords
from nadi.server.security.grants import FILE, is_name, permission_id
from nadi.server.security.identity import Identity
from nadi.server.security.permissions import SAPP, Permission
from nadi.server.security.requests import authorization, cookie, is_foreign
from nadi.server.security.sessions import PAIRS, SESSIONS, Replayed, Sessions

ADA = ("ada", "right")
NAMES = [
    "'; DROP TABLE PERMISSIONS; --",
    "' OR '1'='1",
    '" OR ""="',
    "%",
    "_",
    "\\",
    "a\x00b",
    "ada'--",
    "{0}",
    "$(id)",
]


@dataclass
class World:
    client: httpx.Client
    clock: Clock
    identity: Identity
    folder: Path


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder, clock = tmp_path_factory.mktemp("security"), Clock()
    content = {"auth.configs": users_section(vic="2", bob="2,3")}
    identity = local_identity(folder, clock, content)
    with serving_identity(identity) as client:
        yield World(client, clock, identity, folder)


def logged_in(world: World, user: str, **more: str) -> Browser:
    browser = Browser(world.client)
    assert browser.login(user, **more).status_code == 200
    return browser


# ---- tokens


@pytest.mark.parametrize(
    ("value", "status"),
    [
        ("", 400),
        ("Bearer", 400),
        ("Bearer a b", 400),
        ("Bearer \u00e9", 400),
        ("Bearer " + "x" * 9_000, 400),
        ("Token abc", 400),
        ("Bearer null", 401),
        ("Bearer undefined", 401),
        ("Bearer " + "x" * 8_000, 401),
        ("Bearer ' OR 1=1--", 400),
        ("Bearer '/**/OR/**/1=1--", 401),
        (f"Bearer {uuid.UUID(int=0)}", 401),
    ],
)
def test_what_is_no_token_lets_nobody_in(world: World, value: str, status: int):
    answer = world.client.get("/own", headers={"Authorization": value.encode("latin-1")})
    assert answer.status_code == status


def test_the_halves_of_two_users_are_no_token(world: World):
    ada, vic = logged_in(world, "ada"), logged_in(world, "vic")
    for first, second in ((ada, vic), (vic, ada)):
        headers = {"Authorization": f"Bearer {first.body['PID']}", "Cookie": f"HID={second.cookies['HID']}"}
        assert world.client.get("/own", headers=headers).status_code == 401
        refresh = {"Authorization": f"Bearer {first.body['LID']}", "Cookie": f"ASID={second.cookies['ASID']}"}
        assert (
            world.client.post("/login/portal", data={"grantType": "refresh_token"}, headers=refresh).status_code == 401
        )


def test_a_refresh_token_is_no_access_token_and_the_other_way_round(world: World):
    ada = logged_in(world, "ada")
    refresh = ada.body["LID"] + ada.cookies["ASID"]
    assert world.client.get("/own", headers={"Authorization": f"Bearer {refresh}"}).status_code == 401
    headers = {"Authorization": f"Bearer {ada.body['PID']}", "Cookie": f"ASID={ada.cookies['HID']}"}
    assert world.client.post("/login/portal", data={"grantType": "refresh_token"}, headers=headers).status_code == 401


def test_two_headers_or_two_cookies_are_none(world: World):
    ada = logged_in(world, "ada")
    headers = [("Authorization", f"Bearer {ada.token}"), ("Authorization", "Bearer x")]
    assert world.client.get("/own", headers=headers).status_code == 400
    cookies = f"HID={ada.cookies['HID']}; HID=of-somebody-else"
    half = {"Authorization": f"Bearer {ada.body['PID']}", "Cookie": cookies}
    assert world.client.get("/own", headers=half).status_code == 401


def test_the_tokens_of_a_session_that_has_ended_are_worth_nothing_anywhere(world: World):
    ada = logged_in(world, "ada")
    token, refresh = ada.token, ada.headers("LID", "ASID")
    ada.logout()
    assert world.client.get("/own", headers={"Authorization": f"Bearer {token}"}).status_code == 401
    assert world.client.post("/change", headers={"Authorization": f"Bearer {token}"}).status_code == 401
    assert world.client.post("/login/portal", data={"grantType": "refresh_token"}, headers=refresh).status_code == 401


def test_a_user_does_not_end_the_session_of_another(world: World):
    ada, vic = logged_in(world, "ada"), logged_in(world, "vic")
    headers = {"Authorization": f"Bearer {ada.body['PID']}", "Cookie": f"JID={vic.cookies['HID']}"}
    assert world.client.post("/logout/portal", headers=headers).status_code == 200
    assert (ada.get().status_code, vic.get().status_code) == (200, 200)


def test_nobody_chooses_the_tokens_of_a_session(world: World):
    planted = {"Cookie": "HID=planted; ASID=planted; JID=planted", "Authorization": "Bearer planted"}
    form = {"username": "ada", "password": "right", "grantType": "password", "appId": "planted", "sessionId": "planted"}
    first = world.client.post("/login/portal", data=form, headers=planted)
    second = world.client.post("/login/portal", data=form, headers=planted)
    world.client.cookies.clear()
    assert first.status_code == second.status_code == 200
    assert "planted" not in first.text + str(first.headers.get_list("set-cookie"))
    assert first.json()["PID"] != second.json()["PID"]  # who knows a token does not share the next


def test_tokens_are_not_kept_and_not_shown(world: World):
    sessions = Sessions(60, 60, world.clock)
    tokens = sessions.begin("ada")
    assert tokens.access not in repr(tokens) + repr(vars(sessions))
    assert tokens.refresh not in repr(tokens) + repr(vars(sessions))


def test_a_user_who_logs_in_without_end_takes_bounded_memory():
    sessions = Sessions(60, 60, Clock())
    first = sessions.begin("vic", "0")
    for n in range(SESSIONS + 10):
        for _ in range(PAIRS + 5):
            last = sessions.begin("vic", str(n))
    assert sessions.user_of(first.access) is None
    assert sessions.user_of(last.access) == "vic"
    assert len(sessions._access) == len(sessions._refresh) <= SESSIONS * PAIRS
    assert sessions.begin("ada")
    assert sessions.user_of(last.access) == "vic"  # others are not driven out by it


def test_what_has_expired_is_forgotten():
    clock = Clock()
    sessions = Sessions(60, 120, clock)
    for _ in range(10):
        found = sessions.renew(sessions.begin("vic").refresh)
        assert found is not None
    clock.now += 121
    sessions.begin("ada")
    assert (len(sessions._access), len(sessions._refresh), len(sessions._spent)) == (1, 1, 0)


# ---- names


@pytest.mark.parametrize("name", NAMES)
def test_sql_in_names_stays_a_name(world: World, name: str):
    client = world.client
    view = {"appName": "SAPP", "permissionString": "siddhiApp.view"}
    id_ = client.post("/permissions", json=view, auth=ADA).text
    assert client.post("/permissions/roles/2?action=grant", json=view, auth=ADA).status_code == 200
    pair = base64.b64encode(f"{name}:right".encode()).decode()
    assert client.get("/own", headers={"Authorization": f"Basic {pair}"}).status_code == 401
    assert Browser(client).login(name).status_code == 401
    body = {"appName": name, "permissionString": name}
    added = client.post("/permissions", json=body, auth=ADA)
    if is_name(name):
        listed = client.get(f"/permissions/app/{quote(name, safe='')}", auth=ADA)
        assert [one["permissionString"] for one in listed.json()] == [name]
        assert client.delete(f"/permissions/{added.text}", auth=ADA).status_code == 200
    else:
        assert added.status_code == 400
    for path in ("/permissions/{}/roles", "/permissions/auth/{}/2"):
        asked = client.get(path.format(quote(name, safe="")), auth=ADA)
        assert asked.status_code == 404
    no_action = client.post(f"/permissions/roles/{quote(name, safe='')}", auth=ADA, json=view)
    assert no_action.status_code == 400
    assert [role["id"] for role in client.get(f"/permissions/{id_}/roles", auth=ADA).json()] == ["2"]
    assert client.delete(f"/permissions/{id_}", auth=ADA).status_code == 200
    with sqlite3.connect(world.folder / FILE) as connection:
        assert connection.execute("SELECT count(*) FROM PERMISSIONS").fetchone() == (0,)
    connection.close()


@given(st.text(max_size=40), st.text(max_size=40), st.text(max_size=40), st.text(max_size=40))
def test_two_permissions_have_two_ids(app: str, text: str, other_app: str, other_text: str):
    if not all(map(is_name, (app, text, other_app, other_text))):
        return
    one, other = Permission(app, text), Permission(other_app, other_text)
    assert (permission_id(one) == permission_id(other)) == (one == other)


# ---- roles


@pytest.mark.parametrize("roles", ["2,1x", "2, 01", "admin", "2;1", "1.0", "'1'", "2\n,3", ""])
def test_nobody_becomes_an_administrator_by_the_way_roles_are_written(tmp_path: Path, roles: str):
    identity = local_identity(tmp_path, Clock(), {"auth.configs": users_section(eve=roles)})
    user = identity.provider.login("eve", "right")
    identity.close()
    assert user is not None
    assert not user.is_admin
    assert "1" not in user.role_ids


def test_a_role_whose_id_has_a_comma_is_refused():
    section = users_section()
    section["userManager"]["userStore"]["roles"].append({"role": {"id": "2,1", "displayName": "x"}})
    with pytest.raises(NadiError, match="without commas"):
        deployment_of({"auth.configs": section})


def test_two_users_of_one_name_are_refused(tmp_path: Path):
    section = users_section()
    section["userManager"]["userStore"]["users"] *= 2
    with pytest.raises(NadiError, match="no other user has"):
        local_identity(tmp_path, Clock(), {"auth.configs": section})


@pytest.mark.parametrize("role", ["2,3", "1,2", "2 ", " 2", "2%2C3", "*"])
def test_a_grant_to_several_roles_at_once_is_a_grant_to_none(world: World, role: str):
    manage = {"appName": "SAPP", "permissionString": "siddhiApp.manage"}
    id_ = world.client.post("/permissions", json=manage, auth=ADA).text
    path = f"/permissions/roles/{quote(role, safe='')}?action=grant"
    assert world.client.post(path, json=manage, auth=ADA).status_code == 404
    assert world.client.post("/change", auth=("bob", "right")).status_code == 401
    assert world.client.delete(f"/permissions/{id_}", auth=ADA).status_code == 200


def test_a_grant_in_the_table_to_several_roles_at_once_lets_nobody_in(world: World):
    store = world.identity.permissions
    store.add(SAPP.manage)
    store.grant(SAPP.manage, "2,3")
    try:
        assert world.client.post("/change", auth=("bob", "right")).status_code == 401
    finally:
        store.drop(permission_id(SAPP.manage))


# ---- how long it takes


def test_a_wrong_name_takes_the_work_that_a_wrong_password_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    hashed: list[str] = []
    real = passwords._matches
    monkeypatch.setattr(passwords, "_matches", lambda given, kept: hashed.append(kept) or real(given, kept))
    with serving_identity(local_identity(tmp_path, Clock(), {"auth.configs": users_section()})) as client:
        browser = Browser(client)
        counts = []
        for user in ("ada", "nobody"):
            before = len(hashed)
            assert browser.login(user, "wrong").status_code == 401
            assert client.get("/own", auth=(user, "wrong")).status_code == 401
            counts.append(len(hashed) - before)
    assert counts == [2, 2]
    assert (
        len({kept.split("$")[1] + kept.split("$")[3] for kept in hashed}) == 1
    )  # the same algorithm, memory and passes


# ---- requests


def test_huge_headers_are_refused_and_the_server_lives(world: World):
    async def ask(header: bytes) -> bytes:
        url = world.client.base_url
        reader, writer = await asyncio.open_connection(url.host, url.port)
        writer.write(b"GET /own HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + header + b"\r\n\r\n")
        try:
            return await reader.read()
        except ConnectionError:
            return b""
        finally:
            writer.close()

    for header in (
        b"Authorization: Basic " + b"A" * 1_000_000,
        b"Authorization: Bearer " + b"A" * 30_000,
        b"Cookie: HID=" + b"A" * 30_000,
        b"\r\n".join(b"X-%d: y" % n for n in range(3_000)),
    ):
        answer = asyncio.run(ask(header))
        assert b" 200 " not in answer.split(b"\r\n")[0]
    assert world.client.get("/own", auth=ADA).status_code == 200


def test_a_name_cannot_become_a_header_of_the_answer(world: World):
    answer = world.client.post("/login/a%0d%0aSet-Cookie:%20x=y", data={"grantType": "password"})
    assert answer.status_code in (400, 404)
    assert "x=y" not in str(answer.headers)


@given(st.binary(max_size=200))
def test_no_header_breaks_the_reading_of_headers(value: bytes):
    authorization(value)
    authorization(b"Basic " + value)
    authorization(b"Bearer " + value)
    cookie([(b"cookie", value)], "HID")
    is_foreign([(b"origin", value), (b"host", b"x")])


@given(st.lists(st.sampled_from(["begin", "renew", "replay", "end", "wait"]), max_size=30))
def test_no_order_of_logins_refreshes_and_logouts_revives_a_token(steps: list[str]):
    """A model: the tokens that should be taken are taken, all others are not."""
    clock = Clock()
    sessions = Sessions(100, 300, clock)
    live: dict[str, str] = {}  # access tokens by refresh tokens
    dead: list[str] = []
    spent: list[str] = []
    for step in steps:
        if step == "begin":
            if len(live) >= PAIRS:
                continue
            made = sessions.begin("ada")
            live[made.refresh] = made.access
        elif step == "renew" and live:
            old, access = next(iter(live.items()))
            found = sessions.renew(old)
            assert found is not None
            del live[old]
            dead.append(access)
            spent.append(old)
            live[found[1].refresh] = found[1].access
        elif step == "replay" and spent:
            with contextlib.suppress(Replayed):
                assert sessions.renew(spent[-1]) is None  # the session that it belonged to has ended before
                continue
            dead += live.values()
            live.clear()
        elif step == "end" and live:
            assert sessions.end(next(iter(live.values()))) == "ada"
            dead += live.values()
            live.clear()
        elif step == "wait":
            clock.now += 1
        assert all(sessions.user_of(access) == "ada" for access in live.values())
        assert all(sessions.user_of(access) is None for access in dead)
