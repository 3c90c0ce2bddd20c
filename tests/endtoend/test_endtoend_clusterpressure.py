"""A reader of a channel stands still: who fills the channel waits, and so on up to the http source, which answers 503; when it goes on, nothing was lost."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from clusternodes import Cluster, Ground, cluster, rows
from servers import asking
from servers.ports import free_ports

pytestmark = [pytest.mark.spark, pytest.mark.slow]

APP = """
@app:name('Held')
@source(type = 'http', receiver.url = 'http://127.0.0.1:{port}/in', @map(type = 'json'))
define stream Given (n long, text string);
define stream Good (n long, text string);
@sink(type = 'rdbms', url = 'jdbc:sqlite:{database}', table.name = 'seen')
define stream Seen (n long);
@info(name = 'good') @dist(execGroup = 'filter') from Given[n >= 0] select n, text insert into Good;
@info(name = 'seen') @dist(execGroup = 'last') from Good select n insert into Seen;
"""
CHANNEL = 300_000  # bytes
LONG = "".join(f"{n * 7919 % 65_536:04x}" for n in range(1_000))  # 4 KB
MOST = 600  # events: eight times what the channel takes


@contextmanager
def locked(database: Path) -> Iterator[None]:
    """Nobody else writes into a database."""
    connection = sqlite3.connect(database, timeout=60, isolation_level=None)
    try:
        connection.execute("begin exclusive")
        yield
    finally:
        connection.close()


def post(port: int, n: int) -> int:
    body = {"event": {"n": n, "text": LONG}}
    return asking.post(f"http://127.0.0.1:{port}/in", json=body, timeout=60).status_code


def holds_and_goes_on(nodes: Cluster, database: Path) -> None:
    (port,) = free_ports(1)
    answer = nodes.manager.ask("POST", "/siddhi-apps", content=APP.format(port=port, database=database))
    assert answer.status_code == 201, answer.text
    nodes.until(lambda: nodes.is_active("Held"))
    sent = 0
    for _ in range(3):
        assert post(port, sent) == 202
        sent += 1
    nodes.until(lambda: rows(database, "select n from seen order by n") == [(n,) for n in range(sent)])
    with locked(database):
        while sent < MOST and (code := post(port, sent)) == 202:
            sent += 1
        assert code == 503, f"{sent} events were taken"
        (state,) = nodes.manager.ask("GET", "/managers/siddhi-apps/Held/channels").json()
        assert state["bound"] == CHANNEL
        assert 0 < state["bytes"] < 3 * CHANNEL
        assert state["readers"][0]["lagChunks"] > 0
        assert state["keptFor"]["kind"] == "reader"
        assert post(port, sent) == 503
    until = time.monotonic() + 120
    while post(port, sent) != 202:
        assert time.monotonic() < until, nodes.said()
        time.sleep(0.5)
    sent += 1
    for _ in range(20):
        while post(port, sent) != 202:
            time.sleep(0.5)
        sent += 1
    nodes.until(lambda: rows(database, "select n from seen order by n") == [(n,) for n in range(sent)])


def ground(folder: Path) -> Ground:
    return replace(Ground.in_folder(folder / "shared"), channel_bytes=CHANNEL)


def test_on_nats_a_reader_that_stands_still_is_felt_at_the_source_and_nothing_is_lost(tmp_path: Path) -> None:
    with cluster(tmp_path, ground=ground(tmp_path)) as nodes:
        holds_and_goes_on(nodes, tmp_path / "out.db")


def test_on_kafka_too(tmp_path: Path, broker_module: Any) -> None:
    try:
        broker = broker_module.start(tmp_path / "kafka")
    except broker_module.NotPossible as reason:
        pytest.skip(str(reason))
    try:
        with cluster(tmp_path, kafka=broker.address, ground=ground(tmp_path)) as nodes:
            holds_and_goes_on(nodes, tmp_path / "out.db")
    finally:
        broker.stop()
