"""Nodes ask each other over real servers: who is heard, who is refused, and what happens when nobody answers."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fastapi import APIRouter, Request
from servers import asking

from nadi.cluster.contract import NoAnswer
from nadi.cluster.messages import Done, Elsewhere, Heartbeat, Message, Poke
from nadi.io.certificate import OwnCertificate
from nadi.io.httpserver import HttpServer
from nadi.server.distributed.network import Credentials, HttpNetwork
from nadi.server.distributed.nodeentrance import NodeEntrance
from nadi.server.distributed.nodekeys import HEADER, NodeKey
from nadi.server.distributed.wire import MESSAGES, Answer, request_body
from nadi.server.rest import nodemessages
from nadi.server.rest.application import guarded, make_routes
from nadi.server.security.attempts import Attempts
from nadi.server.security.users import User

SECRET, WITHIN = "s" * 32, 5_000
POKE = Poke("http://m:1", 3)
BEAT = Heartbeat("w", "http://w:1", "0-a", 1, "NEW", False, (), (0, 0), 0)


class Users:
    """One user, who may do everything."""

    def remembered(self, name: str, password: str) -> User | None:
        return None

    def login(self, name: str, password: str) -> User | None:
        return User(name, (), True) if (name, password) == ("admin", "right") else None


class Asked:
    """A node that notes what it is asked."""

    def __init__(self, answer: Message | None = None) -> None:
        self.heard: list[Message] = []
        self._answer = answer

    async def __call__(self, message: Message) -> Message:
        self.heard.append(message)
        return self._answer or message


@contextmanager
def serving(
    asked: Asked, secret: str = SECRET, tls: ssl.SSLContext | None = None, more: Iterable[str] = ()
) -> Iterator[str]:
    answers = nodemessages.manager_answers(asked, 2000, 2)
    routes = make_routes("node", [nodemessages.manager_routes(answers), of_apps()])
    key = NodeKey(secret) if secret else None
    application = NodeEntrance(guarded(routes, Users(), Attempts(), ()), answers, key, routes, more)
    server = HttpServer(application, "127.0.0.1", 0, tls)
    server.start()
    try:
        yield f"http{'' if tls is None else 's'}://127.0.0.1:{server.port}"
    finally:
        server.stop()


def of_apps() -> APIRouter:
    """What a worker is asked for besides."""
    found = APIRouter()

    @found.post("/siddhi-apps/{app}/backup", status_code=201)
    async def backup(app: str, request: Request, name: str = "") -> dict[str, str]:
        return {"app": app, "name": name, "body": (await request.body()).decode()}

    return found


def request(network: HttpNetwork, address: str, method: str, path: str, body: bytes = b"") -> Answer:
    async def life() -> Answer:
        try:
            return await network.request(address, method, path, body, WITHIN)
        finally:
            await network.close()

    return asyncio.run(life())


def ask(network: HttpNetwork, address: str, message: Message, within: int = WITHIN) -> Message:
    async def life() -> Message:
        try:
            return await network.ask(address, message, within)
        finally:
            await network.close()

    return asyncio.run(life())


def signing(secret: str = SECRET, trusted: ssl.SSLContext | None = None) -> HttpNetwork:
    return HttpNetwork(NodeKey(secret), {}, None, trusted)


def test_a_node_with_the_secret_is_heard():
    asked = Asked()
    with serving(asked) as address:
        assert ask(signing(), address, POKE) == POKE
    assert asked.heard == [POKE]


def test_answers_with_other_statuses_come_back_as_they_were_meant():
    with serving(Asked(Elsewhere("http://m2:1"))) as address:
        assert ask(signing(), address, BEAT) == Elsewhere("http://m2:1")


@pytest.mark.parametrize(
    "network", [signing("t" * 32), HttpNetwork(None, {}, None), HttpNetwork(None, {}, Credentials("admin", "wrong"))]
)
def test_a_stranger_is_not_heard(network: HttpNetwork):
    asked = Asked()
    with serving(asked) as address, pytest.raises(NoAnswer):
        ask(network, address, POKE)
    assert asked.heard == []


def test_a_node_without_a_secret_comes_with_the_name_and_password_for_the_address():
    asked = Asked(Done("created"))
    with serving(asked, secret="") as address:
        network = HttpNetwork(None, {address: Credentials("admin", "right")}, Credentials("admin", "wrong"))
        assert ask(network, address, POKE) == Done("created")


def test_a_request_that_was_recorded_is_refused_when_it_comes_again():
    asked, body = Asked(), request_body(POKE)
    headers = {HEADER: NodeKey(SECRET).sign("POST", MESSAGES, body)}
    with serving(asked) as address:
        codes = [asking.post(f"{address}{MESSAGES}", content=body, headers=headers).status_code for _ in range(2)]
    assert codes == [200, 401]
    assert asked.heard == [POKE]


def test_a_body_that_was_changed_on_the_way_is_refused():
    asked = Asked()
    headers = {HEADER: NodeKey(SECRET).sign("POST", MESSAGES, request_body(POKE))}
    with serving(asked) as address:
        answer = asking.post(f"{address}{MESSAGES}", content=request_body(Poke("http://evil:1", 9)), headers=headers)
    assert answer.status_code == 401
    assert asked.heard == []


def test_a_signature_opens_nothing_but_the_paths_of_nodes():
    with serving(Asked()) as address:
        headers = {HEADER: NodeKey(SECRET).sign("GET", "/resourceManager/deployment", b"")}
        assert asking.get(f"{address}/resourceManager/deployment", headers=headers).status_code == 400


BACKUP = "/siddhi-apps/*/backup"


def test_a_path_that_is_open_for_nodes_is_answered_with_status_and_body():
    with serving(Asked(), more=[BACKUP]) as address:
        answer = request(signing(), address, "POST", "/siddhi-apps/A%20b-1/backup?name=r%26d", b"{}")
    assert answer.status == 201
    assert json.loads(answer.body or b"") == {"app": "A b-1", "name": "r&d", "body": "{}"}


def test_a_path_that_is_not_open_for_nodes_is_left_to_the_guard():
    with serving(Asked()) as address:
        assert request(signing(), address, "POST", "/siddhi-apps/A/backup").status == 400
    with serving(Asked(), more=[BACKUP]) as address:
        assert request(signing(), address, "POST", "/siddhi-apps/A/b/backup").status == 400
        assert request(signing(), address, "POST", "/siddhi-apps/A/backup/more").status == 400


def test_a_stranger_is_refused_at_a_path_that_is_open_for_nodes():
    with serving(Asked(), more=[BACKUP]) as address:
        assert request(signing("t" * 32), address, "POST", "/siddhi-apps/A/backup").status == 401


def test_the_query_of_a_path_is_signed_too():
    path = "/siddhi-apps/A/backup"
    with serving(Asked(), more=[BACKUP]) as address:
        headers = {HEADER: NodeKey(SECRET).sign("POST", f"{path}?name=a", b"")}
        assert asking.post(f"{address}{path}?name=b", headers=headers).status_code == 401
        headers = {HEADER: NodeKey(SECRET).sign("POST", path, b"")}
        assert asking.post(f"{address}{path}?name=b", headers=headers).status_code == 401


def test_without_a_secret_a_path_is_asked_for_with_name_and_password():
    with serving(Asked(), secret="", more=[BACKUP]) as address:
        right, wrong = (HttpNetwork(None, {}, Credentials("admin", word)) for word in ("right", "wrong"))
        assert request(right, address, "POST", "/siddhi-apps/A/backup").status == 201
        assert request(wrong, address, "POST", "/siddhi-apps/A/backup").status == 401


def test_nobody_who_answers_in_time_is_no_answer():
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(NoAnswer):
        ask(signing(), f"http://127.0.0.1:{silent.getsockname()[1]}", POKE, within=100)


def test_a_server_that_is_not_there_is_no_answer():
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    with pytest.raises(NoAnswer):
        ask(signing(), f"http://127.0.0.1:{port}", POKE)


def test_what_is_no_address_is_no_answer():
    with pytest.raises(NoAnswer):
        ask(signing(), "no address", POKE)


def test_over_https_a_node_hears_only_whom_it_trusts(tmp_path: Path):
    own = OwnCertificate(tmp_path, "manager-1").tls()
    trusted = ssl.create_default_context(cafile=str(own.certificate))
    with serving(Asked(), tls=own.context()) as address:
        local = address.replace("127.0.0.1", "localhost")
        assert ask(signing(trusted=trusted), local, POKE) == POKE
        with pytest.raises(NoAnswer):
            ask(signing(), local, POKE)
