"""What strangers and users try at the REST APIs: bombs, bodies without end, codings that lie, slow clients, names that are paths or SQL."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
import sqlite3
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from restworker import ADA, EVE, VIC, RestWorker, rest_worker
from server_build import waits

from nadi.server.rest import limits
from nadi.server.security.grants import FILE

BOMBS = {
    "brackets": b"[" * 100_000,
    "objects": b'{"a":' * 20_000,
    "brackets that close": b"[" * 900 + b"]" * 900,
    "in a field": b'{"query": "q", "appName": ' + b"[" * 10_000,
    "in a field that nobody reads": b'{"query": "q", "appName": "A", "x": ' + b"[" * 900 + b"]" * 900 + b"}",
    "digits": b'{"query": ' + b"9" * 10_000 + b"}",
    "an exponent": b'{"query": 1e999999999}',
    "the same key": b"{" + b'"a": 1,' * 10_000 + b'"a": 1}',
    "no text": b'{"query": "\xff\xfe"}',
    "a half of a character": b'{"query": "\\ud800", "appName": "\\udfff"}',
    "zeros": b"\x00" * 10_000,
    "yaml": b"a: &a [x, x]\nb: &b [*a, *a]",
    "xml": b'<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]><x>&b;</x>',
}
PATHS = ["../../etc/passwd", "/etc/passwd", "a/../../b", "..\\..\\x", "a\x00b", "%2e%2e", "~", "..", "Orders.siddhi/.."]
SQL = ["' OR '1'='1", "'; DROP TABLE PERMISSIONS; --", 'x" OR ""="', "x`; --", "%", "\\", "Orders'--"]


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestWorker]:
    with rest_worker(tmp_path_factory.mktemp("attacks")) as made:
        made.deploy("Orders", "define table T (a string);")
        yield made


def lives(worker: RestWorker) -> None:
    """The worker goes on, and has what it had."""
    assert worker.ask("GET", "/siddhi-apps").json() == ["Orders"]
    assert worker.ask("GET", "/siddhi-apps/Orders/status").json() == {"status": "active"}
    with sqlite3.connect(worker.home / "security" / FILE) as connection:
        assert connection.execute("SELECT count(*) FROM PERMISSIONS").fetchone() == (4,)
    connection.close()


async def _raw(client: httpx.Client, request: bytes, *rest: bytes) -> bytes:
    reader, writer = await asyncio.open_connection(client.base_url.host, client.base_url.port)
    try:
        for part in (request, *rest):
            writer.write(part)
            await writer.drain()
        return await reader.read()
    finally:
        writer.close()


def raw(client: httpx.Client, request: bytes, *rest: bytes) -> bytes:
    """What a server says to bytes, until it closes the connection."""
    return asyncio.run(_raw(client, request, *rest))


def quoted(name: str) -> str:
    """A name as a part of a path; what the client itself would take for a way up comes with its dots quoted twice."""
    return quote(name, safe="") if name.strip(".") else quote(name.replace(".", "%2e"), safe="")


# ---- bombs


@pytest.mark.parametrize("name", BOMBS)
def test_no_body_is_too_much_for_any_path(worker: RestWorker, name: str):
    """What is wrong is said with a code of 4xx; the simulator says 500 of all mistakes, as its contract has it. Nothing is a mistake of the server."""
    for client, method, path in worker.routes():
        if method not in ("POST", "PUT") or path.endswith("/restart") or path == "/login/{app}":
            continue
        filled = re.sub(r"\{\w+\}", "No", path)
        answer = client.request(
            method, filled, content=BOMBS[name], headers={"content-type": "application/json"}, auth=ADA
        )
        assert answer.status_code < 500 or path.startswith("/simulation"), (method, path, answer.text[:200])
        assert "the server's log" not in answer.text, (method, path)
        assert "its log has the reason" not in answer.text, (method, path)
        assert len(answer.content) < 5_000, (method, path)
    lives(worker)


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_for_an_api_is_refused_in_its_own_words(worker: RestWorker, name: str):
    json_headers = {"content-type": "application/json"}
    asked = worker.ask("POST", "/siddhi-apps", content=BOMBS[name])
    assert (asked.status_code, asked.json()["code"], asked.json()["type"]) == (400, 800101, "validation error")
    fed = worker.ask("POST", "/simulation/feed", content=BOMBS[name])
    assert (fed.status_code, fed.json()["status"]) == (500, "INTERNAL_SERVER_ERROR")
    switched = worker.ask("PUT", "/statistics", content=BOMBS[name], headers=json_headers)
    assert (switched.status_code, switched.json()["code"]) == (400, 800101)


# ---- bodies


def test_a_body_of_100_mb_hears_413_and_no_reset(worker: RestWorker):
    content = b"x" * 100_000_000
    for method, path in (("POST", "/siddhi-apps"), ("POST", "/stores/query"), ("POST", "/simulation/feed")):
        answer = worker.ask(method, path, content=content)
        assert (answer.status_code, answer.json()["code"]) == (413, 800101)
    form = worker.api.post(
        "/login/portal", content=content, headers={"content-type": "application/x-www-form-urlencoded"}
    )
    assert form.status_code == 413
    lives(worker)


@pytest.mark.parametrize("size", [9_000_000, 11_000_000, 60_000_000])
def test_a_file_of_a_simulation_that_is_too_large_is_403_as_the_contract_has_it(worker: RestWorker, size: int):
    file = {"file": ("large.csv", b"x" * size, "text/csv")}
    answer = worker.ask("POST", "/simulation/files", files=file)
    assert (answer.status_code, answer.json()["status"]) == (403, "FORBIDDEN")
    assert "more than 8388608 bytes" in answer.json()["message"]
    missing = worker.ask("PUT", "/simulation/files/no.csv", "/simulation/files/{file}", files=file)
    assert (missing.status_code, missing.json()["status"]) == (404, "NOT_FOUND")
    worker.ask("POST", "/simulation/files", files={"file": ("small.csv", b"a,1", "text/csv")})
    put = worker.ask("PUT", "/simulation/files/small.csv", "/simulation/files/{file}", files=file)
    assert (put.status_code, put.json()["status"]) == (403, "FORBIDDEN")
    assert worker.ask("POST", "/simulation/files", auth=VIC, files=file).status_code == 401
    assert worker.ask("DELETE", "/simulation/files/small.csv", "/simulation/files/{file}").status_code == 200
    lives(worker)


def test_a_body_without_end_in_chunks_hears_413(worker: RestWorker):
    def chunks() -> Iterator[bytes]:
        for _ in range(100):
            yield b"x" * 1_000_000

    assert worker.ask("POST", "/siddhi-apps", content=chunks()).status_code == 413


@pytest.mark.parametrize(
    "coding", ["gzip", "deflate", "br", "zstd", "gzip, gzip", "identity, gzip", "GZIP", "nonsense"]
)
def test_a_coded_body_is_415_whatever_it_really_is(worker: RestWorker, coding: str):
    plain = b"@App:name('Coded') define stream In (a int);"
    bomb = gzip.compress(b"\x00" * 50_000_000)
    for content in (plain, gzip.compress(plain), bomb, gzip.compress(bomb), b""):
        answer = worker.ask("POST", "/siddhi-apps", content=content, headers={"content-encoding": coding})
        assert (answer.status_code, answer.json()["code"]) == (415, 800101)
    lives(worker)


def test_a_body_that_is_coded_and_does_not_say_so_is_no_app(worker: RestWorker):
    content = gzip.compress(b"@App:name('Coded') define stream In (a int);")
    assert worker.ask("POST", "/siddhi-apps", content=content).status_code == 400


def test_two_lengths_and_a_length_with_chunks_are_refused(worker: RestWorker):
    for lengths in (
        b"Content-Length: 5\r\nContent-Length: 50\r\n",
        b"Content-Length: 5\r\nTransfer-Encoding: chunked, identity\r\n",
        b"Transfer-Encoding: gzip, chunked\r\n",
        b"Content-Length: -1\r\n",
        b"Content-Length: 5x\r\n",
    ):
        head = b"POST /login/portal HTTP/1.1\r\nHost: x\r\n" + lengths + b"\r\nhello"
        smuggled = b"GET /siddhi-apps HTTP/1.1\r\nHost: x\r\n\r\n"
        assert raw(worker.api, head + smuggled).split(b" ")[1] in (b"400", b"501")
    lives(worker)


# ---- slow clients


def test_a_client_that_sends_its_body_byte_by_byte_hears_408(worker: RestWorker, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(limits, "COMES_WITHIN", 0.2)
    for path in (b"/login/portal", b"/siddhi-apps"):
        head = b"POST " + path + b" HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n"
        credentials = b"Authorization: Basic YWRhOnJpZ2h0\r\n\r\n"
        answer = raw(worker.api, head + credentials + b"x")
        assert answer.split(b" ")[1] == b"408"
        assert b"connection: close" in answer.lower()
    lives(worker)


def test_slow_clients_hold_up_nobody(worker: RestWorker, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(limits, "COMES_WITHIN", 30.0)

    async def held() -> int:
        url = worker.api.base_url
        slow = [await asyncio.open_connection(url.host, url.port) for _ in range(200)]
        for i, (_, writer) in enumerate(slow):
            writer.write(
                b"POST /login/portal HTTP/1.1\r\nHost: x\r\n" + (b"Content-Length: 9\r\n\r\nx" if i % 2 else b"")
            )
            await writer.drain()
        async with httpx.AsyncClient(base_url=url, auth=ADA) as client:
            answer = await client.get("/siddhi-apps")
        for _, writer in slow:
            writer.close()
        return answer.status_code

    assert asyncio.run(held()) == 200


# ---- names


@pytest.mark.parametrize("name", [*PATHS, *SQL])
def test_a_name_that_is_a_path_or_sql_is_the_name_of_no_app(worker: RestWorker, name: str):
    for text in (f"@App:name('{name}') define stream In (a int);", f'@App:name("{name}") define stream In (a int);'):
        for method in ("POST", "PUT"):
            answer = worker.ask(method, "/siddhi-apps", content=text)
            assert answer.status_code == 400, (text, answer.text)
    there = {path.name for path in worker.home.rglob("*")}
    for client, method, path in worker.routes():
        if "{app}" in path and path.startswith("/siddhi-apps"):
            asked = path.replace("{app}", quoted(name))
            answer = client.request(method, asked, json={"query": "x", "statsEnable": True}, auth=ADA)
            assert answer.status_code in (400, 404, 405), (method, path, answer.text)
            assert "root:" not in answer.text
    assert {path.name for path in worker.home.rglob("*")} <= there
    lives(worker)


@pytest.mark.parametrize("name", [*PATHS, *SQL])
def test_a_query_names_no_path_and_no_sql(worker: RestWorker, name: str):
    body = {"appName": name, "query": f"from {name} select a"}
    assert worker.ask("POST", "/stores/query", json=body).status_code == 404
    for query in (
        f"from {name} select a",
        f"from T on a == '{name}' select a",
        f"delete T on T.a == '{name}'; drop table T",
    ):
        answer = worker.ask("POST", "/stores/query", json={"appName": "Orders", "query": query})
        assert answer.status_code == 500  # it does not run here; nothing is read or removed for it
        assert answer.json()["code"] == 1
    lives(worker)


@pytest.mark.parametrize("name", [*PATHS, *SQL])
def test_a_feed_or_a_file_names_no_path_and_no_sql(worker: RestWorker, name: str):
    source = {
        "simulationType": "CSV_SIMULATION",
        "siddhiAppName": name,
        "streamName": name,
        "fileName": name,
        "delimiter": ",",
    }
    config = {"properties": {"simulationName": name}, "sources": [source]}
    assert worker.ask("POST", "/simulation/feed", content=json.dumps(config)).status_code == 500
    encoded = quoted(name)
    for method, path in (("GET", "feed"), ("DELETE", "feed"), ("DELETE", "files")):
        assert worker.ask(method, f"/simulation/{path}/{encoded}").status_code in (400, 404, 405, 500), (method, path)
    upload: dict[str, Any] = {"files": {"file": (name, b"a\n", "text/csv")}}
    assert worker.ask("POST", "/simulation/files", **upload).status_code == 400
    assert worker.ask("GET", "/simulation/files").json() == []
    lives(worker)


@pytest.mark.parametrize("name", SQL)
def test_a_table_of_a_simulation_names_no_sql(worker: RestWorker, name: str):
    with sqlite3.connect(worker.home / "deployment/prices.db") as connection:
        connection.execute("create table if not exists prices (at integer)")
    connection.close()
    address = {"driver": "", "dataSourceLocation": "jdbc:sqlite:prices.db", "username": name, "password": name}
    path = f"/simulation/connectToDatabase/{quote(name, safe='')}/retrieveColumnNames"
    assert worker.ask("POST", path, content=json.dumps(address)).status_code == 400


@pytest.mark.parametrize("name", SQL)
def test_a_user_with_sql_in_the_name_is_nobody(worker: RestWorker, name: str):
    assert worker.ask("GET", "/siddhi-apps", auth=(name, "right")).status_code in (401, 429)
    assert worker.ask("GET", "/siddhi-apps", auth=("ada", name)).status_code in (401, 429)
    form = {"username": name, "password": name, "grantType": "password"}
    assert worker.api.post("/login/portal", data=form).status_code in (401, 429)
    lives(worker)


def test_a_link_in_the_folder_of_apps_is_no_app_and_is_not_written_through(worker: RestWorker):
    folder, secret = worker.home / "deployment/siddhi-files", worker.home / "secret.txt"
    secret.write_text("@App:name('Linked') define stream In (a int);")
    link = folder / "Linked.siddhi"
    link.symlink_to(secret)
    worker.worker._deployer.look()
    assert worker.ask("GET", "/siddhi-apps/Linked").status_code == 404
    assert (
        worker.ask("PUT", "/siddhi-apps", content="@App:name('Linked') define stream Other (a int);").status_code == 201
    )
    assert "Other" not in secret.read_text()
    assert not link.is_symlink()
    assert worker.ask("DELETE", "/siddhi-apps/Linked").status_code == 200
    assert secret.exists()


# ---- users


def test_nobody_does_in_the_name_of_another_what_only_the_other_may(worker: RestWorker):
    for who in (EVE, VIC):
        login = worker.api.post("/login/portal", data={"username": who[0], "password": who[1], "grantType": "password"})
        half = next(one for one in login.headers.get_list("set-cookie") if one.startswith("HID="))[4:].partition(";")[0]
        worker.api.cookies.clear()
        headers = {
            "authorization": f"Bearer {login.json()['PID']}{half}",
            "x-user": "ada",
            "username": "ada",
            "x-forwarded-user": "ada",
        }
        for method, path in (("POST", "/siddhi-apps"), ("DELETE", "/siddhi-apps/Orders"), ("POST", "/permissions")):
            asked = f"{path}?username=ada&user=ada"
            assert worker.ask(method, asked, auth=None, headers=headers, content=b"{}").status_code == 401
    lives(worker)


def test_a_page_of_another_site_changes_nothing_with_what_a_browser_keeps(worker: RestWorker):
    for headers in ({"origin": "https://evil.example"}, {"origin": "null"}, {"sec-fetch-site": "cross-site"}):
        for client, method, path in worker.routes():
            if method in ("POST", "PUT", "DELETE"):
                filled = re.sub(r"\{\w+\}", "Orders", path)
                answer = client.request(method, filled, auth=ADA, headers=headers, content=b"{}")
                assert answer.status_code == 403, (method, path)
    lives(worker)


# ---- what an app may reach (finding N2)

REACHING = {
    "the permissions of the home": "@sink(type='rdbms', url='sqlite:///{home}/security/permissions.db', table.name='ROLE_PERMISSIONS')",
    "the permissions of the home as a table": "@store(type='rdbms', jdbc.url='jdbc:sqlite:{home}/security/permissions.db', table.name='ROLE_PERMISSIONS') "
    "define table P (a string);",
    "the users of the home": "@sink(type='file', file.uri='{home}/security/users.json', @map(type='json'))",
    "the texts of other apps": "@sink(type='file', dir.uri='{home}/deployment/siddhi-files', @map(type='json'))",
    "the state of other apps": "@sink(type='file', file.uri='{home}/state/Other/cuts.log', @map(type='json'))",
    "the environment of the node": "@source(type='file', file.uri='/proc/self/environ', @map(type='text'))",
    "a folder that is not named": "@sink(type='file', file.uri='{home}/../out.json', @map(type='json'))",
}


@pytest.mark.parametrize("connector", REACHING.values(), ids=REACHING.keys())
def test_an_author_with_all_of_manage_reaches_nothing_of_the_node(worker: RestWorker, connector: str):
    text = f"@App:name('Reach') {connector.format(home=worker.home)} define stream S (a string); from S select a insert into T;"
    for method in ("POST", "PUT"):
        answer = worker.ask(method, "/siddhi-apps", auth=("ops", "right"), content=text)
        assert (answer.status_code, "PATH_NOT_ALLOWED" in answer.json()["message"]) == (400, True)
    inside = f"@App:name('Reach') @sink(type='file', file.uri='{worker.home}/files/out.json', @map(type='json')) define stream S (a string);"
    assert worker.ask("PUT", "/siddhi-apps", auth=("ops", "right"), content=inside).status_code in (200, 201)
    assert worker.ask("DELETE", "/siddhi-apps/Reach", "/siddhi-apps/{app}").status_code == 200
    waits(lambda: worker.ask("GET", "/siddhi-apps").json() == ["Orders"])
