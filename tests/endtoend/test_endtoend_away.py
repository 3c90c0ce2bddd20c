"""Targets and inputs that are away, and disks that are full: the node says so, tries again with back-off, and delivers everything later."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from nodes import TRACE, Node, events, running
from servers.ports import free_port
from sums import APP, expected, made, per_key

from nadi.io.natsserver import NatsServer

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(900)]

RELAY = """@app:name('{name}')
@source({source}, @map(type = 'json'))
define stream In (n int);
@sink({sink}, @map(type = 'json'))
define stream Out (n int);
from In select n insert into Out;
"""
COUNT = 50
ONE = {"buckets": 1, "hosts": 2}


def relay(folder: Path, name: str, source: str, sink: str) -> Path:
    path = folder / f"{name}.siddhi"
    path.write_text(RELAY.format(name=name, source=source, sink=sink))
    return path


@pytest.fixture
def numbers(tmp_path: Path) -> str:
    """A source with the events 0 to COUNT - 1."""
    (tmp_path / "in.jsonl").write_text("".join(json.dumps({"event": {"n": n}}) + "\n" for n in range(COUNT)))
    return f"type = 'file', file.uri = '{tmp_path}/in.jsonl'"


class Receiver:
    """An http server that keeps what it is sent; `seen` are (number in the producer, n)."""

    def __init__(self, port: int) -> None:
        self.seen: list[tuple[str, int]] = []
        seen = self.seen

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                seen.append((self.headers["Nadi-Number"], body["event"]["n"]))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Not to the screen of the tests."""

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever)

    def __enter__(self) -> Receiver:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def stopped(node: Node) -> str:
    """Ctrl-C; what was said."""
    node.signal(signal.SIGINT)
    assert node.wait() == 0, node.said()
    assert node.processes() == set(), node.commands()
    said = node.said()
    assert TRACE not in said
    assert "org.apache" not in said
    return said


def backed_off(said: str, app: str, seconds: float) -> None:
    """The app waited between attempts that failed: 0.5 s, 1 s, … up to 30 s."""
    assert 1 <= said.count(f"{app}: waiting") <= 3 + seconds / 3, said


def test_http_and_nats_that_are_away_are_shown_and_get_everything_when_they_are_back(tmp_path: Path, numbers: str):
    http, nats = free_port(), NatsServer(tmp_path / "nats", port=free_port())
    subject = f"type = 'nats', destination = 'n', bootstrap.servers = '{nats.url}'"
    apps = [
        relay(tmp_path, "ToHttp", numbers, f"type = 'http', publisher.url = 'http://127.0.0.1:{http}/in'"),
        relay(tmp_path, "ToNats", numbers, subject),
        relay(tmp_path, "FromNats", subject, f"type = 'file', file.uri = '{tmp_path}/out.jsonl'"),
    ]
    began = time.monotonic()
    with running(*apps, state=tmp_path / "state", conf=ONE) as node:
        node.until(lambda: "FromNats: waiting" in node.said())
        node.until(lambda: "ToNats: waiting" in node.said())
        node.until(lambda: "ToHttp: waiting" in node.said())
        away = time.monotonic() - began
        with Receiver(http) as receiver, nats:
            node.until(lambda: len({n for _, n in receiver.seen}) == COUNT)
            node.until(lambda: len(events(tmp_path / "out.jsonl")) == COUNT)
            node.until(lambda: node.taken("ToHttp") == node.taken("ToNats") == COUNT)
            said = stopped(node)
    for app in ("ToHttp", "ToNats"):
        backed_off(said, app, away)
        assert f"{app}: stopped, {COUNT} events in, {COUNT} out" in said
    assert sorted(n for _, n in dict(receiver.seen).items()) == list(range(COUNT))  # by number: none doubled
    assert [e["n"] for e in events(tmp_path / "out.jsonl")] == list(range(COUNT))


def test_a_kafka_broker_that_is_away_is_shown_and_gets_everything_when_it_is_back(
    broker_module: Any, tmp_path: Path, numbers: str
):
    try:
        broker_module.classpath()
    except broker_module.NotPossible as reason:
        pytest.skip(str(reason))
    port = free_port()
    servers = f"bootstrap.servers = '127.0.0.1:{port}'"
    apps = [
        relay(tmp_path, "ToKafka", numbers, f"type = 'kafka', topic = 't', {servers}"),
        relay(
            tmp_path,
            "FromKafka",
            f"type = 'kafka', topic.list = 't', {servers}",
            f"type = 'file', file.uri = '{tmp_path}/out.jsonl'",
        ),
    ]
    began = time.monotonic()
    with running(*apps, state=tmp_path / "state", conf=ONE) as node:
        node.until(lambda: "FromKafka: waiting" in node.said() or "In is away: " in node.said())
        node.until(lambda: "ToKafka: waiting" in node.said())
        away = time.monotonic() - began
        broker = broker_module.start(tmp_path / "kafka", port)
        try:
            node.until(lambda: len(events(tmp_path / "out.jsonl")) == COUNT)
            node.until(lambda: node.taken("ToKafka") == COUNT)
            said = stopped(node)
        finally:
            broker.stop()
    backed_off(said, "ToKafka", away)
    assert [e["n"] for e in events(tmp_path / "out.jsonl")] == list(range(COUNT))


# ---- disks


class SmallDisk:
    """A tmpfs that only a keeper process and what is started through `enter` see; it goes with the keeper."""

    def __init__(self, folder: Path, size: str) -> None:
        self.folder = folder
        mount = f'mount -t tmpfs -o size={size} nadi "$0" && echo ready && exec sleep 1800'
        self._keeper = subprocess.Popen(
            ["unshare", "-m", "--propagation", "private", "sh", "-c", mount, str(folder)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self._keeper.stdout is not None
        self.possible = self._keeper.stdout.readline() == b"ready\n"
        self.enter = ("nsenter", "-t", str(self._keeper.pid), "-m")
        self.inside = Path(f"/proc/{self._keeper.pid}/root{folder}")

    def grow(self, size: str) -> None:
        subprocess.run([*self.enter, "mount", "-o", f"remount,size={size}", str(self.folder)], check=True)

    def close(self) -> None:
        self._keeper.kill()
        self._keeper.communicate()


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[SmallDisk]:
    folder.mkdir()
    disk = SmallDisk(folder, size)
    try:
        if not disk.possible:
            pytest.skip("a small disk needs the right to mount one in a namespace of its own")
        yield disk
    finally:
        disk.close()


def test_a_full_disk_is_named_and_what_was_to_be_written_comes_when_there_is_room(tmp_path: Path):
    given = made(20_000)
    (tmp_path / "in.jsonl").write_text(
        "".join(json.dumps({"event": {"k": k, "request": r, "n": n}}) + "\n" for k, r, n in given)
    )
    app = tmp_path / "sums.siddhi"
    source, sink = (
        f"type = 'file', file.uri = '{path}'" for path in (tmp_path / "in.jsonl", tmp_path / "disk" / "out.jsonl")
    )
    app.write_text(APP.format(source=source, sink=sink, every=1))
    conf = {"batch.events": 2_000, "buckets": 2, "hosts": 2}
    with small_disk(tmp_path / "disk", "1m") as disk:
        seen = disk.inside / "out.jsonl"
        with running(app, state=tmp_path / "state", conf=conf, before=disk.enter) as node:
            node.until(lambda: "Sums: waiting" in node.said())
            node.until(lambda: "no space left" in node.said().lower())
            disk.grow("512m")
            node.until(lambda: len(events(seen)) == len(given))
            stopped(node)
            assert per_key(events(seen)) == expected(given)
