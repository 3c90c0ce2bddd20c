"""How events get into a cluster: by a subject that somebody else fills with XML, and by one address for an http source that moves."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import nats
import pytest
from clusternodes import Cluster, cluster, rows
from servers import asking
from servers.ports import free_ports

pytestmark = [pytest.mark.spark, pytest.mark.slow]

APP = """
@app:name('Meters')
@source(type = 'http', receiver.url = 'http://127.0.0.1:{port}/in', @map(type = 'json'))
define stream Readings (dev string, v long);
define stream Corrections (dev string, v long);

@sink(type = 'rdbms', url = 'jdbc:sqlite:{database}', table.name = 'readings')
define stream Read (dev string, v long);
@sink(type = 'rdbms', url = 'jdbc:sqlite:{database}', table.name = 'corrections')
define stream Corrected (dev string, v long, total long, n long);

@dist(execGroup = 'reading')
from Readings select dev, v insert into Read;

@dist(execGroup = 'correcting', parallel = '2')
partition with (dev of Corrections)
begin
  from Corrections select dev, v, sum(v) as total, count() as n insert into Corrected;
end;
"""


def test_events_come_by_a_subject_in_xml_and_by_one_address_wherever_the_source_is(tmp_path: Path):
    port, *entrances = free_ports(4)
    database = tmp_path / "out.db"
    with cluster(tmp_path, entrances=entrances) as nodes:
        text = APP.format(port=port, database=database)
        assert nodes.manager.ask("POST", "/siddhi-apps", content=text).status_code == 201
        given = [(f"d{n % 7}", n) for n in range(90)]
        publish(nodes, given[:30])  # the manager has made the subject: nothing waits for the app to run
        nodes.until(lambda: nodes.is_active("Meters"))
        for n in range(30):
            post(entrances[n % 3], n)
        publish(nodes, given[30:60])
        names = [worker.name for worker in nodes.workers]
        taking = names.index(nodes.instances("Meters")["Meters-reading-1"]["id"])
        nodes.workers[taking].node.kill_tree()
        left = (entrances[0], entrances[2 - taking])  # those of the manager, and of the worker that is there
        for n in range(30, 60):
            post(left[n % 2], n)
        publish(nodes, given[60:])
        nodes.until(lambda: corrections(database) == expected(given))
        nodes.until(lambda: len(rows(database, "select v from readings")) >= 60)
        assert rows(database, "select v from readings order by v") == [(n,) for n in range(60)]


def publish(nodes: Cluster, events: list[tuple[str, int]]) -> None:
    """Send events as any client of NATS would."""

    async def send() -> None:
        connection = await nats.connect(nodes.nats)
        for dev, v in events:
            text = f"<events><event><dev>{dev}</dev><v>{v}</v></event></events>"
            await connection.jetstream().publish("Meters_Corrections", text.encode())
        await connection.close()

    asyncio.run(send())


def post(entrance: int, n: int) -> None:
    """Send a reading to an address that stays, until it is taken."""
    while True:
        answer = asking.post(f"http://127.0.0.1:{entrance}/Meters/in", json={"event": {"dev": "d", "v": n}}, timeout=60)
        if answer.status_code == 202:
            return
        assert answer.status_code == 503, answer.text  # nothing is under way when the worker dies
        time.sleep(float(answer.headers["retry-after"]) / 5)


def corrections(database: Path) -> dict[str, list[tuple[int, int, int]]]:
    found: dict[str, list[tuple[int, int, int]]] = {}
    for dev, *rest in rows(database, "select dev, v, total, n from corrections order by dev, n"):
        found.setdefault(dev, []).append(tuple(rest))
    return found


def expected(given: list[tuple[str, int]]) -> dict[str, list[tuple[int, int, int]]]:
    """The rows of each device."""
    found: dict[str, list[tuple[int, int, int]]] = {}
    for dev, v in given:
        before = found.setdefault(dev, [])
        before.append((v, v + (before[-1][1] if before else 0), len(before) + 1))
    return found
