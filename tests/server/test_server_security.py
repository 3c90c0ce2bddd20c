"""Passwords, users, and who is let through to the REST APIs."""

from __future__ import annotations

import asyncio
import base64
import ssl
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography import x509
from fastapi import FastAPI
from server_build import served

from nadi.config.auth import UserManager
from nadi.config.deployment import Tls
from nadi.errors import NadiError
from nadi.io.httpserver import HttpServer
from nadi.server.rest.application import guarded, make_routes
from nadi.server.security.attempts import FREE, Attempt, Attempts
from nadi.server.security.certificate import certificate_of
from nadi.server.security.passwords import PasswordCheck, hash_password
from nadi.server.security.requests import authorization
from nadi.server.security.users import FILE, Users, make_users


def manager(*users: dict[str, Any]) -> UserManager:
    roles = [{"role": {"id": 1, "displayName": "admin"}}, {"role": {"id": 2, "displayName": "viewer"}}]
    store = {"users": [{"user": user} for user in users], "roles": roles}
    return UserManager.model_validate({"adminRole": "admin", "userStore": store})


@pytest.fixture(scope="module")
def users() -> Users:
    hashed = hash_password("right")
    ada = {"username": "ada", "password": hashed, "roles": 1}
    made = make_users(Path("nowhere"), manager(ada, {"username": "vic", "password": hashed, "roles": 2}))
    return made.users


# ---- users


def test_the_first_start_makes_an_administrator_whose_password_is_told_once(tmp_path: Path):
    made = make_users(tmp_path, UserManager())
    user = made.users.login("admin", made.password)
    assert user is not None
    assert user.is_admin
    assert made.users.login("admin", "admin") is None
    again = make_users(tmp_path, UserManager())
    assert again.password == ""
    assert again.users.login("admin", made.password) is not None
    kept = tmp_path / FILE
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert made.password not in kept.read_text()


def test_no_two_first_starts_make_the_same_password(tmp_path: Path):
    for name in "ab":
        (tmp_path / name).mkdir()
    assert len({make_users(tmp_path / name, UserManager()).password for name in "ab"}) == 2


def test_a_password_in_base64_is_taken_and_warned_of(tmp_path: Path):
    encoded = base64.b64encode(b"secret").decode()
    made = make_users(tmp_path, manager({"username": "ada", "password": encoded, "roles": "1,2"}))
    user = made.users.login("ada", "secret")
    assert user is not None
    assert (user.roles, user.is_admin) == (("admin", "viewer"), True)
    assert "ada" in made.notices[0]
    assert "secret" not in made.notices[0]
    assert made.users.login("ada", encoded) is None
    assert not (tmp_path / FILE).exists()


def test_a_password_in_no_known_form_is_refused_without_being_shown(tmp_path: Path):
    with pytest.raises(NadiError) as raised:
        make_users(tmp_path, manager({"username": "ada", "password": "plain text!", "roles": 1}))
    assert "users[0].user.password" in str(raised.value)
    assert "plain text!" not in str(raised.value)


@pytest.mark.parametrize(
    "content", [b"{", b"[" * 100_000, b'{"admin": {"hash": "x", "roles": [], "y": ' + b"[" * 100_000, b'{"\xff": 1}']
)
def test_a_damaged_file_of_users_is_an_error_and_no_new_administrator(tmp_path: Path, content: bytes):
    (tmp_path / FILE).write_bytes(content)
    with pytest.raises(NadiError) as raised:
        make_users(tmp_path, UserManager())
    assert raised.value.condition == "USERS_DAMAGED"


def test_who_is_not_there_is_checked_as_long_as_who_is(users: Users, monkeypatch: pytest.MonkeyPatch):
    from nadi.server.security import passwords

    checked = []
    real = passwords._matches
    monkeypatch.setattr(passwords, "_matches", lambda given, kept: checked.append(kept) or real(given, kept))
    assert users.login("ada", "wrong") is None
    assert users.login("nobody", "wrong") is None
    parameters = [kept.split("$")[1:4] for kept in checked]
    assert len(parameters) == 2
    assert parameters[0] == parameters[1]  # the same algorithm, memory and passes


def test_a_password_that_was_right_is_known_only_with_its_hash():
    check, hashed = PasswordCheck(), hash_password("right")
    assert check.is_right("right", hashed)
    assert check.is_right("right", hashed)
    assert not check.is_right("wrong", hashed)
    assert not check.is_right("right", hash_password("other"))
    assert not check.is_right("right", None)


# ---- wrong passwords


