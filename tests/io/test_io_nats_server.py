from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from descriptors import is_readable
from eventually import alive, eventually

from nadi.errors import NadiError
from nadi.errors.exceptions import ConnectionUnavailableException
from nadi.io import guard, natsserver
from nadi.io.natsclient import NatsClient, api
from nadi.io.natsserver import NatsServer

NODE = """
import pathlib, sys, time
from nadi.io.natsserver import NatsServer
server = NatsServer(pathlib.Path(sys.argv[1]))
server.start()
print(server.pid, flush=True)
time.sleep(600)
"""


def test_the_server_is_gone_after_its_node_was_killed(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", NODE, str(tmp_path)], stdout=subprocess.PIPE, text=True) as node:
        assert node.stdout is not None
        server = int(node.stdout.readline())
        assert alive(server)
        node.send_signal(signal.SIGKILL)
        eventually(lambda: not alive(server))


def test_the_server_is_gone_even_when_the_guard_is_killed_first(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", NODE, str(tmp_path)], stdout=subprocess.PIPE, text=True) as node:
        assert node.stdout is not None
        server = int(node.stdout.readline())
        guard = int(Path(f"/proc/{server}/stat").read_text().rpartition(")")[2].split()[1])
        node.send_signal(signal.SIGKILL)
        os.kill(guard, signal.SIGKILL)
        eventually(lambda: not alive(server))


def test_a_server_that_died_comes_back_on_its_port_with_its_data(own_nats: NatsServer) -> None:
    client = NatsClient(own_nats.url)
    client.call(lambda nc: api(nc, "STREAM.CREATE.S", {"name": "S", "subjects": ["s"]}))
    url, pid = own_nats.url, own_nats.pid
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: own_nats.starts == 2 and own_nats.pid not in (0, pid))

    def there() -> bool:
        try:
            return client.call(lambda nc: api(nc, "STREAM.INFO.S"))["config"]["name"] == "S"
        except ConnectionUnavailableException:
            return False

    eventually(there)
    assert own_nats.url == url
    client.close()


def test_a_stopped_server_is_gone_and_can_be_followed_by_another(tmp_path: Path) -> None:
    with NatsServer(tmp_path) as first:
        pid = first.pid
    assert not alive(pid)
    with NatsServer(tmp_path) as second:
        assert alive(second.pid)


def test_two_nodes_cannot_share_a_folder(own_nats: NatsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NADI_LOCK_WAIT", "0.2")
    with pytest.raises(NadiError, match="another node works on") as failure:
        NatsServer(tmp_path / "nats").start()
    assert failure.value.condition == "SERVER_NOT_STARTED"
    assert alive(own_nats.pid)


def test_it_listens_on_the_loopback_interface_only(own_nats: NatsServer) -> None:
    port = f"{own_nats.port:04X}"
    listening = [line.split()[1] for line in Path("/proc/net/tcp").read_text().splitlines() if f":{port} " in line]
    assert f"0100007F:{port}" in listening
    assert f"00000000:{port}" not in listening
    assert f":{port} " not in Path("/proc/net/tcp6").read_text()


def _dying(folder: Path, times: int) -> Path:
    """A server that is killed before it has answered anybody, so many times; then the real one."""
    made = folder / "dying"
    made.write_text(
        f"#!/bin/sh\nn=$(cat {folder}/n 2>/dev/null || echo 0)\nif [ $n -lt {times} ]; then echo $((n + 1)) > {folder}/n; "
        f'echo "[INF] Server is ready"; kill -9 $$; fi\nexec {natsserver.binary()} "$@"\n'
    )
    made.chmod(0o755)
    return made


def test_a_server_that_is_killed_while_it_starts_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dying = _dying(tmp_path, 2)
    monkeypatch.setattr(natsserver, "binary", lambda: str(dying))
    with NatsServer(tmp_path / "nats") as server:
        assert server.starts == 3
        client = NatsClient(server.url)
        client.call(lambda nc: api(nc, "INFO"))
        client.close()


def test_a_server_that_is_killed_each_time_is_told_with_the_signal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dying = _dying(tmp_path, 100)
    monkeypatch.setattr(natsserver, "binary", lambda: str(dying))
    with pytest.raises(NadiError, match=r"SERVER_NOT_STARTED.*killed by signal 9"):
        NatsServer(tmp_path / "nats").start()


def test_a_guard_whose_system_does_not_tell_of_its_parents_end_looks_at_its_id(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "LOOK", 0.01)
    held = [*os.pipe(), *os.pipe()]
    try:
        assert not guard._parent_gone(held[0], os.getppid(), held[2], None)
        assert guard._parent_gone(held[0], os.getppid() + 1, held[2], None)
        os.close(held.pop(1))  # the parent's end of the pipe
        assert guard._parent_gone(held[0], os.getppid(), held[1], None)
    finally:
        for descriptor in held:
            os.close(descriptor)


def test_the_end_of_a_process_is_told() -> None:
    with subprocess.Popen(["sleep", "60"]) as other:
        told = guard._told_of(other.pid)
        assert told is not None
        assert not is_readable(told, 0)
        other.kill()
        assert is_readable(told, 20)
        os.close(told)
