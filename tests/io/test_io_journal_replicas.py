"""A journal on three servers of a NATS cluster: one of them is lost with its disk, and nothing that was acknowledged is."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from eventually import eventually
from log_contract import payloads
from servers.ports import free_ports

from nadi.errors import NadiError
from nadi.io.journal import Journal
from nadi.io.journallog import JournalLog
from nadi.io.journalmessages import stream_name
from nadi.io.natsclient import NatsClient, api
from nadi.io.natsserver import binary

CONFIG = """
server_name: "n{number}"
listen: "127.0.0.1:{port}"
max_payload: 8MB
jetstream {{ store_dir: "{folder}/n{number}", sync_interval: always }}
cluster {{ name: "c", listen: "127.0.0.1:{own}", routes: [{routes}] }}
"""


class Servers:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        ports = free_ports(6)
        self.ports, routes = ports[:3], ports[3:]
        named = ", ".join(f'"nats://127.0.0.1:{port}"' for port in routes)
        self.running: list[subprocess.Popen[bytes]] = []
        for number, port in enumerate(self.ports):
            file = folder / f"{number}.conf"
            file.write_text(CONFIG.format(number=number, port=port, folder=folder, own=routes[number], routes=named))
            with (folder / f"{number}.log").open("wb") as log:
                self.running.append(subprocess.Popen([binary(), "-c", str(file)], stdout=log, stderr=log))

    @property
    def url(self) -> str:
        return ",".join(f"nats://127.0.0.1:{port}" for port in self.ports) + "?replicas=3"

    def lose(self, number: int) -> None:
        """A server, with its disk."""
        self.running[number].kill()
        self.running[number].wait()
        shutil.rmtree(self.folder / f"n{number}")

    def close(self) -> None:
        for one in self.running:
            one.kill()
            one.wait()


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    made = Servers(tmp_path)
    yield made
    made.close()


def test_what_was_acknowledged_is_there_whichever_server_is_lost(servers: Servers):
    app = f"App{uuid4().hex[:8]}"
    client = NatsClient(servers.url)
    journal = Journal(client, app)

    def appended(text: bytes) -> bool:
        try:
            journal.append(0, [(1_000, text, {})])
        except NadiError:
            return False
        return True

    eventually(lambda: appended(b"first"))
    assert appended(b"second")
    found = client.call(lambda nc: api(nc, f"STREAM.INFO.{stream_name(app)}"))
    assert found["config"]["num_replicas"] == 3
    leader = found["cluster"]["leader"]
    servers.lose(int(leader.removeprefix("n")))
    eventually(lambda: appended(b"third"))
    assert set(payloads(JournalLog(client, app, 0))) == {b"first", b"second", b"third"}
    assert payloads(JournalLog(client, app, 0))[:2] == [b"first", b"second"]


def test_a_number_of_servers_that_cannot_be_is_refused():
    with pytest.raises(NadiError, match="INVALID_SETTING"):
        NatsClient("nats://127.0.0.1:4222?replicas=9")
