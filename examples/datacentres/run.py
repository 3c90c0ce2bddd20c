"""Two data centres on this machine: two NATS servers, an app that reads both and publishes to both, and a publisher. One centre is lost and comes back, the app
is killed, the publisher begins anew. At the end each reading must have counted once.

    python examples/datacentres/run.py
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from nadi.io.jetstream import Outgoing, Stream, ensure_stream, publish_all, stream_config
from nadi.io.natsclient import NatsClient
from nadi.io.natsserver import NatsServer

APP = Path(__file__).with_name("sites.siddhi")
MACHINES = ("press", "oven", "saw")
PATIENCE = 120.0  # seconds


class Centre:
    """A data centre: a server with the subjects `readings` and `totals`."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.server = NatsServer(folder / name)
        self.server.start()
        for subject in ("readings", "totals"):
            self._call(lambda nc, s=subject: ensure_stream(nc, stream_config(s, [s])))  # type: ignore[misc]

    def take(self, messages: Sequence[Outgoing]) -> None:
        self._call(lambda nc: publish_all(nc, messages))

    def totals(self) -> dict[str, int]:
        """The greatest number of readings that were told of each machine."""
        client = NatsClient(self.server.url)
        stream = Stream(client, "totals")
        found: dict[str, int] = {}
        for part in stream.read(1, stream.bounds().last + 1):
            for message in part:
                event = json.loads(message.data)["event"]
                found[event["machine"]] = max(event["readings"], found.get(event["machine"], 0))
        client.close()
        return found

    def _call(self, asked: object) -> None:
        client = NatsClient(self.server.url)
        client.call(asked)  # type: ignore[arg-type]
        client.close()


class Publisher:
    """Numbers its readings from 0; each time it starts it is another incarnation."""

    def __init__(self, life: str) -> None:
        self.life = life
        self.sent = 0

    def send(self, centres: Sequence[Centre], count: int) -> None:
        messages = []
        for n in range(self.sent, self.sent + count):
            body = json.dumps({"event": {"machine": MACHINES[n % len(MACHINES)], "kwh": 1}}).encode()
            about = {"Nadi-Producer": f"meter@{self.life}", "Nadi-Group": "0", "Nadi-Number": str(n), "Nadi-Count": "1"}
            messages.append(Outgoing("readings", body, about))
        self.sent += count
        for centre in centres:
            centre.take(messages)


def start(folder: Path, west: Centre, east: Centre) -> subprocess.Popen[bytes]:
    """`nadi run`, as a user has it."""
    variables = [f"WEST={west.server.url}", f"EAST={east.server.url}"]
    command = [sys.executable, "-m", "nadi", "run", str(APP), "--state-dir", str(folder / "state")]
    for variable in variables:
        command += ["--env", variable]
    with (folder / "node.log").open("ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)


def until(centres: Sequence[Centre], readings: int, log: Path) -> None:
    """Wait until one of the centres was told of so many readings."""
    end = time.monotonic() + PATIENCE
    while max(sum(centre.totals().values()) for centre in centres) < readings:
        if time.monotonic() > end:
            raise SystemExit(f"the app did not tell of {readings} readings, see {log}")
        time.sleep(0.2)


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="nadi-datacentres-"))
    log = folder / "node.log"
    west, east = Centre("west", folder), Centre("east", folder)
    node = start(folder, west, east)
    publisher = Publisher("first")
    try:
        publisher.send((west, east), 30)
        until((west, east), 30, log)
        print("30 readings came through both centres:", west.totals(), flush=True)
        east.server.stop()
        publisher.send((west,), 30)
        until((west,), 60, log)
        print("the centre in the east is lost, the app goes on:", west.totals(), flush=True)
        os.killpg(node.pid, signal.SIGKILL)
        node.wait()
        east.server.start()
        publisher.send((east,), 30)
        node = start(folder, west, east)
        until((west, east), 90, log)
        print(
            "it is back, has readings that the west does not have, and the app was killed meanwhile:",
            east.totals(),
            flush=True,
        )
        again = Publisher("second")
        again.send((west, east), 30)
        until((west, east), 120, log)
        found = max(west.totals(), east.totals(), key=lambda totals: sum(totals.values()))
        print("the publisher began anew with its first number:", found, flush=True)
        wanted = publisher.sent + again.sent
        print(f"{wanted} readings were sent, {sum(found.values())} have counted")
        if sum(found.values()) != wanted:
            raise SystemExit(1)
    finally:
        if node.poll() is None:
            os.killpg(node.pid, signal.SIGINT)
            node.wait()
        west.server.stop()
        east.server.stop()


if __name__ == "__main__":
    main()
