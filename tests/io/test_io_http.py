from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from email.utils import parsedate_to_datetime
from pathlib import Path

import httpx
import pytest
from log_contract import contents, payloads
from sample import connector
from servers import asking

from nadi.errors import NadiError
from nadi.io import refused
from nadi.io.contract import Place
from nadi.io.natsserver import NatsServer
from nadi.io.registry import open_log
from nadi.io.sources.http import HttpIngress

GOOD = b'{"event":{"name":"a","size":1}}'


@pytest.fixture
def place(nats: NatsServer, tmp_path: Path) -> Place:
    return Place(tmp_path.name.replace("_", ""), tmp_path, nats.url)


@pytest.fixture
def ingress(place: Place) -> Iterator[HttpIngress]:
    made = HttpIngress(connector("http", {"receiver.url": "http://127.0.0.1:0/orders"}), place)
    made.start()
    yield made
    made.stop()


def test_a_message_that_was_accepted_is_in_the_log(ingress: HttpIngress, place: Place) -> None:
    answer = asking.post(ingress.url, content=GOOD)
    assert (answer.status_code, answer.content) == (202, b"")
    assert abs(parsedate_to_datetime(answer.headers["date"]).timestamp() - time.time()) < 60
    assert payloads(open_log(connector("http", {}), place)) == [GOOD]


def test_a_message_that_no_event_can_be_made_of_is_refused_with_the_reason_and_not_kept(
    ingress: HttpIngress, place: Place
) -> None:
    answer = asking.post(ingress.url, content=b'{"event":{"name":"a","size":"many"}}')
    assert answer.status_code == 400
    assert "size" in answer.json()["error"]
    assert asking.post(ingress.url, content=b"{").status_code == 400
    assert payloads(open_log(connector("http", {}), place)) == []


def test_messages_that_are_refused_are_counted_and_whoever_shows_it_is_rung_once_until_they_look(
    ingress: HttpIngress, place: Place
) -> None:
    rung: list[int] = []
    refused.watch(place.state, lambda: rung.append(1))
    assert asking.post(ingress.url, content=GOOD).status_code == 202
    assert (refused.count(place.state), rung) == (0, [])
    for _ in range(2):
        asking.post(ingress.url, content=b"{")
    assert (len(rung), refused.count(place.state)) == (1, 2)
    asking.post(ingress.url, content=b"{")
    assert (len(rung), refused.count(place.state)) == (2, 3)
    refused.forget(place.state)


@pytest.mark.parametrize(
    "bomb",
    [
        b"[" * 1_000_000,
        b'{"event":' * 100_000,
        b'{"event":{"name":' + b"[" * 1_000_000,
        b'{"event":{"name":"a","x":' + b"[" * 1_000_000,
    ],
    ids=["brackets", "frames", "in an attribute", "in what nobody reads"],
)
def test_a_million_brackets_are_refused_like_any_message_that_is_none(
    ingress: HttpIngress, place: Place, bomb: bytes
) -> None:
    answer = asking.post(ingress.url, content=bomb)
    assert answer.status_code == 400
    assert len(answer.content) < 1_000
    assert asking.post(ingress.url, content=GOOD).status_code == 202
    assert payloads(open_log(connector("http", {}), place)) == [GOOD]


def test_wrong_paths_and_methods_are_refused(ingress: HttpIngress) -> None:
    assert asking.post(ingress.url + "/more", content=GOOD).status_code == 404
    answer = asking.get(ingress.url)
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


def test_a_body_that_is_too_large_is_refused_with_or_without_its_length(ingress: HttpIngress) -> None:
    large = b" " * (7 * 1024 * 1024 + 1)
    assert asking.post(ingress.url, content=large).status_code == 413

    def pieces() -> Iterator[bytes]:
        for _ in range(8):
            yield b" " * 1024 * 1024

    assert asking.post(ingress.url, content=pieces()).status_code == 413


def test_headers_that_the_mapping_reads_travel_with_the_message(place: Place) -> None:
    attributes = {"name": "trp:X-Name", "size": "$.size"}
    source = connector("http", {"receiver.url": "http://127.0.0.1:0/"}, attributes=attributes)
    ingress = HttpIngress(source, place)
    ingress.start()
    try:
        assert asking.post(ingress.url, content=b'{"size":3}', headers={"x-name": "A"}).status_code == 202
    finally:
        ingress.stop()
    log = open_log(source, place)
    (piece,) = log.read(0, log.beginning(0), log.end(0))
    assert list(piece.properties) == [{"X-Name": "A"}]


def test_requests_of_many_clients_are_each_kept_once_in_the_order_of_each_client(
    ingress: HttpIngress, place: Place
) -> None:
    def send(client: int) -> None:
        with asking.client() as session:
            for n in range(40):
                body = json.dumps({"event": {"name": f"{client}", "size": n}})
                assert session.post(ingress.url, content=body).status_code == 202

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(send, range(8)))
    stored = [
        json.loads(p)["event"] for _, _, p in contents(open_log(connector("http", {}), place)) if isinstance(p, bytes)
    ]
    for client in range(8):
        assert [e["size"] for e in stored if e["name"] == str(client)] == list(range(40))


