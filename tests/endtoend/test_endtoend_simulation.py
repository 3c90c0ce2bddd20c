"""The event simulator with a real worker: single events and feeds come once each, whatever dies, also to apps that are sharded by key."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from nodes import lines
from ordersworker import Worker, working

from nadi.pipeline.cutting.cutlogs import open_cut_log
from nadi.pipeline.history.replay import Inputs, Replayer, logged
from nadi.pipeline.live import read_live

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]  # two starts of a worker, an update and a replay

COUNTS = """@App:name('Counts')
@sink(type='file', file.uri='{out}', @map(type='json'))
define stream Out (k string, n long, c long);
define stream In (k string, n long);
partition with (k of In) begin
  @info(name='counts') from In select k, n, count() as c insert into Out;
end;
"""


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    with working(tmp_path_factory.mktemp("simulation")) as made:
        yield made


def rows(worker: Worker) -> list[dict[str, Any]]:
    path = worker.home / "files" / "counts.jsonl"
    return [json.loads(line)["event"] for line in lines(path)]


def numbers(worker: Worker) -> list[int]:
    return sorted(row["n"] for row in rows(worker))


def single(worker: Worker, n: int) -> int:
    event = {"streamName": "In", "siddhiAppName": "Counts", "data": [f"k{n % 5}", str(n)]}
    return worker.ask("POST", "/simulation/single", content=json.dumps(event)).status_code


def feed(name: str, count: int, interval: int, file: str) -> str:
    source = {
        "simulationType": "CSV_SIMULATION",
        "siddhiAppName": "Counts",
        "streamName": "In",
        "fileName": file,
        "delimiter": ",",
    }
    properties = {"simulationName": name, "timeInterval": interval, "noOfEvents": count, "startTimestamp": 1_000}
    return json.dumps({"properties": properties, "sources": [source]})


def test_simulated_events_come_once_each_whatever_dies(worker: Worker):
    text = COUNTS.format(out=worker.home / "files" / "counts.jsonl")
    rows_of = "".join(f"k{n % 5},{n}\n" for n in range(10_000, 16_000))
    files = {"file": ("numbers.csv", rows_of.encode(), "text/csv")}
    assert worker.ask("POST", "/simulation/files", files=files).status_code == 201
    # kept before its app is there, active as soon as that is
    assert worker.ask("POST", "/simulation/feed", content=feed("fast", 6_000, 0, "numbers.csv")).status_code == 201
    assert worker.ask("POST", "/simulation/feed/fast", params={"action": "run"}).status_code == 403
    assert worker.ask("POST", "/siddhi-apps", content=text).status_code == 201
    worker.node.until(lambda: worker.active("Counts"))
    worker.node.until(lambda: '"activeSimulations": []' not in worker.ask("GET", "/simulation/feed").json()["message"])

    assert single(worker, 0) == 200
    worker.node.until(lambda: numbers(worker) == [0])
    assert worker.ask("POST", "/simulation/feed/fast", params={"action": "run"}).status_code == 200
    worker.node.until(lambda: len(rows(worker)) == 6_001)
    worker.node.until(lambda: worker.ask("GET", "/simulation/feed/fast/status").json()["message"] == "STOP")
    assert numbers(worker) == [0, *range(10_000, 16_000)]

    # singles from several sides and a feed, while everything is killed: what was acknowledged comes, once
    assert worker.ask("POST", "/simulation/feed", content=feed("slow", -1, 10, "numbers.csv")).status_code == 201
    assert worker.ask("POST", "/simulation/feed/slow", params={"action": "run"}).status_code == 200
    acknowledged: set[int] = set()
    enough = threading.Event()

    def sender(first: int) -> None:
        for n in range(first, first + 200):
            try:
                if single(worker, n) == 200:
                    acknowledged.add(n)
            except httpx.TransportError:
                return
            if len(acknowledged) > 60:
                enough.set()

    with ThreadPoolExecutor(4) as pool:
        for side in range(4):
            pool.submit(sender, 1_000 + 1_000 * side)
        enough.wait(60)
        worker.node.kill_tree()
    worker.node = worker.started()
    assert worker.ask("GET", "/simulation/feed/slow/status").json()["message"] == "STOP"
    assert single(worker, 9_999) == 200
    worker.node.until(lambda: 9_999 in numbers(worker))
    found = [n for n in numbers(worker) if 1_000 <= n < 9_000]
    assert len(found) == len(set(found))
    assert acknowledged <= set(found)
    counted: dict[str, list[int]] = {}
    for row in rows(worker):
        counted.setdefault(row["k"], []).append(row["c"])
    for counts in counted.values():  # every event met the state of its key, once
        assert sorted(counts) == list(range(1, len(counts) + 1))

    # a feed goes on while its app is updated
    assert worker.ask("POST", "/simulation/feed/slow", params={"action": "run"}).status_code == 200
    before = worker.node.said().count("app updated")
    assert worker.ask("PUT", "/siddhi-apps", content=text + "-- again\n").status_code == 200
    worker.node.until(lambda: worker.node.said().count("app updated") > before and worker.active("Counts"))
    known = len(rows(worker))
    worker.node.until(lambda: len(rows(worker)) > known + 20)
    assert worker.ask("GET", "/simulation/feed/slow/status").json()["message"] == "RUN"
    assert worker.ask("POST", "/simulation/feed/slow", params={"action": "stop"}).status_code == 200
    assert single(worker, 8_888) == 200
    worker.node.until(lambda: 8_888 in numbers(worker))

    # a replay of the logs makes the same
    live = read_live(worker.home / "state" / "Counts")
    assert live is not None
    again: list[dict[str, Any]] = []
    with Inputs(live.spec) as inputs:
        for emitted in Replayer(live.spec).all(inputs, logged(open_cut_log(live.spec))):
            if "Out" in emitted.batches:
                again += emitted.batches["Out"].select(["k", "n", "c"]).to_pylist()
    assert sorted(map(str, again)) == sorted(map(str, rows(worker)))

    # an app that goes takes its simulations with it
    assert worker.ask("DELETE", "/siddhi-apps/Counts").status_code == 200
    worker.node.until(lambda: '"activeSimulations": []' in worker.ask("GET", "/simulation/feed").json()["message"])
    assert single(worker, 1) == 500


def test_a_feed_file_never_leaves_its_folder(worker: Worker, tmp_path: Path):
    assert worker.ask("POST", "/simulation/files", files={"file": ("../x.csv", b"", "text/csv")}).status_code == 400
    assert not (worker.home / "deployment/x.csv").exists()
