"""The audit log: what it has, and what it never has."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from security_build import Browser, Clock, local_identity, serving, serving_identity, users_section
from structlog.testing import capture_logs

from nadi.server.apps import AppExists, AppNotThere, Saved
from nadi.server.rest import siddhiapps
from nadi.server.rest.application import guarded, make_routes
from nadi.server.security.attempts import FREE, Attempts
from nadi.server.security.audit import LONGEST, Origin, note, plain
from nadi.server.worker import OPEN


@pytest.fixture
def client(tmp_path: Path) -> Iterator[httpx.Client]:
    identity = local_identity(tmp_path, Clock(), {"auth.configs": users_section(vic="2")})
    with serving_identity(identity) as made:
        yield made


def entries(logs: list[Any], event: str) -> list[dict[str, Any]]:
    return [dict(one) for one in logs if one["event"] == event]


def test_logins_are_noted_whether_they_succeed_or_not(client: httpx.Client):
    with capture_logs() as logs:
        browser = Browser(client)
        browser.login("ada")
        browser.login("ada", "wrong")
        browser.refresh()
        browser.logout()
    found = [(one["user"], one["outcome"], one.get("grant")) for one in entries(logs, "login")]
    assert found == [("ada", "ok", "password"), ("ada", "refused", "password"), ("ada", "ok", "refresh_token")]
    assert [one["user"] for one in entries(logs, "logout")] == ["ada"]
    first = entries(logs, "login")[0]
    assert (first["address"], first["path"], first["log_level"]) == ("127.0.0.1", "/login/portal", "info")
    assert entries(logs, "login")[1]["log_level"] == "warning"


def test_the_requests_of_a_user_by_password_are_one_login(client: httpx.Client):
    with capture_logs() as logs:
        for _ in range(3):
            client.get("/own", auth=("ada", "right"))
        client.get("/own", auth=("ada", "wrong"))
    assert [(one["outcome"], one["grant"]) for one in entries(logs, "login")] == [("ok", "basic"), ("refused", "basic")]


def test_a_user_who_has_to_wait_is_noted(client: httpx.Client):
    with capture_logs() as logs:
        for n in range(FREE + 2):
            Browser(client).login("eve", f"wrong{n}")
    assert [one["outcome"] for one in entries(logs, "login")] == ["refused"] * (FREE + 1) + ["too many"]


def test_a_refresh_token_that_comes_again_is_noted_with_its_user(client: httpx.Client):
    browser = Browser(client)
    browser.login("ada")
    stolen = browser.headers("LID", "ASID")
    browser.refresh()
    with capture_logs() as logs:
        client.post("/login/portal", data={"grantType": "refresh_token"}, headers=stolen)
    assert [(one["user"], one["outcome"]) for one in entries(logs, "token")] == [("ada", "replayed")]


def test_a_missing_permission_is_noted_with_what_was_needed(client: httpx.Client):
    with capture_logs() as logs:
        client.post("/change", auth=("vic", "right"))
    (found,) = entries(logs, "not permitted")
    assert (found["user"], found["path"], found["needs"]) == ("vic", "/change", "SAPP siddhiApp.manage")
    assert entries(logs, "change") == []


def test_what_was_changed_is_noted_with_who_changed_it(client: httpx.Client):
    view = {"appName": "SAPP", "permissionString": "siddhiApp.view"}
    with capture_logs() as logs:
        client.post("/permissions", json=view, auth=("ada", "right"))
        client.post("/permissions/roles/2?action=grant", json=view, auth=("ada", "right"))
        client.post("/permissions/roles/9?action=grant", json=view, auth=("ada", "right"))
        client.get("/permissions/app/SAPP", auth=("ada", "right"))
        client.post("/own", auth=("ada", "right"))
    found = [(one["user"], one["outcome"], one["status"], one["about"]) for one in entries(logs, "change")]
    named = "Permission[appName=SAPP, permissionString=siddhiApp.view]"
    assert found == [
        ("ada", "ok", 200, f"add {named}"),
        ("ada", "ok", 200, f"grant {named} role 2"),
        ("ada", "refused", 404, f"grant {named} role 9"),
    ]


class FakeApps:
    """Takes every text but an empty one; `Orders` is there already."""

    def deploy(self, body: bytes) -> Saved:
        if body == b"again":
            raise AppExists("Orders")
        return Saved(body.decode(), False)

    def update(self, body: bytes) -> Saved:
        return Saved(body.decode(), True)

    def undeploy(self, name: str) -> None:
        if name != "Orders":
            raise AppNotThere(name)

    def restart(self, name: str) -> None:
        self.undeploy(name)


def test_deployments_are_noted_with_the_app_and_the_answer(tmp_path: Path):
    identity = local_identity(tmp_path, Clock(), {"auth.configs": users_section(vic="2")})
    routes = make_routes("test", [siddhiapps.routes(FakeApps())])  # type: ignore[arg-type]
    with (
        serving(guarded(routes, identity.provider, Attempts(), OPEN, identity.grants)) as client,
        capture_logs() as logs,
    ):
        client.auth = ("ada", "right")
        client.post("/siddhi-apps", content="Orders")
        client.post("/siddhi-apps", content="again")
        client.put("/siddhi-apps", content="Orders")
        client.post("/siddhi-apps/Orders/restart")
        client.delete("/siddhi-apps/Orders")
        client.delete("/siddhi-apps/Nothing")
        client.delete("/siddhi-apps/Orders", auth=("vic", "right"))
    identity.close()
    found = [(one["method"], one["path"], one["status"], one.get("about")) for one in entries(logs, "change")]
    assert found == [
        ("POST", "/siddhi-apps", 201, "Orders"),
        ("POST", "/siddhi-apps", 409, "Orders"),
        ("PUT", "/siddhi-apps", 200, "Orders"),
        ("POST", "/siddhi-apps/Orders/restart", 200, None),
        ("DELETE", "/siddhi-apps/Orders", 200, None),
        ("DELETE", "/siddhi-apps/Nothing", 404, None),
    ]
    assert {one["user"] for one in entries(logs, "change")} == {"ada"}
    assert [one["user"] for one in entries(logs, "not permitted")] == ["vic"]


def test_changes_are_noted_without_authentication_too(tmp_path: Path):
    routes = make_routes("test", [siddhiapps.routes(FakeApps())])  # type: ignore[arg-type]
    with serving(guarded(routes, None, Attempts(), OPEN)) as client, capture_logs() as logs:
        client.delete("/siddhi-apps/Orders")
    (found,) = entries(logs, "change")
    assert (found["user"], found["address"], found["outcome"]) == ("", "127.0.0.1", "ok")


def test_a_page_of_another_origin_is_noted(client: httpx.Client):
    with capture_logs() as logs:
        client.post("/login/portal", data={"grantType": "password"}, headers={"Origin": "https://evil.example"})
    assert len(entries(logs, "foreign origin")) == 1


def test_no_secret_is_in_the_log(client: httpx.Client):
    with capture_logs() as logs:
        browser = Browser(client)
        browser.login("ada")
        secrets = [*browser.body.values(), *browser.cookies.values()]
        browser.get()
        browser.refresh()
        secrets += [*browser.body.values(), *browser.cookies.values()]
        client.get("/own", headers={"Authorization": "Bearer a-token-of-nobody"})
        client.get("/own", auth=("ada", "hush-hush"))
        browser.login("ada", "hush-hush")
        browser.logout()
    written = repr(logs)
    assert "hush-hush" not in written
    assert "a-token-of-nobody" not in written
    assert not [one for one in secrets if isinstance(one, str) and one != "ada" and one in written]


def test_a_name_cannot_begin_a_line_of_its_own(client: httpx.Client, capsys: pytest.CaptureFixture[str]):
    forged = "eve\n2026-01-01 [info] login outcome=ok user=ada\r\x1b[31m\u2028x"
    pair = base64.b64encode(f"{forged}:wrong".encode()).decode()
    client.get("/own", headers={"Authorization": f"Basic {pair}"})
    Browser(client).login(forged, "wrong")
    client.get("/a%0ab%1b", auth=("ada", "right"))
    lines = capsys.readouterr().out.splitlines()
    assert lines
    assert not [line for line in lines if line.startswith("2026-01-01 [info]")]
    assert "\x1b[31m" not in "".join(lines)


def test_entries_are_there_at_every_level_and_are_one_line(tmp_path: Path):
    """In a process of its own: how a process logs is for all of it."""
    script = f"""