def test_sources_with_one_port_share_a_server_and_a_path_is_never_unknown_while_another_one_answers(
    place: Place,
) -> None:
    first = HttpIngress(connector("http", {"receiver.url": "http://127.0.0.1:0/one"}), place)
    second = HttpIngress(connector("http", {"receiver.url": "http://127.0.0.1:0/two"}, ordinal=1), place)
    first.start()
    try:
        assert asking.post(second.url, content=GOOD).status_code == 202  # it is known before its own start
        second.start()
        assert second.url.rpartition("/")[0] == first.url.rpartition("/")[0]
        with pytest.raises(NadiError, match="another source has the path"):
            HttpIngress(connector("http", {"receiver.url": "http://127.0.0.1:0/two"}, ordinal=2), place).start()
        assert asking.post(second.url, content=GOOD).status_code == 202
        second_url = second.url
        second.stop()
        assert asking.post(second_url, content=GOOD).status_code == 503  # a client comes back; 404 would be final
        assert asking.post(first.url, content=GOOD).status_code == 202
    finally:
        first.stop()
    with pytest.raises(httpx.ConnectError):
        asking.post(second_url, content=GOOD)


def test_a_port_in_use_is_a_clear_error(ingress: HttpIngress, place: Place) -> None:
    port = ingress.url.split(":")[2].split("/")[0]
    with pytest.raises(NadiError, match=f"127.0.0.1:{port}") as failure:
        HttpIngress(connector("http", {"receiver.url": f"http://127.0.0.1:{port}/x"}), place).start()
    assert failure.value.condition == "SERVER_NOT_STARTED"


def test_stopping_finishes_what_runs(place: Place) -> None:
    ingress = HttpIngress(connector("http", {"receiver.url": "http://127.0.0.1:0/"}), place)
    ingress.start()
    arrived, go = threading.Event(), threading.Event()

    def slow() -> Iterator[bytes]:
        yield GOOD[:5]
        arrived.set()
        go.wait(60)
        yield GOOD[5:]

    with ThreadPoolExecutor(2) as pool:
        answer = pool.submit(httpx.post, ingress.url, content=slow())
        assert arrived.wait(60)
        stopped = pool.submit(ingress.stop)
        go.set()
        assert answer.result(60).status_code in (202, 503)
        stopped.result(60)
    kept = payloads(open_log(connector("http", {}), place))
    assert kept == ([GOOD] if answer.result().status_code == 202 else [])


def listens(where: httpx.URL) -> bool:
    try:
        socket.create_connection((where.host, where.port or 0)).close()
    except ConnectionError:
        return False
    return True


def test_who_has_just_connected_when_the_source_stops_hears_503_and_is_not_cut_off(ingress: HttpIngress) -> None:
    where = httpx.URL(ingress.url)
    with socket.create_connection((where.host, where.port or 0)) as client, ThreadPoolExecutor(1) as pool:
        assert asking.post(ingress.url, content=GOOD).status_code == 202  # by now the one before has been taken, too
        stopped = pool.submit(ingress.stop)
        while listens(where):
            time.sleep(0.01)
        head = f"POST {where.path} HTTP/1.1\r\nhost: here\r\ncontent-length: {len(GOOD)}\r\n\r\n"
        client.sendall(head.encode() + GOOD)
        assert client.recv(1000).startswith(b"HTTP/1.1 503 ")
        stopped.result(60)


def test_an_unavailable_journal_answers_503_and_recovers(own_nats: NatsServer, tmp_path: Path) -> None:
    place = Place("App", tmp_path, own_nats.url)
    ingress = HttpIngress(connector("http", {"receiver.url": "http://127.0.0.1:0/"}), place)
    ingress._endpoint._journal._within = 0.3
    ingress.start()
    try:
        own_nats.stop()
        answer = asking.post(ingress.url, content=GOOD)
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        with own_nats:
            ingress._endpoint._journal._within = 10
            assert asking.post(ingress.url, content=GOOD).status_code == 202
            assert payloads(open_log(connector("http", {}), place)) == [GOOD]
    finally:
        ingress.stop()


def test_basic_credentials_are_asked_for_when_enabled(place: Place) -> None:
    options = {
        "receiver.url": "http://127.0.0.1:0/",
        "basic.auth.enabled": "true",
        "basic.auth.username": "ada",
        "basic.auth.password": "x:y",
    }
    ingress = HttpIngress(connector("http", options), place)
    ingress.start()
    try:
        assert asking.post(ingress.url, content=GOOD).status_code == 401
        assert asking.post(ingress.url, content=GOOD, auth=("ada", "wrong")).status_code == 401
        assert asking.post(ingress.url, content=GOOD, auth=("ada", "x:y")).status_code == 202
    finally:
        ingress.stop()


def test_credentials_that_are_asked_for_and_not_named_are_refused(place: Place) -> None:
    """`:` as a user without a password would be let in."""
    options = {"receiver.url": "http://127.0.0.1:0/", "basic.auth.enabled": "true", "basic.auth.username": "ada"}
    with pytest.raises(NadiError, match=r"basic\.auth\.password") as failure:
        HttpIngress(connector("http", options), place)
    assert failure.value.condition == "OPTION_MISSING"


@pytest.mark.parametrize("idle", ["0", "-1"])
def test_a_time_of_silence_that_is_none_is_refused(idle: str, place: Place) -> None:
    options = {"receiver.url": "http://127.0.0.1:0/", "socket.idle.timeout": idle}
    with pytest.raises(NadiError, match=r"socket\.idle\.timeout"):
        HttpIngress(connector("http", options), place)


@pytest.mark.parametrize("url", ["ftp://h/x", "http://h:many/x", "nonsense"])
def test_an_address_that_cannot_be_listened_on_is_refused(url: str, place: Place) -> None:
    with pytest.raises(NadiError) as failure:
        HttpIngress(connector("http", {"receiver.url": url}), place)
    assert failure.value.condition == "OPTION_INVALID"