def test_the_attempts_after_some_wrong_passwords_wait_longer_and_longer():
    now = [0.0]
    attempts = Attempts(lambda: now[0])
    for _ in range(FREE):
        attempts.end(attempts.begin("ada", "a"), right=False)
    assert attempts.begin("ada", "a").wait == 0.0
    waits = []
    for _ in range(8):
        attempts.end(Attempt("ada", "a", 0.0), right=False)
        waits.append(attempts.begin("ada", "a").wait)
        now[0] += waits[-1]
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60]
    attempts.end(Attempt("ada", "a", 0.0), right=True)
    assert attempts.begin("ada", "a").wait == 0.0


# ---- headers


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"Basic",
        b"Basic ",
        b"Basic !!!",
        b"Bearer",
        b"Bearer a b",
        b"Bearer \xe9",
        b"Bearer \n",
        b"Digest a",
        b"Basic " + base64.b64encode(b"nocolon"),
        b"Basic " + base64.b64encode(b":x"),
        b"Basic " + base64.b64encode(b"\xff:x"),
        b"Basic " + b"A" * 9_000,
    ],
)
def test_a_header_that_names_nobody_is_malformed(header: bytes):
    assert authorization(header) is None


# ---- a server


def echoing() -> FastAPI:
    """Routes that a test can do without a worker."""
    routes = make_routes("test", [])

    @routes.get("/who")
    async def who() -> str:
        return "somebody"

    @routes.post("/echo")
    async def echo(given: dict[str, Any]) -> dict[str, Any]:
        return given

    @routes.get("/broken")
    async def broken() -> str:
        raise RuntimeError("a secret of the server")

    return routes


@pytest.fixture(scope="module")
def url(users: Users) -> Iterator[str]:
    server = HttpServer(guarded(echoing(), users, Attempts(), ("/health*", "/open/*")), "127.0.0.1", 0)
    server.start()
    yield f"http://127.0.0.1:{server.port}"
    server.stop()


RIGHT = ("ada", "right")


def test_no_credentials_are_400_and_wrong_ones_401(url: str):
    assert httpx.get(f"{url}/who").status_code == 400
    assert httpx.get(f"{url}/who", headers={"Authorization": "Digest x"}).status_code == 400
    wrong = httpx.get(f"{url}/who", auth=("ada", "wrong"))
    assert wrong.status_code == 401
    assert wrong.headers["content-type"].startswith("text/plain")
    assert httpx.get(f"{url}/who", auth=("eve", "right")).status_code == 401
    assert httpx.get(f"{url}/who", auth=RIGHT).json() == "somebody"


def test_who_is_no_administrator_is_not_let_through(url: str):
    answer = httpx.get(f"{url}/who", auth=("vic", "right"))
    assert answer.status_code == 401
    assert "permission" in answer.text


def test_two_headers_are_not_one_of_which_may_be_right(url: str):
    good = "Basic " + base64.b64encode(b"ada:right").decode()
    headers = [("Authorization", "Basic eDp5"), ("Authorization", good)]
    assert httpx.get(f"{url}/who", headers=headers).status_code == 400


def test_paths_that_do_not_exist_are_not_told_to_strangers(url: str):
    assert httpx.get(f"{url}/nothing").status_code == 400
    assert httpx.get(f"{url}/nothing", auth=RIGHT).status_code == 404
    assert httpx.get(f"{url}/openapi.json").status_code == 400


@pytest.mark.parametrize("path", ["/open/../who", "/open/..//who", "//who", "/who/", "/%77ho", "/health/../who"])
def test_no_way_of_writing_a_path_leads_past_the_guard(url: str, path: str):
    async def ask() -> bytes:
        host, _, port = url.removeprefix("http://").partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        answer = await reader.read()
        writer.close()
        return answer

    answer = asyncio.run(ask())
    assert b"somebody" not in answer
    assert answer.split(b" ")[1] in (b"400", b"404")


def test_a_body_that_is_too_large_is_413_and_not_a_reset(url: str):
    for auth, status in ((RIGHT, 413), (("ada", "wrong"), 401), (None, 400)):
        answer = httpx.post(f"{url}/echo", content=b"x" * 100_000_000, auth=auth, timeout=60)
        assert answer.status_code == status


def test_a_body_that_is_not_what_it_should_be_is_400_with_a_reason(url: str):
    for content in (b"", b"{", b"[1]", b"[" * 100_000, b'{"a":' * 50_000, b"\xff"):
        answer = httpx.post(f"{url}/echo", content=content, auth=RIGHT, headers={"content-type": "application/json"})
        assert answer.status_code == 400, content[:20]
        assert answer.json()["code"] == 800101