from nadi.metrics.logs import Logging, begin
from nadi.server.security.audit import Origin, note
for format_ in ("text", "json"):
    begin(Logging(format_, "error", {str(tmp_path)!r} + "/" + format_))
    note("login", Origin("eve" + chr(10) + "x", "10.0.0.1", "/login/portal"), "ok", grant="password")
    note("login", Origin("eve", "10.0.0.1", "/login/portal"), "refused", grant="password")
"""
    subprocess.run([sys.executable, "-c", script], check=True)
    first, second = (tmp_path / "text").read_text().splitlines()
    assert "nadi.audit" in first
    assert ("outcome=ok" in first, "outcome=refused" in second) == (True, True)
    made = [json.loads(line) for line in (tmp_path / "json").read_text().splitlines()]
    assert [one["outcome"] for one in made] == ["ok", "refused"]
    assert (made[0]["logger"], made[0]["user"], made[0]["event"]) == ("nadi.audit", "eve\\nx", "login")


@given(st.text(max_size=1_000))
def test_every_value_is_one_printable_line_of_bounded_length(text: str):
    shown = plain(text)
    assert shown.isprintable()
    assert len(shown) <= LONGEST + 1


@given(st.text(), st.text())
def test_an_entry_has_the_same_fields_whatever_a_user_is_called(user: str, path: str):
    with capture_logs() as logs:
        note("login", Origin(user, "10.0.0.1", path), "refused", grant="password")
    (found,) = logs
    assert set(found) == {"event", "log_level", "outcome", "user", "address", "path", "grant"}
    assert (found["event"], found["outcome"]) == ("login", "refused")
