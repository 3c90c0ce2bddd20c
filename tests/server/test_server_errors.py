"""`/siddhi-apps/{app}/errors`: the error stores of a worker's apps over REST."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from restworker import EVE, OPS, VIC, RestWorker, rest_worker
from server_build import served

from nadi.errors import error
from nadi.io.errorfile import FileErrorStore
from nadi.io.errorstore import Wanted, stage
from nadi.pipeline.repeats import Sent
from nadi.server import apperrors
from nadi.server.apps import AppNotThere
from nadi.server.rest import errors
from nadi.server.rest.application import make_routes
from nadi.server.rest.errors import SHOWN

LIST, ROW, REPLAY = "/siddhi-apps/{app}/errors", "/siddhi-apps/{app}/errors/{id}", "/siddhi-apps/{app}/errors/replay"
KINDS = {"source": "source http of In", "sink": "sink http of Out"}


def kept(kind: str, stream: str, time: int, payload: str = "{}", **more: Any) -> dict[str, Any]:
    """A row as a cut stages it."""
    place = {"partition": 0, "position": time} if kind == "source" else {"partition": None, "position": None}
    given = {"time": time, "app": "Orders", "kind": kind, "origin": KINDS[kind], "stream": stream, **place}
    return {**given, "reason": "it is wrong", "payload": payload, "cut": 1, "again": {"ordinal": 0}, **more}


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestWorker]:
    with rest_worker(tmp_path_factory.mktemp("errors")) as made:
        made.deploy("Orders")
        made.deploy("Fresh")
        yield made


@pytest.fixture(autouse=True)
def rows(worker: RestWorker) -> Iterator[None]:
    """Three rows of Orders, of the first cut."""
    folder = worker.home / "state" / "Orders"
    folder.mkdir(parents=True, exist_ok=True)
    staged = [kept("source", "In", 1_000), kept("source", "In", 2_000, "x" * (SHOWN + 1)), kept("sink", "Out", 3_000)]
    stage(folder, 1, 0, staged)
    FileErrorStore(folder).commit(1, [0])
    yield
    for path in folder.rglob("*"):
        if path.is_file():
            path.unlink()


def ids(worker: RestWorker, query: str = "") -> list[str]:
    answer = worker.ask("GET", f"/siddhi-apps/Orders/errors{query}", LIST)
    assert answer.status_code == 200, answer.text
    return [row["id"] for row in answer.json()]


def test_rows_are_listed_oldest_first_with_the_beginning_of_each_payload(worker: RestWorker):
    first, long, sink = worker.ask("GET", "/siddhi-apps/Orders/errors", LIST).json()
    assert first == {
        "id": "1-0-0", "time": 1_000, "kind": "source", "origin": "source http of In", "stream": "In", "partition": 0, "position": 1_000,
        "reason": "it is wrong", "payload": "{}", "cut": 1, "replayed": None, "whole": True,
    }  # fmt: skip
    assert (long["payload"], long["whole"]) == ("x" * SHOWN, False)
    assert (sink["kind"], sink["position"]) == ("sink", None)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("?limit=2", ["1-0-1", "1-0-2"]),
        ("?origin=sink", ["1-0-2"]),
        ("?stream=In", ["1-0-0", "1-0-1"]),
        ("?since=2000", ["1-0-1", "1-0-2"]),
        ("?since=1970-01-01T00:00:02Z&until=1970-01-01T00:00:03Z", ["1-0-1"]),
        ("?stream=No", []),
    ],
)
def test_filters_are_those_of_the_command(worker: RestWorker, query: str, found: list[str]):
    assert ids(worker, query) == found


@pytest.mark.parametrize("query", ["?limit=0", "?limit=1001", "?limit=x", "?origin=moon", "?since=soon", "?until=soon"])
def test_a_filter_that_cannot_be_is_400(worker: RestWorker, query: str):
    answer = worker.ask("GET", f"/siddhi-apps/Orders/errors{query}", LIST)
    assert (answer.status_code, answer.json()["code"]) == (400, 800101)


def test_one_row_has_its_whole_payload(worker: RestWorker):
    row = worker.ask("GET", "/siddhi-apps/Orders/errors/1-0-1", ROW).json()
    assert (row["id"], row["payload"], row["again"], row["replayed"]) == (
        "1-0-1",
        "x" * (SHOWN + 1),
        {"ordinal": 0},
        None,
    )
    missing = worker.ask("GET", "/siddhi-apps/Orders/errors/9-0-0", ROW)
    assert missing.status_code == 404
    assert "ERROR_NOT_FOUND" in missing.json()["message"]


def test_an_app_that_has_never_run_has_no_rows_and_one_that_is_not_there_is_404(worker: RestWorker):
    assert worker.ask("GET", "/siddhi-apps/Fresh/errors", LIST).json() == []
    assert worker.ask("GET", "/siddhi-apps/Fresh/errors/1-0-0", ROW).status_code == 404
    assert worker.ask("DELETE", "/siddhi-apps/Fresh/errors?all=true", LIST).json() == {"purged": 0}
    assert worker.ask("POST", "/siddhi-apps/Fresh/errors/replay", REPLAY, json={"ids": ["1-0-0"]}).status_code == 404
    for method, path, body in (
        ("GET", "", None),
        ("GET", "/1-0-0", None),
        ("DELETE", "?all=true", None),
        ("POST", "/replay", {"all": True}),
    ):
        answer = worker.ask(method, f"/siddhi-apps/No/errors{path}", LIST, json=body)
        assert (answer.status_code, answer.json()["type"]) == (404, "not-found")


@pytest.mark.parametrize(
    ("query", "left"),
    [
        ("?id=1-0-0&id=1-0-2", ["1-0-1"]),
        ("?origin=source", ["1-0-2"]),
        ("?all=true", []),
        ("?all=true&until=2000", ["1-0-1", "1-0-2"]),
    ],
)
def test_rows_are_purged_by_their_ids_or_by_what_the_filters_leave(worker: RestWorker, query: str, left: list[str]):
    answer = worker.ask("DELETE", f"/siddhi-apps/Orders/errors{query}", LIST)
    assert (answer.status_code, answer.json()) == (200, {"purged": 3 - len(left)})
    assert ids(worker) == left


@pytest.mark.parametrize("query", ["", "?all=false", "?id=1-0-0&all=true", "?id=1-0-0&stream=In"])
def test_what_is_to_go_is_said(worker: RestWorker, query: str):
    assert worker.ask("DELETE", f"/siddhi-apps/Orders/errors{query}", LIST).status_code == 400
    assert len(ids(worker)) == 3


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"all": False},
        {"ids": ["1-0-0"], "all": True},
        {"ids": ["1-0-0", "1-0-1"], "payload": "x"},
        {"all": True, "payload": "x"},
        {"ids": ["\ud800"]},
    ],
)
def test_what_is_to_be_sent_again_is_said(worker: RestWorker, body: dict[str, Any]):
    answer = worker.ask(
        "POST",
        "/siddhi-apps/Orders/errors/replay",
        REPLAY,
        content=json.dumps(body),
        headers={"content-type": "application/json"},
    )
    assert answer.status_code == 400, answer.text


def test_an_app_that_does_not_run_sends_nothing_again(worker: RestWorker):
    answer = worker.ask("POST", "/siddhi-apps/Orders/errors/replay", REPLAY, json={"ids": ["1-0-0"]})
    assert answer.status_code == 409
    assert "APP_NOT_RUNNING" in answer.json()["message"]


def test_rows_are_sent_again_by_their_ids_or_by_what_the_filters_leave(
    worker: RestWorker, monkeypatch: pytest.MonkeyPatch
):
    asked: list[Any] = []

    def sends(live: str, given: Any, **how: Any) -> Sent:
        asked.append((live, [row["id"] for row in given], how))
        return Sent(1, ("1-0-1",), {"1-0-2": "it is a row of a file"})

    monkeypatch.setattr(apperrors, "live_in", lambda state, name: f"{state.name}/{name}")
    monkeypatch.setattr(apperrors, "send_again", sends)
    told = {"sent": 1, "before": ["1-0-1"], "impossible": {"1-0-2": "it is a row of a file"}}
    for body in ({"ids": ["1-0-1"], "payload": "y"}, {"stream": "In", "since": 2000, "again": True}, {"all": True}):
        answer = worker.ask("POST", "/siddhi-apps/Orders/errors/replay", REPLAY, json=body)
        assert (answer.status_code, answer.json()) == (200, told)
    within = {"within": apperrors.SENT_WITHIN}
    assert asked == [
        ("state/Orders", ["1-0-1"], {"repeat": False, "payload": b"y", **within}),
        ("state/Orders", ["1-0-1"], {"repeat": True, "skip": True, **within}),
        ("state/Orders", ["1-0-0", "1-0-1", "1-0-2"], {"repeat": False, "skip": True, **within}),
    ]


@pytest.mark.parametrize(
    ("method", "path", "codes"),
    [
        ("GET", "/siddhi-apps/Orders/errors", {VIC: 200, OPS: 200, EVE: 401}),
        ("GET", "/siddhi-apps/Orders/errors/1-0-0", {VIC: 200, OPS: 200, EVE: 401}),
        ("POST", "/siddhi-apps/Orders/errors/replay", {VIC: 401, OPS: 409, EVE: 401}),
        ("DELETE", "/siddhi-apps/Orders/errors?id=1-0-0", {VIC: 401, EVE: 401, OPS: 200}),
    ],
)
def test_who_may_look_may_not_change(worker: RestWorker, method: str, path: str, codes: dict[tuple[str, str], int]):
    body = {"ids": ["1-0-0"]} if method == "POST" else None
    for who, status in codes.items():
        assert worker.ask(method, path, LIST, auth=who, json=body).status_code == status


class Failing:
    """An error store that fails."""

    def __init__(self, reason: Exception) -> None:
        self._reason = reason

    def rows(self, name: str, wanted: Wanted, limit: int) -> list[dict[str, Any]]:
        raise self._reason

    def __getattr__(self, _name: str) -> Any:
        return self.rows


@pytest.mark.parametrize(
    ("reason", "status"),
    [
        (AppNotThere(), 404),
        (error("ERROR_REPLAYED", id="1-0-0", time="now"), 409),
        (error("ERROR_NOT_REPLAYABLE", id="1-0-0", reason="it is a row"), 400),
        (error("ANSWER_LATE", app="A", seconds=30, what="it is noted"), 202),
        (error("CONNECTION_UNAVAILABLE", connector="the error store", reason="away"), 503),
        (error("DISK_FULL", path="x"), 500),
    ],
)
def test_what_cannot_be_done_has_its_code(reason: Exception, status: int):
    with served(make_routes("test", [errors.routes(Failing(reason))])) as client:
        assert client.get("/siddhi-apps/A/errors").status_code == status


def test_a_node_that_does_not_answer_itself_passes_on_what_it_is_asked():
    passed: list[tuple[str, str, bytes]] = []

    def pass_on(method: str, target: str, body: bytes) -> None:
        passed.append((method, target, body))
        raise AppNotThere  # stands for the answer

    with served(make_routes("test", [errors.routes(Failing(AssertionError()), pass_on)])) as client:
        client.get("/siddhi-apps/A%20b/errors?stream=In")
        client.post(
            "/siddhi-apps/A/errors/replay", content=b'{"all": true}', headers={"content-type": "application/json"}
        )
    assert passed == [
        ("GET", "/siddhi-apps/A%20b/errors?stream=In", b""),
        ("POST", "/siddhi-apps/A/errors/replay", b'{"all": true}'),
    ]
