"""An instance goes on at another worker, and the home of the one before is gone: what its sinks wrote, what was changed on demand, what it could not take."""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from pathlib import Path

import httpx
import nats
import pytest
from clusternodes import Cluster, ClusterNode, cluster, rows
from nodes import lines
from servers import asking
from servers.ports import free_ports

from nadi.io.jetstream import stream_config

pytestmark = [pytest.mark.spark, pytest.mark.slow]

INSTANCE = "Moved-all-1"
APP = """
@app:name('Moved')
@source(type = 'http', receiver.url = 'http://127.0.0.1:{port}/in', @map(type = 'json'))
define stream Readings (dev string, v long);

@sink(type = 'file', file.uri = '{folder}/out.jsonl', @map(type = 'json'))
@sink(type = 'nats', destination = 'moved.all', bootstrap.servers = '{nats}', @map(type = 'json'))
@sink(type = 'nats', destination = 'moved.of.{{{{dev}}}}', bootstrap.servers = '{nats}', on.error = 'STORE', @map(type = 'json'))
define stream Found (dev string, v long, top long, total long);

@primaryKey('dev') define table Limits (dev string, top long);

@dist(execGroup = 'all')
from Readings join Limits on Readings.dev == Limits.dev select Readings.dev as dev, v, top insert into Known;

@dist(execGroup = 'all')
from Known select dev, v, top, sum(v) as total insert into Found;
"""


def home_is_lost(node: ClusterNode) -> None:
    """As a power cut does: all its processes, and what is on its disk."""
    node.node.kill_tree()
    shutil.rmtree(node.folder / "home")


def worker_of(nodes: Cluster) -> ClusterNode:
    """The worker that the instance is on, once it runs."""
    nodes.until(lambda: nodes.is_active("Moved"))
    return next(one for one in nodes.workers if one.name == nodes.instances("Moved")[INSTANCE]["id"])


def change(nodes: Cluster, query: str) -> None:
    """Change a table on demand, where the instance runs."""
    answer = worker_of(nodes).ask("POST", f"/siddhi-apps/{INSTANCE}/query", json={"query": query})
    assert answer.status_code == 200, answer.text


def send(port: int, given: list[tuple[str, int]]) -> None:
    """Send each event until it is taken: the source may be on its way to another worker."""
    for dev, v in given:
        while True:
            try:
                answer = asking.post(f"http://127.0.0.1:{port}/in", json={"event": {"dev": dev, "v": v}}, timeout=60)
            except httpx.TransportError:
                answer = None
            if answer is not None and answer.status_code == 202:
                break
            time.sleep(0.2)


def published(url: str, subject: str) -> list[dict[str, object]]:
    """The events of a subject, in order."""

    async def read() -> list[dict[str, object]]:
        client = await nats.connect(url)
        try:
            stream = client.jetstream()
            state = (await stream.stream_info("moved")).state
            found = [await stream.get_msg("moved", seq) for seq in range(1, state.last_seq + 1)]
            return [json.loads(m.data or b"")["event"] for m in found if m.subject == subject]
        finally:
            await client.close()

    return asyncio.run(read())


def make_stream(url: str) -> None:
    """A stream that forgets the ids of messages at once: the server's memory of two minutes is no help."""

    async def make() -> None:
        client = await nats.connect(url)
        config = {**stream_config("moved", ["moved.>"]), "duplicate_window": 100_000_000}
        answer = await client.request("$JS.API.STREAM.CREATE.moved", json.dumps(config).encode(), timeout=10)
        assert "error" not in json.loads(answer.data)
        await client.close()

    asyncio.run(make())


def expected(given: list[tuple[str, int]], top: int) -> list[dict[str, object]]:
    total, found = 0, []
    for dev, v in given:
        total += v
        found.append({"dev": dev, "v": v, "top": top, "total": total})
    return found


def written(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line)["event"] for line in lines(folder / "out.jsonl")]


def test_sinks_and_what_was_changed_on_demand_go_along_when_the_worker_dies_with_its_disk(tmp_path: Path):
    with cluster(tmp_path) as nodes:
        make_stream(nodes.nats)
        (port,) = free_ports(1)
        text = APP.format(port=port, folder=tmp_path, nats=nodes.nats)
        answer = nodes.manager.ask("POST", "/siddhi-apps", content=text)
        assert answer.status_code == 201, answer.text
        change(nodes, "select 'a' as dev, 10L as top insert into Limits")
        change(nodes, "select 'b c' as dev, 10L as top insert into Limits")
        given = [("b c" if n % 10 == 3 else "a", n) for n in range(60)]
        send(port, given[:20])
        for begin in (20, 40):
            gone = worker_of(nodes)
            send(port, given[begin : begin + 10])
            home_is_lost(gone)
            send(port, given[begin + 10 : begin + 20])
            nodes.until(lambda end=begin + 20: len(written(tmp_path)) >= end)
            assert worker_of(nodes) is not gone
            gone.start()
            gone.until_it_answers("/health/ready")
        wanted = expected(given, 10)
        nodes.until(lambda: len(published(nodes.nats, "moved.all")) >= len(given))
        assert written(tmp_path) == wanted
        assert published(nodes.nats, "moved.all") == wanted
        assert published(nodes.nats, "moved.of.a") == [row for row in wanted if row["dev"] == "a"]
        refused = rows(tmp_path / "shared" / "cuts.db", "select content from nadi_errors order by cut, bucket, number")
        assert [json.loads(content)["stream"] for (content,) in refused] == ["Found"] * 6
        change(nodes, "update Limits set Limits.top = 20L on Limits.dev == 'a'")
        send(port, [("a", 1)])
        nodes.until(lambda: len(written(tmp_path)) == 61)
        assert written(tmp_path)[-1]["top"] == 20
