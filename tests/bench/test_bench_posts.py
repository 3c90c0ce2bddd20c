"""The suite of an http source: what its clients send and note, what must come out, and what the table says; without Spark."""

from __future__ import annotations

import asyncio
import doctest
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench import posts, posts_load
from bench.checks import WrongOutputError
from bench.children import Child
from bench.posts import check_rows, numbers_in, taken_file, taken_numbers
from bench.posts_load import Plan, load
from bench.report import tables
from nadi.io.listeners import Limits
from nadi.io.postanswer import Answer, Header
from nadi.io.postconnection import Exchange
from nadi.io.postserver import PostServer


class Everything:
    """Takes all messages, or answers as it is told."""

    def __init__(self, server: PostServer) -> None:
        self._server = server
        self.answers = [Answer(202)]
        self.bodies: list[Any] = []

    def refusal(self, headers: Sequence[Header]) -> Answer | None:
        return None

    def take(self, exchange: Exchange, headers: Sequence[Header]) -> None:
        self.bodies.append(json.loads(exchange.body))
        self._server.answer([(exchange, self.answers[len(self.bodies) % len(self.answers)])])


@pytest.fixture
def source() -> Iterator[tuple[str, Everything]]:
    server = PostServer("127.0.0.1", 0, Limits(), 1_000_000)
    endpoint = Everything(server)
    server.endpoints["/in"] = endpoint
    server.start()
    yield f"http://127.0.0.1:{server.port}/in", endpoint
    server.stop()


def ids(body: Any) -> list[int]:
    return [one["event"]["id"] for one in (body if isinstance(body, list) else [body])]


@pytest.mark.parametrize(("events", "rate"), [(1, 0.0), (3, 0.0), (3, 200.0)])
def test_clients_note_exactly_the_numbers_of_what_was_acknowledged(
    source: tuple[str, Everything], tmp_path: Path, events: int, rate: float
) -> None:
    url, endpoint = source
    endpoint.answers = [Answer(202), Answer(202), Answer(503, "no")]
    file = tmp_path / "taken"
    told = asyncio.run(load(Plan("x", url, 1_000, str(file), 4, events, 0.2, rate)))
    sent = [number for body in endpoint.bodies for number in ids(body)]
    good = [n for i, body in enumerate(endpoint.bodies, 1) if i % 3 != 2 for n in ids(body)]
    assert sorted(sent) == list(range(1_000, 1_000 + len(sent)))
    assert sorted(taken_numbers(file)) == sorted(good)
    assert told["others"]["503"] == (len(endpoint.bodies) + 1) // 3
    if rate:
        assert len(endpoint.bodies) <= 0.2 * rate + 1


def test_idle_connections_are_counted_and_answered(source: tuple[str, Everything], tmp_path: Path) -> None:
    url, endpoint = source
    plan = tmp_path / "plan.json"
    file = taken_file(tmp_path, "idle")
    given = {
        "kind": "idle",
        "url": url,
        "first": 5,
        "taken": str(file),
        "clients": 30,
        "used": 10,
        "events": 1,
        "wait": 0,
    }
    plan.write_text(json.dumps(given))
    child = Child("bench.posts_load", plan, tmp_path / "log", {})
    try:
        assert child.until("open", 30, print)["connections"] == 30
        child.say("wait")
        child.until("waited", 30, print)
        child.say("use")
        told = child.until("done", 30, print)
    finally:
        child.end()
    assert (told["alive"], told["requests"]) == (30, 10)
    assert sorted(taken_numbers(file)) == list(range(5, 15))
    assert len(endpoint.bodies) == 10


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([2], "1 did not come out"),
        ([2, 4, 4], "1 came out more than once"),
        ([2, 4, 6, 6], "1 came out more than once"),  # also of one that was not acknowledged
        ([2, 4, 3], "1 must not have passed"),
    ],
)
def test_a_row_that_is_lost_double_or_wrong_is_found(tmp_path: Path, rows: list[int], said: str) -> None:
    output = tmp_path / "out"
    output.write_text("".join(f'{{"event":{{"id":{n},"price":75.5}}}}\n' for n in rows))
    with pytest.raises(WrongOutputError, match=said):
        check_rows(np.array([1, 2, 3, 4]), numbers_in(output))


def test_a_row_of_an_event_that_was_not_acknowledged_may_be_there_once() -> None:
    check_rows(np.array([1, 2, 3, 4]), np.array([6, 4, 2]))


def test_the_table_has_goal_and_figure_side_by_side() -> None:
    load = {"requests_per_s": 3_000.0, "events_per_s": 29_990.0, "ms": {"p50": 1.0, "p99": 9.0}, "others": {"503": 2}}
    rest = {"/siddhi-apps": {"p50": 9.0, "p99": 250.0}, "/health/ready": {"p50": 1.0, "p99": 2.0}}
    told = {
        "warm": load,
        "singles": {**load, "cores": {"worker": 0.5}},
        "bodies": {**load, "cores": {"worker": 0.7}, "rest": rest},
        "idle": {**load, "alive": 9_999, "bytes_each": 3_210.0, "cores": 0.01},
        "rows": 77,
    }
    made = tables({"suite": "http", "apps": {"http": told}})
    lines = "\n".join("|".join(row) for _caption, _header, rows in made for row in rows)
    assert "single events acknowledged, requests/s|≥ 2,000|3,000|yes" in lines
    assert "in bodies of 100, events/s|≥ 30,000|29,990|yes" in lines
    assert "REST meanwhile: p99, ms|≤ 200|250|missed" in lines
    assert "idle connections that stay|≥ 10,000|9,999|missed" in lines
    assert "answers other than 202|8" in lines


@pytest.mark.parametrize("module", [posts, posts_load])
def test_what_modules_say_in_examples_holds(module: Any) -> None:
    assert doctest.testmod(module).failed == 0
