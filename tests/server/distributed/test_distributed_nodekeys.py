"""Nodes know each other by a secret."""

from __future__ import annotations

from itertools import pairwise

import pytest

from nadi.server.distributed import nodekeys
from nadi.server.distributed.nodekeys import VALID, NodeKey, check_of

SECRET = "s" * 32


def accepts(key: NodeKey, header: str, method: str, path: str, body: bytes) -> bool:
    return key.accepted(header, method, path) == check_of(body)


class Clock:
    now = 1_000_000

    def __call__(self) -> int:
        return self.now


def test_a_request_of_a_node_is_accepted():
    assert accepts(NodeKey(SECRET), NodeKey(SECRET).sign("POST", "/p", b"x"), "POST", "/p", b"x")


def test_a_request_is_accepted_once():
    key, header = NodeKey(SECRET), NodeKey(SECRET).sign("POST", "/p", b"x")
    assert accepts(key, header, "POST", "/p", b"x")
    assert not accepts(key, header, "POST", "/p", b"x")


@pytest.mark.parametrize(("method", "path", "body"), [("PUT", "/p", b"x"), ("POST", "/q", b"x"), ("POST", "/p", b"y")])
def test_a_signature_is_for_one_request(method: str, path: str, body: bytes):
    assert not accepts(NodeKey(SECRET), NodeKey(SECRET).sign("POST", "/p", b"x"), method, path, body)


def test_nodes_get_another_secret_one_by_one_and_each_accepts_the_others_all_the_while():
    old, new = "o" * 32, "n" * 32
    steps = [(old, ()), (old, (new,)), (new, (old,)), (new, ())]
    for before, after in pairwise(steps):  # one node has taken the next step, the other one has not
        keys = [NodeKey(secret, accepted=accepted) for secret, accepted in (before, after)]
        for one in keys:
            for other in keys:
                assert accepts(other, one.sign("POST", "/p", b"x"), "POST", "/p", b"x")
    assert not accepts(NodeKey(new), NodeKey(old).sign("POST", "/p", b"x"), "POST", "/p", b"x")


def test_a_request_that_one_of_several_secrets_has_signed_is_accepted_once():
    key, header = NodeKey(SECRET, accepted=("o" * 32,)), NodeKey("o" * 32).sign("POST", "/p", b"x")
    assert accepts(key, header, "POST", "/p", b"x")
    assert not accepts(key, header, "POST", "/p", b"x")


def test_a_stranger_is_refused():
    assert not accepts(NodeKey(SECRET), NodeKey("t" * 32).sign("POST", "/p", b"x"), "POST", "/p", b"x")


@pytest.mark.parametrize(
    "header", ["", "a", "1.2.3", "1.2.3.4", "٣.a.b.c", "1.x.c.é", "9" * 400 + ".a.b.c", "1.2.3.4.5"]
)
def test_what_is_no_signature_is_refused(header: str):
    assert not accepts(NodeKey(SECRET), header, "POST", "/p", b"x")


@pytest.mark.parametrize("later", [VALID + 1, -VALID - 1])
def test_an_old_signature_is_refused_and_one_from_the_future(later: int):
    clock = Clock()
    key, header = NodeKey(SECRET, clock), NodeKey(SECRET, clock).sign("POST", "/p", b"x")
    clock.now += later
    assert not accepts(key, header, "POST", "/p", b"x")


def test_a_recorded_request_is_refused_for_as_long_as_its_time_is_right():
    clock = Clock()
    key, header = NodeKey(SECRET, clock), NodeKey(SECRET, clock).sign("POST", "/p", b"x")
    assert accepts(key, header, "POST", "/p", b"x")
    for _ in range(4):
        clock.now += VALID // 4
        assert not accepts(key, header, "POST", "/p", b"x")


def test_numbers_are_remembered_for_as_long_as_their_time_is_right_and_no_longer(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(nodekeys, "MOST", VALID // 1_000 + 2)
    clock = Clock()
    key = NodeKey(SECRET, clock)
    for _ in range(3 * VALID // 1_000):
        clock.now += 1_000
        assert accepts(key, key.sign("POST", "/p", b"x"), "POST", "/p", b"x")


def test_a_number_of_a_clock_that_is_ahead_is_remembered_longer():
    clock, ahead = Clock(), Clock()
    ahead.now = clock.now + VALID
    key, header = NodeKey(SECRET, clock), NodeKey(SECRET, ahead).sign("POST", "/p", b"x")
    assert accepts(key, header, "POST", "/p", b"x")
    for _ in range(8):
        clock.now += VALID // 4
        assert not accepts(key, header, "POST", "/p", b"x")
