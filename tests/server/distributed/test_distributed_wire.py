"""Messages of the cluster as JSON."""

from __future__ import annotations

import json

import pytest

from nadi.cluster.messages import (
    Deploy,
    Done,
    Elsewhere,
    Farewell,
    Granted,
    Heartbeat,
    Metrics,
    Nobody,
    Order,
    Owner,
    Owners,
    PartText,
    Poke,
    Rejected,
    Running,
    Stranger,
    Where,
)
from nadi.server.distributed.wire import Malformed, answer_to, answered, heartbeat_of, message_of, request_body

BEAT = Heartbeat(
    "w1",
    "https://10.0.0.5:9443",
    "00-a",
    3,
    "NEW",
    True,
    (Running("A-g-1", 2, "running"),),
    (1, 4),
    1,
    "00-m",
    Metrics(0.5, None, 0.25),
)
GRANTED = Granted(
    "https://m:9543", ("https://m:9543",), "NEW", 1, "00-m", 4, 2000, 8000, 3000, (Order("A-g-1", 2, "x", "t"),)
)


def test_a_heartbeat_has_the_body_of_the_contract():
    body = json.loads(request_body(BEAT))
    assert body["id"] == "w1"
    assert body["httpsInterface"] == {"host": "10.0.0.5", "port": 9443}
    assert (body["state"], body["isReceiverNode"]) == ("NEW", True)
    assert body["workerMetrics"] == {"systemCPU": 0.5, "memoryUsage": 0.25}


def test_a_heartbeat_comes_as_it_was_sent():
    assert heartbeat_of(request_body(BEAT)) == BEAT


def test_keys_that_nobody_knows_are_ignored():
    body = json.loads(request_body(BEAT))
    body["later"] = 1
    body["nadi"]["later"] = 1
    assert heartbeat_of(json.dumps(body).encode()) == BEAT


def test_a_heartbeat_without_our_key_is_that_of_a_stranger():
    body = {"id": "w1", "httpsInterface": {"host": "10.0.0.5", "port": 9443, "username": "admin", "password": "admin"}}
    more = {"state": "NEW", "isReceiverNode": False, "workerMetrics": {"systemCPU": 0.5}}
    for given in (body, body | more, body | more | {"nadi": None}):
        assert heartbeat_of(json.dumps(given).encode()) == Stranger("w1", "https://10.0.0.5:9443")


@pytest.mark.parametrize(
    "body",
    [
        {"id": "w1"},
        {"id": 5, "httpsInterface": {"host": "h", "port": 1}},
        {"id": "w1", "httpsInterface": {"host": "h"}},
    ],
)
def test_a_heartbeat_with_neither_our_key_nor_those_of_the_contract_is_none(body: dict[str, object]):
    with pytest.raises(Malformed, match="contract"):
        heartbeat_of(json.dumps(body).encode())


def test_who_is_refused_for_a_reason_hears_it_as_the_contract_has_refusals():
    found = json.loads(answer_to(Rejected("", "it is another system"), 2000, 2).body or b"")
    assert (found["joinedState"], found["reason"]) == ("REJECTED", "it is another system")


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (GRANTED, 200),
        (Farewell(("A: no worker is there",)), 200),
        (Rejected("https://w:9443"), 200),
        (Elsewhere("https://m2:9543"), 301),
        (Nobody(), 204),
    ],
    ids=lambda found: type(found).__name__ if not isinstance(found, int) else str(found),
)
def test_answers_to_heartbeats_have_the_statuses_of_the_contract(answer, status: int):
    found = answer_to(answer, 2000, 2)
    assert found.status == status
    assert answered(BEAT, found.status, found.body or b"") == answer


def test_a_worker_hears_of_its_leader_as_the_contract_says_it():
    body = json.loads(answer_to(GRANTED, 2000, 2).body or b"")
    assert body["leader"] == {
        "httpsInterface": {"host": "m", "port": 9543},
        "heartbeatInterval": 2000,
        "heartbeatMaxRetry": 2,
    }
    assert body["joinedState"] == "NEW"
    assert body["connectedManagers"] == [{"httpsInterface": {"host": "m", "port": 9543}}]


@pytest.mark.parametrize(
    "message",
    [
        Poke("https://m:1", 3),
        Deploy("A", "text", (PartText("A-g-1", "A-g", "t"),)),
        Where(),
        Owners({"/A/in": (Owner("A-g-1", 2, "http://w:1/in"),)}),
    ],
)
def test_other_messages_come_as_they_were_sent(message):
    assert message_of(request_body(message)) == message
    assert answered(message, 200, answer_to(Done("created"), 0, 0).body or b"") == Done("created")


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"kind": "Heartbeat"}', b'{"kind": "Poke", "content": {}}'])
def test_what_is_no_message_is_refused(body: bytes):
    with pytest.raises(Malformed):
        message_of(body)
    with pytest.raises(Malformed):
        heartbeat_of(body)


def test_a_status_that_is_no_answer_is_none():
    for status in (400, 401, 500):
        with pytest.raises(Malformed):
            answered(BEAT, status, b"")
