"""Groups that a Spark cluster runs: 1 manager, 2 workers, a master of Spark with 2 workers, NATS, PostgreSQL, an object store; no folder in common."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import httpx
import pytest
from clusternodes import ClusterNode
from randomapps import by_key, events, expected, made
from servers import asking
from servers.ports import free_ports
from servers.sparkcluster import EXECUTOR, HOST, MACHINE, MASTER
from sparkground import OnSpark, on_spark

from nadi.testing.app import AppUnderTest

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

APP = """
@app:name('Meters')
@source(type = 'http', receiver.url = 'http://127.0.0.1:{port}/in', @map(type = 'json'))
define stream Readings (dev string, v long);
@sink({sink}, table.name = 'totals')
define stream Totals (dev string, v long, total long, n long);

@info(name = 'good') @dist(execGroup = 'filter', parallel = '2')
from Readings[v >= 0] select dev, v insert into Good;

@dist(execGroup = 'sums', parallel = '3')
partition with (dev of Good)
begin
  @info(name = 'sums')
  from Good select dev, v, sum(v) as total, count() as n insert into Sums;
end;

@dist(execGroup = 'last')
from Sums[n > 0] select * insert into Totals;
"""
INSTANCES = {"Meters-passthrough-Readings-1-1", "Meters-filter-1", "Meters-sums-1", "Meters-last-1"}
DEVICES = 12


@dataclass
class Meters:
    """The app as it runs, and all that it was given."""

    ground: OnSpark
    port: int
    text: str
    given: list[tuple[str, int]] = field(default_factory=list)

    def send(self, count: int) -> None:
        """Send events, each until it is taken: the source may be on its way to another worker."""
        for n in range(len(self.given), len(self.given) + count):
            self.given.append((f"d{n % DEVICES}", n if n % 5 else -n))
            put(self.port, {"dev": self.given[-1][0], "v": self.given[-1][1]})

    def until_all_is_there(self) -> None:
        """Wait for the rows of all that was sent, and compare them with those of one process."""
        whole = AppUnderTest(self.text)
        for one in self.given:
            whole.send("Readings", [list(one)])
        wanted = sorted(whole.rows("Totals"))
        self.ground.nodes.until(lambda: len(self.rows()) >= len(wanted))
        assert self.rows() == wanted

    def rows(self) -> list[tuple[object, ...]]:
        return sorted(self.ground.rows("select dev, v, total, n from totals"))


def put(port: int, event: dict[str, object]) -> None:
    while True:
        try:
            answer = asking.post(f"http://127.0.0.1:{port}/in", json={"event": event}, timeout=60)
        except httpx.ConnectError:
            time.sleep(0.2)
            continue
        assert answer.status_code in (202, 503), answer.text
        if answer.status_code == 202:
            return
        time.sleep(0.2)


def deploy(ground: OnSpark, text: str) -> None:
    answer = ground.nodes.manager.ask("POST", "/siddhi-apps", content=text, headers={"content-type": "text/plain"})
    assert answer.status_code == 201, answer.text


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OnSpark]:
    with on_spark(tmp_path_factory.mktemp("ground")) as made_one:
        yield made_one


@pytest.fixture(scope="module")
def meters(ground: OnSpark) -> Meters:
    """The app, deployed."""
    (port,) = free_ports(1)
    text = APP.format(port=port, sink=ground.sink)
    deploy(ground, text)
    ground.nodes.until(lambda: ground.nodes.is_active("Meters"))
    return Meters(ground, port, text)


def test_an_app_of_three_groups_gives_what_it_gives_in_one_process(meters: Meters):
    began = time.monotonic()
    meters.send(60)
    found = meters.ground.nodes.instances("Meters")
    assert set(found) == INSTANCES
    assert {row["id"] for row in found.values()} == {"worker-1", "worker-2"}
    meters.until_all_is_there()
    print(f"first batch after {time.monotonic() - began:.1f} s")
    assert [len(pids) for pids in meters.ground.executors().values()] == [2, 2]


def test_what_the_machines_of_spark_could_not_run_is_refused_when_it_is_deployed(ground: OnSpark):
    text = APP.format(port=1, sink="type = 'log'").replace(", table.name = 'totals'", "")
    answer = ground.nodes.manager.ask("POST", "/siddhi-apps", content=text.replace("'Meters'", "'Logged'"))
    assert answer.status_code == 400
    assert "NEEDS_STATE_FOLDER" in answer.text
    assert "@sink 'log' of Totals" in answer.text


def test_a_group_gets_other_parts_while_it_runs_and_its_state_stays(meters: Meters):
    meters.send(20)
    text = meters.text.replace("parallel = '3'", "parallel = '4'")
    answer = meters.ground.nodes.manager.ask("PUT", "/siddhi-apps", content=text)
    assert answer.status_code == 200
    meters.send(20)
    meters.until_all_is_there()


@pytest.mark.parametrize("what", [EXECUTOR, HOST, MACHINE])
def test_the_output_is_exact_though_one_is_killed(meters: Meters, what: str):
    meters.send(20)
    meters.ground.spark.kill(what)
    meters.send(40)
    meters.until_all_is_there()


def test_the_output_is_exact_though_a_driver_sleeps_for_longer_than_its_lease(meters: Meters):
    ground = meters.ground
    worker = worker_of(ground, "Meters-sums-1")
    meters.send(20)
    asleep = worker.node.processes()
    for pid in asleep:
        os.kill(pid, signal.SIGSTOP)
    ground.nodes.until(lambda: worker_of(ground, "Meters-sums-1") is not worker)
    for pid in asleep:
        os.kill(pid, signal.SIGCONT)
    meters.send(40)
    meters.until_all_is_there()


def test_the_output_is_exact_though_a_driver_is_killed_and_its_disk_is_gone(meters: Meters):
    ground = meters.ground
    worker = worker_of(ground, "Meters-sums-1")
    (other,) = (one for one in ground.nodes.workers if one is not worker)
    before = ground.executors()
    meters.send(20)
    kill(worker)
    began = time.monotonic()
    meters.send(40)
    meters.until_all_is_there()
    print(f"on another worker after {time.monotonic() - began:.1f} s")
    assert {row["id"] for row in ground.nodes.instances("Meters").values()} == {other.name}
    ground.nodes.until(lambda: len(ground.executors()) == 1)  # those of the dead driver have ended
    assert ground.executors().keys() < before.keys()
    ground.nodes.until(lambda: len(ground.hosts()) <= 2)
    worker.start()
    worker.until_it_answers("/health/ready")


def worker_of(ground: OnSpark, instance: str) -> ClusterNode:
    name = ground.nodes.instances("Meters")[instance]["id"]
    return next(one for one in ground.nodes.workers if one.name == name)


def kill(worker: ClusterNode) -> None:
    """As a power cut does: all its processes, and what is on its disk."""
    worker.node.kill_tree()
    shutil.rmtree(worker.folder / "home")


def test_random_apps_give_what_they_give_in_one_process(ground: OnSpark, pytestconfig: pytest.Config):
    seed = pytestconfig.getoption("--seed")
    seed = random.SystemRandom().randrange(10**6) if seed is None else seed
    print(f"--seed {seed}")
    dice = random.Random(seed)
    ports = free_ports(6)
    apps = [made(dice, n, (ports[2 * n], ports[2 * n + 1]), ground.sink) for n in range(3)]
    for app in apps:
        deploy(ground, app.text)
    given = events(dice, 80)
    for app in apps:
        ground.nodes.until(lambda app=app: ground.nodes.is_active(app.name))
    for stream, k, v in given:
        for app in apps:
            if stream in app.ports:
                put(app.ports[stream], {"k": k, "v": v})
    for app in apps:
        wanted = expected(app, given)
        ground.nodes.until(lambda app=app, wanted=wanted: len(ground.rows(ordered(app.table))) >= len(wanted))
        assert by_key(ground.rows(ordered(app.table))) == by_key(wanted), app.text


def test_what_runs_goes_on_without_a_master_of_spark(meters: Meters):
    meters.ground.spark.kill(MASTER)
    meters.send(40)
    meters.until_all_is_there()


def ordered(table: str) -> str:
    """The rows of a table that is only appended to, in their order."""
    return f"select k, a, b from {table} order by ctid"
