"""Streams with replicas on three servers; and turns where that of the rows is one: what it compares it compares one message at a time."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from eventually import eventually
from servers.ports import free_port

from nadi.errors import NadiError
from nadi.io.jetstream import Outgoing, Stream, ensure_stream, stream_config
from nadi.io.natsclient import NatsClient, api
from nadi.io.natsserver import binary
from nadi.io.sinks.natsfence import Fence
from nadi.io.sinks.natsturn import Register
from nadi.io.sinks.numbers import Numbers
from nadi.io.turn import Turn

pytestmark = pytest.mark.slow

MADE_BY = "alerts/0@a7"
ROWS = 3_000


@pytest.fixture
def client(tmp_path: Path) -> Iterator[NatsClient]:
    """Of a cluster of three servers."""
    ports, inner = ([free_port() for _ in range(3)] for _ in range(2))
    routes = ",".join(f"nats-route://127.0.0.1:{port}" for port in inner)
    running = []
    for i in range(3):
        config = tmp_path / f"{i}.conf"
        config.write_text(
            f'server_name: "n{i}"\nlisten: "127.0.0.1:{ports[i]}"\njetstream {{ store_dir: "{tmp_path}/{i}" }}\n'
            f'cluster {{ name: c, listen: "127.0.0.1:{inner[i]}", routes: [{routes}] }}\n'
        )
        command = [binary(), "-c", str(config)]
        running.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
    made = NatsClient(",".join(f"nats://127.0.0.1:{port}" for port in ports))
    yield made
    made.close()
    for server in running:
        server.kill()
        server.wait()


def goes(action: Callable[[], object]) -> bool:
    try:
        action()
    except NadiError:
        return False  # the servers have not found each other yet
    return True


def append(fence: Fence, first: int, end: int) -> None:
    rows = [Numbers(0, n, 1) for n in range(first, end) if not fence.delivered.has(Numbers(0, n, 1))]
    about = {"Nadi-Producer": MADE_BY, "Nadi-Group": "0", "Nadi-Count": "1"}
    messages = [Outgoing("t", str(of.number).encode(), {**about, "Nadi-Number": str(of.number)}) for of in rows]
    fence.append(messages, [Numbers(0, n, 1) for n in range(first, end)])


def test_who_takes_over_in_the_middle_of_what_another_one_publishes_goes_on_there(client: NatsClient) -> None:
    wanted = {**stream_config("T", ["t"]), "num_replicas": 3}
    eventually(lambda: goes(lambda: client.call(lambda nc: ensure_stream(nc, wanted))), 60)
    register = Register(client, "t")
    eventually(lambda: goes(register.make), 60)
    assert client.call(lambda nc: api(nc, f"STREAM.INFO.{register.stream}"))["config"]["num_replicas"] == 3
    west, east = Turn(1, "west", "a7"), Turn(2, "east", "a7")
    register.give(west, 0)
    old, new = (Fence(register, "T", "alerts/0") for _ in range(2))
    old.begin(west, MADE_BY)
    append(old, 0, 100)
    told: list[str] = []

    def publish() -> None:
        try:
            append(old, 100, ROWS)
        except NadiError as reason:
            told.append(reason.condition)

    stream = Stream(client, "T", "t")
    thread = threading.Thread(target=publish)
    thread.start()
    eventually(lambda: stream.bounds().last > 200)
    register.give(east, register.turn()[1])
    new.begin(east, MADE_BY)
    append(new, 0, ROWS)
    thread.join()
    assert told == ["SEQUENCE_TAKEN"]
    found = [int(m.data) for part in stream.read(1, stream.bounds().last + 1) for m in part]
    assert found == list(range(ROWS))


def replicas_of(client: NatsClient, stream: str) -> int:
    told = client.call(lambda nc: api(nc, f"STREAM.INFO.{stream}"))
    return int(told["config"]["num_replicas"])


def test_a_stream_that_has_fewer_replicas_than_are_wanted_gets_them_and_keeps_what_it_has(client: NatsClient) -> None:
    before = stream_config("Before", ["before"])
    eventually(lambda: goes(lambda: client.call(lambda nc: ensure_stream(nc, before))))
    client.call(lambda nc: nc.jetstream().publish("before", b"row"))
    assert replicas_of(client, "Before") == 1
    wanted = {**before, "num_replicas": 3}
    eventually(lambda: goes(lambda: client.call(lambda nc: ensure_stream(nc, wanted))))
    assert replicas_of(client, "Before") == 3
    client.call(lambda nc: ensure_stream(nc, before))
    assert replicas_of(client, "Before") == 3, "nobody takes away what another one wants"
    assert client.call(lambda nc: api(nc, "STREAM.INFO.Before"))["state"]["messages"] == 1


def test_replicas_for_which_there_are_not_enough_servers_are_refused(client: NatsClient) -> None:
    few = stream_config("Few", ["few"])
    eventually(lambda: goes(lambda: client.call(lambda nc: ensure_stream(nc, few))))
    with pytest.raises(NadiError, match="REFUSED"):
        client.call(lambda nc: ensure_stream(nc, {**few, "num_replicas": 5}))