CURL = "application/x-www-form-urlencoded"
"""What `curl -d` calls all that it sends."""


@pytest.mark.parametrize("kind", [CURL, f"{CURL}; charset=utf-8", "text/plain", "application/octet-stream", None])
def test_a_body_of_json_is_taken_whatever_it_is_called_from_who_sends_credentials(url: str, kind: str | None):
    headers = {} if kind is None else {"content-type": kind}
    answer = httpx.post(f"{url}/echo", content=b'{"text": "a"}', auth=RIGHT, headers=headers)
    assert (answer.status_code, answer.json()) == (200, {"text": "a"})


@pytest.mark.parametrize("kind", [CURL, "text/plain", None])
def test_where_nobody_needs_credentials_a_page_cannot_send_json_under_another_name(kind: str | None):
    """What a page may send to other sites without asking them is a form or a plain text, and has no `Authorization`."""
    headers = {} if kind is None else {"content-type": kind}
    with served(guarded(echoing(), None, Attempts(), ())) as client:
        answer = client.post("/echo", content=b'{"text": "a"}', headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (400, 800101)
        assert "Content-Type: application/json" in answer.json()["message"]
        foreign = {**headers, "origin": "https://evil.example", "authorization": "Basic YTpi"}
        assert client.post("/echo", content=b'{"text": "a"}', headers=foreign).status_code == 400
        own = {**headers, "authorization": "Basic YTpi"}
        assert client.post("/echo", content=b'{"text": "a"}', headers=own).status_code == 200
        assert client.post("/echo", json={"text": "a"}).status_code == 200


def test_what_is_no_json_is_400_whatever_it_is_called(url: str):
    answer = httpx.post(f"{url}/echo", data={"text": "a"}, auth=RIGHT)
    assert (answer.status_code, answer.json()["code"]) == (400, 800101)
    for kind in ("application/xml", "multipart/form-data; boundary=x"):
        answer = httpx.post(f"{url}/echo", content=b'{"text": "a"}', auth=RIGHT, headers={"content-type": kind})
        assert answer.status_code == 400


def test_a_content_encoding_is_415(url: str):
    answer = httpx.post(f"{url}/echo", content=b"x", auth=RIGHT, headers={"content-encoding": "gzip"})
    assert answer.status_code == 415
    assert (answer.json()["code"], answer.json()["type"]) == (800101, "validation error")


def test_what_went_wrong_inside_is_not_told(url: str):
    answer = httpx.get(f"{url}/broken", auth=RIGHT)
    assert answer.status_code == 500
    assert "secret" not in answer.text


def test_after_many_wrong_passwords_the_next_has_to_wait(url: str):
    codes = [httpx.get(f"{url}/who", auth=("mallory", f"{n}")).status_code for n in range(FREE + 2)]
    assert codes == [401] * (FREE + 1) + [429]
    assert httpx.get(f"{url}/who", auth=RIGHT).status_code == 200


# ---- https


def test_the_first_start_makes_a_certificate_that_clients_can_check(tmp_path: Path):
    tls = certificate_of(tmp_path, Tls(), "node-1").tls()
    assert stat.S_IMODE(tls.key.stat().st_mode) == 0o600
    before = tls.certificate.read_bytes()
    assert certificate_of(tmp_path, Tls(), "node-1").tls().certificate.read_bytes() == before
    server = HttpServer(guarded(make_routes("t", []), None, Attempts(), ()), "127.0.0.1", 0, tls.context())
    server.start()
    try:
        trusted = ssl.create_default_context(cafile=str(tls.certificate))
        assert httpx.get(f"https://127.0.0.1:{server.port}/x", verify=trusted).status_code == 404
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"https://127.0.0.1:{server.port}/x")
    finally:
        server.stop()


def test_a_certificate_is_renewed_before_it_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from nadi.io import owncertificate

    made = certificate_of(tmp_path, Tls(), "node-1").tls()
    first = x509.load_pem_x509_certificate(made.certificate.read_bytes())
    monkeypatch.setattr(owncertificate, "RENEWED_BEFORE", owncertificate.LASTS)
    second = x509.load_pem_x509_certificate(certificate_of(tmp_path, Tls(), "node-1").tls().certificate.read_bytes())
    assert first.serial_number != second.serial_number


def test_a_configured_certificate_that_is_not_there_is_refused(tmp_path: Path):
    with pytest.raises(NadiError) as raised:
        certificate_of(tmp_path, Tls(certificate=str(tmp_path / "no.pem"), key="x"), "node-1")
    assert "nadi.tls.certificate" in str(raised.value)
