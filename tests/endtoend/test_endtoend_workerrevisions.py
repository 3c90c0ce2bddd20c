"""The state of an app of a worker over REST: kept, brought back, let go of, while another app goes on."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from nodes import lines
from servers import asking
from servers.ports import free_ports
from workernode import WorkerNode, working

pytestmark = pytest.mark.spark

APP = """@App:name('{name}')
@source(type='http', receiver.url='http://127.0.0.1:{port}/in', @map(type='json'))
define stream In (n long);
@sink(type='file', file.uri='{out}', @map(type='json'))
@sink(type='log', prefix='seen')
define stream Out (n long, total long);
@info(name='sums') from In select n, sum(n) as total insert into Out;
"""
CONFIGURATION = """
state.persistence: {enabled: true, intervalInMin: 0, revisionsToKeep: 1}
nadi: {log: {format: json}}
"""


class Fed:
    """An app of the worker, fed and read."""

    def __init__(self, worker: WorkerNode, name: str, port: int) -> None:
        self.worker, self.name, self.port, self.out = worker, name, port, worker.home / "files" / f"{name}.jsonl"
        worker.deploy(name, APP.format(name=name, port=port, out=self.out))

    def feed(self, n: int) -> None:
        assert asking.post(f"http://127.0.0.1:{self.port}/in", json={"event": {"n": n}}).status_code == 202

    def totals(self) -> list[int]:
        return [json.loads(line)["event"]["total"] for line in lines(self.out)]

    def wait(self, *totals: int) -> None:
        self.worker.node.until(lambda: self.totals() == list(totals))


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerNode]:
    with working(tmp_path_factory.mktemp("worker"), CONFIGURATION) as made:
        yield made


@pytest.fixture(scope="module")
def apps(worker: WorkerNode) -> tuple[Fed, Fed]:
    """Each has had two events."""
    sums, other = (Fed(worker, name, port) for name, port in zip(("Sums", "Other"), free_ports(2), strict=True))
    for app in (sums, other):
        app.feed(1)
        app.feed(2)
        app.wait(1, 3)
    return sums, other


def test_a_backup_is_restored_while_another_app_goes_on_and_nothing_is_lost_or_doubled(
    worker: WorkerNode, apps: tuple[Fed, Fed]
):
    sums, other = apps
    before, others = sums.totals(), other.totals()
    total = before[-1]
    backup = worker.ask("POST", "/Sums/backup")
    assert backup.status_code == 201, backup.text
    revision = backup.json()["revision"]
    assert revision.endswith("__Sums")
    sums.feed(4)
    sums.wait(*before, total + 4)

    # the stop of the restore makes no revision: it would push this one out, as only one is kept
    restored = worker.ask("POST", "/Sums/restore", params={"revision": revision})
    assert restored.json() == {
        "type": "success",
        "message": f"State restored to revision {revision} for Siddhi App :Sums",
    }
    worker.node.until(lambda: worker.active("Sums"))
    other.feed(4)
    other.wait(*others, others[-1] + 4)
    sums.feed(8)
    sums.wait(*before, total + 4, total + 12)  # what came after the revision is taken again, and not written twice

    last = worker.ask("POST", "/Sums/restore")
    assert last.json()["message"] == "State restored to last revision for Siddhi App :Sums"
    worker.node.until(lambda: worker.active("Sums"))
    sums.feed(16)
    sums.wait(*before, total + 4, total + 12, total + 28)


def test_a_revision_that_is_not_there_is_500_and_the_app_goes_on_as_it_was(worker: WorkerNode, apps: tuple[Fed, Fed]):
    sums, _ = apps
    before = sums.totals()
    answer = worker.ask("POST", "/Sums/restore", params={"revision": "1__Sums"})
    assert (answer.status_code, answer.json()["code"]) == (500, 800102)
    assert "1__Sums" in answer.json()["message"]
    worker.node.until(lambda: worker.active("Sums"))
    sums.feed(1)
    sums.wait(*before, before[-1] + 1)


def test_revisions_are_deleted_without_redeployment_and_the_app_goes_on(worker: WorkerNode, apps: tuple[Fed, Fed]):
    sums, _ = apps
    before = sums.totals()
    assert worker.ask("POST", "/Sums/backup").status_code == 201
    cleared = worker.ask("DELETE", "/Sums/revisions", params={"enabledRedeployment": "false"})
    assert (cleared.status_code, cleared.json()["type"]) == (200, "success")
    assert worker.ask("POST", "/Sums/restore").status_code == 500  # there is none
    worker.node.until(lambda: worker.active("Sums"))
    sums.feed(1)
    sums.wait(*before, before[-1] + 1)


def test_revisions_are_deleted_with_redeployment_and_the_app_begins_empty_where_its_inputs_stood(
    worker: WorkerNode, apps: tuple[Fed, Fed]
):
    sums, other = apps
    before, others = sums.totals(), other.totals()
    assert worker.ask("POST", "/Sums/backup").status_code == 201
    assert worker.ask("DELETE", "/Sums/revisions").status_code == 200
    worker.node.until(lambda: worker.active("Sums"))
    sums.feed(5)
    sums.wait(*before, 5)
    assert worker.ask("DELETE", "/revisions").status_code == 200
    worker.node.until(lambda: worker.active("Sums") and worker.active("Other"))
    sums.feed(6)
    sums.wait(*before, 5, 6)
    other.feed(7)
    other.wait(*others, 7)


def test_the_design_view_of_a_running_app(worker: WorkerNode, apps: tuple[Fed, Fed]):
    found = worker.ask("GET", "/Sums/elements").json()
    assert [(edge["inputStreamId"], edge["outputStreamId"]) for edge in found] == [
        ("http", "In"),
        ("In", "Out"),
        ("Out", "file"),
        ("Out", "log"),
    ]


def test_the_log_in_json_has_an_object_a_line_with_app_and_batch_and_no_password(
    worker: WorkerNode, apps: tuple[Fed, Fed]
):
    def seen() -> list[dict[str, Any]]:
        records = map(json.loads, lines(worker.node.screen))
        return [r for r in records if r.get("logger") == "nadi.app" and "seen" in r["event"]]

    for app in apps:
        before = app.totals()
        app.feed(0)
        app.wait(*before, before[-1])
    worker.node.until(lambda: {r["app"] for r in seen()} == {"Sums", "Other"})
    records = [json.loads(line) for line in lines(worker.node.screen)]
    assert all(r["group"] == r["app"] and r["batch"] > 0 and r["timestamp"].endswith("Z") for r in seen())
    changes = [r for r in records if r.get("logger") == "nadi.audit" and r["event"] == "change"]
    assert changes
    assert all(r["user"] == "admin" and re.fullmatch("[0-9a-f]{16}", r["request"]) for r in changes)
    assert sum(worker.password in json.dumps(r) for r in records) == 1  # where it was made
    hosts = list((worker.home / "state/logs").glob("host-*.log"))
    assert hosts
    for line in (line for file in hosts for line in lines(file)):
        assert "event" in json.loads(line)


def test_every_answer_has_the_id_of_its_request(worker: WorkerNode):
    named = worker.ask("GET", "/Sums/status", headers={"X-Request-Id": "mine-1"})
    assert named.headers["x-request-id"] == "mine-1"
    assert re.fullmatch("[0-9a-f]{16}", worker.ask("GET", "/Sums/status").headers["x-request-id"])
