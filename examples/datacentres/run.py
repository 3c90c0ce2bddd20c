"""Two data centres on this machine: two NATS servers, an app that reads both and publishes to both, and a publisher. One centre is lost and comes back, the app
is killed, the publisher begins anew. At the end each reading must have counted once.

    python examples/datacentres/run.py
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from nadi.io.jetstream import Outgoing, Stream, ensure_stream, publish_all, stream_config
from nadi.io.natsclient import NatsClient
from nadi.io.natsserver import NatsServer

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "cluster"))

from narration import say, until  # noqa: E402
from stage import perform  # noqa: E402

APP = HERE / "sites.siddhi"
MACHINES = ("press", "oven", "saw")


class Centre:
    """A data centre: a server with the subjects `readings` and `totals`."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.server = NatsServer(folder / name)

    def start(self) -> None:
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


@contextlib.contextmanager
def centre(name: str, folder: Path) -> Iterator[Centre]:
    """A data centre that runs."""
    made = Centre(name, folder)
    try:
        made.start()
        yield made
    finally:
        made.server.stop()


@contextlib.contextmanager
def started(folder: Path, west: Centre, east: Centre) -> Iterator[subprocess.Popen[bytes]]:
    """`nadi run`, as a user has it."""
    command = [sys.executable, "-m", "nadi", "run", str(APP), "--state-dir", str(folder / "state")]
    command += ["--env", f"WEST={west.server.url}", "--env", f"EAST={east.server.url}"]
    with (folder / "node.log").open("ab") as log:
        node = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    try:
        yield node
    finally:
        if node.poll() is None:
            os.killpg(node.pid, signal.SIGINT)
            node.wait()


def until_counted(centres: Sequence[Centre], readings: int, log: Path) -> None:
    """Wait until one of the centres was told of so many readings."""

    def are_there() -> bool:
        return max(sum(centre.totals().values()) for centre in centres) >= readings

    until(are_there, f"{readings} readings have been counted ({log} has what the app said)")


def tell(folder: Path) -> bool:
    """All of it; whether each reading has counted once."""
    log = folder / "node.log"
    with ExitStack() as running:
        west, east = (running.enter_context(centre(name, folder)) for name in ("west", "east"))
        node = running.enter_context(started(folder, west, east))
        publisher = Publisher("first")
        publisher.send((west, east), 30)
        until_counted((west, east), 30, log)
        say(f"30 readings came through both centres: {west.totals()}")
        east.server.stop()
        publisher.send((west,), 30)
        until_counted((west,), 60, log)
        say(f"The centre in the east is lost, the app goes on: {west.totals()}")
        os.killpg(node.pid, signal.SIGKILL)
        node.wait()
        east.server.start()
        publisher.send((east,), 30)
        running.enter_context(started(folder, west, east))
        until_counted((west, east), 90, log)
        say(f"It is back, has readings that the west does not have, and the app was killed meanwhile: {east.totals()}")
        again = Publisher("second")
        again.send((west, east), 30)
        until_counted((west, east), 120, log)
        found = max(west.totals(), east.totals(), key=lambda totals: sum(totals.values()))
        say(f"The publisher began anew with its first number: {found}")
        wanted = publisher.sent + again.sent
        say(f"{wanted} readings were sent, {sum(found.values())} have counted.")
        return sum(found.values()) == wanted


if __name__ == "__main__":
    sys.exit(perform("datacentres", tell))
