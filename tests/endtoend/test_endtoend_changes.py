"""A distributed app gets other numbers of instances under load, on real processes: what it gives stays what it gives in one process."""

from __future__ import annotations

import random
import shutil
import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path

import httpx
import pytest
from clusternodes import Cluster, cluster
from servers import asking
from test_endtoend_distributed import APP, by_device, deployed, events, expected, send, send_on

pytestmark = [pytest.mark.spark]


def with_instances(text: str, count: int) -> str:
    assert "parallel = '2'" in text
    return text.replace("parallel = '2'", f"parallel = '{count}'")


def test_an_app_with_two_then_three_then_one_instances_loses_and_doubles_nothing(tmp_path: Path):
    database = tmp_path / "out.db"
    with cluster(tmp_path) as nodes:
        text, port = deployed(nodes, database)
        given = events(0, 40)
        send(port, given)
        for count in (3, 1):
            changed = with_instances(text, count)
            later = events(len(given), 60)
            sender = threading.Thread(target=send_on, args=(port, later))
            sender.start()
            planned = nodes.manager.ask("PUT", "/siddhi-apps?dryRun=true", content=changed)
            assert planned.json()["summary"].startswith("no state is lost; the app drains"), planned.text
            answer = nodes.manager.ask("PUT", "/siddhi-apps", content=changed)
            assert answer.status_code == 200, answer.text
            names = {f"Meters-sums-{n}" for n in range(1, count + 1)}
            nodes.until(lambda names=names: names == set(nodes.instances("Meters")) - {"Meters-filter-1"})
            nodes.until(lambda: nodes.is_active("Meters"))
            sender.join()
            given += later
        wanted = expected(APP.format(port=port, database=database), given)
        nodes.until(lambda: by_device(database) == wanted)


def in_place(nodes: Cluster) -> dict[str, tuple[str, int]]:
    """Where the instances run, and with which epochs."""
    return {name: (row["id"], row["epoch"]) for name, row in nodes.instances("Meters").items()}


@pytest.mark.slow
def test_a_change_that_could_not_run_is_refused_and_the_app_goes_on_as_if_nobody_had_asked(tmp_path: Path):
    database = tmp_path / "out.db"
    with cluster(tmp_path) as nodes:
        text, port = deployed(nodes, database)
        given = events(0, 40)
        send(port, given)
        nodes.until(lambda: by_device(database) == expected(text, given))
        with closing(sqlite3.connect(database)) as other:
            other.execute("create table narrow (dev text, v integer)")
        running = in_place(nodes)
        bad = text.replace("table.name = 'totals'", "table.name = 'narrow'")
        for changed in (bad, with_instances(bad, 3)):  # in place; when it has drained
            for path in ("/siddhi-apps?dryRun=true", "/siddhi-apps"):
                answer = nodes.manager.ask("PUT", path, content=changed)
                assert answer.status_code == 400, answer.text
                said = answer.json()["message"]
                assert "CHANGE_REFUSED" in said
                assert "Meters-sums-1 on worker-" in said
                assert "narrow" in said
        assert nodes.is_active("Meters")
        assert in_place(nodes) == running
        assert nodes.manager.ask("GET", "/siddhi-apps/Meters/details").json()["version"] == 1
        more = events(len(given), 40)
        send(port, more)
        nodes.until(lambda: by_device(database) == expected(text, given + more))
        # what can run is tried with the state that there is, takes effect, and goes on with it
        good = with_instances(text, 3).replace("count() as n", "count() + 0 as n")
        answer = nodes.manager.ask("PUT", "/siddhi-apps", content=good)
        assert answer.status_code == 200, answer.text
        nodes.until(lambda: len(nodes.instances("Meters")) == 4)
        nodes.until(lambda: nodes.is_active("Meters"))
        last = events(len(given) + len(more), 40)
        send_on(port, last)
        nodes.until(lambda: by_device(database) == expected(text, given + more + last))
        screens = "".join(one.node.said() for one in nodes.managers)
        assert "change refused" in screens
        assert "not tried before the change" not in screens


def send_once(port: int, given: list[tuple[str, int]], unsure: list[int]) -> None:
    """Send each event until it is taken, but not again where a server died before it answered: it may have been taken, or not."""
    for dev, v in given:
        while True:
            try:
                answer = asking.post(f"http://127.0.0.1:{port}/in", json={"event": {"dev": dev, "v": v}}, timeout=60)
            except httpx.ConnectError:
                time.sleep(0.2)
                continue
            except httpx.TransportError:
                unsure.append(v)
                break
            assert answer.status_code in (202, 503), answer.text
            if answer.status_code == 202:
                break
            time.sleep(0.2)


def is_right(database: Path, given: list[tuple[str, int]], unsure: list[int]) -> bool:
    """Whether each event that was acknowledged is there once, in order, and none twice; and all sums are those of what is there."""
    found = by_device(database)
    for dev in {dev for dev, _v in given}:
        rows = found.get(dev, [])
        values = [row[1] for row in rows]
        there = set(values)
        if values != [v for of, v in given if of == dev and v >= 0 and (v not in unsure or v in there)]:
            return False
        if [row[2:] for row in rows] != [(sum(values[:n]), n) for n in range(1, len(values) + 1)]:
            return False
    return True


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_change_outlives_killed_workers_and_leaders(tmp_path: Path, request: pytest.FixtureRequest):
    """1 → 3 → 2 under load; at a moment of each change that the seed draws a worker, with its disk, or the leader dies."""
    dice, database = random.Random(request.config.getoption("--seed") or 1), tmp_path / "out.db"
    with cluster(tmp_path, workers=2, managers=2) as nodes:
        text, port = deployed(nodes, database)
        given, unsure = events(0, 20), list[int]()
        send(port, given)
        for count in (1, 3, 2):
            later = events(len(given), 40)
            sender = threading.Thread(target=send_once, args=(port, later, unsure))
            sender.start()
            answer = nodes.manager.ask("PUT", "/siddhi-apps", content=with_instances(text, count))
            assert answer.status_code == 200, answer.text
            time.sleep(dice.random() * 15)
            dead = dice.choice([nodes.leader() or nodes.managers[0], *nodes.workers])
            dead.node.kill_tree()
            if dead in nodes.workers and dice.random() < 0.5:
                shutil.rmtree(dead.folder / "home")
            dead.start()
            dead.until_it_answers()
            names = {f"Meters-sums-{n}" for n in range(1, count + 1)}
            nodes.until(lambda names=names: names == set(nodes.instances("Meters")) - {"Meters-filter-1"})
            nodes.until(lambda: nodes.is_active("Meters"))
            sender.join()
            given += later
        nodes.until(lambda: is_right(database, given, unsure))
