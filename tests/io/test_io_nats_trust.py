"""NATS servers on other machines: clients take those that their authority has signed, these take clients that it has signed; others learn nothing."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlencode

import pytest
from eventually import eventually
from servers.keystores import Authority
from servers.ports import free_port

from nadi.channels import administration
from nadi.channels.options import Channel
from nadi.errors.exceptions import ConnectionUnavailableException
from nadi.io.guard import guarded
from nadi.io.natsclient import NatsClient
from nadi.io.natsserver import binary
from nadi.io.retry import Policy

CONFIG = """listen: "127.0.0.1:{port}"
jetstream {{ store_dir: "{folder}/data", sync_interval: always }}
tls {{ cert_file: "{folder}/server.pem", key_file: "{folder}/server.key", ca_file: "{folder}/authority.pem", verify: true, handshake_first: true }}
"""


def reachable(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of an authority, a server, and a node."""
    made = tmp_path_factory.mktemp("trust")
    authority = Authority(made)
    authority.sign("server")
    authority.sign("node")
    return made


@pytest.fixture(scope="module")
def port(folder: Path) -> Iterator[int]:
    """Where a server listens that takes nobody whom the authority has not signed."""
    at = free_port()
    (folder / "nats.conf").write_text(CONFIG.format(port=at, folder=folder))
    running = guarded([binary(), "-c", str(folder / "nats.conf")], folder / "nats.log", folder / "nats.lock")
    eventually(lambda: reachable(at))
    yield at
    running.stop()


def url(folder: Path, *ports: int, node: str = "node", authority: str = "authority") -> str:
    """As a deployment.yaml has it. `node` "": without a certificate of its own."""
    files = {"authority": folder / f"{authority}.pem"}
    if node:
        files |= {"certificate": folder / f"{node}.pem", "key": folder / f"{node}.key"}
    return ",".join(f"tls://127.0.0.1:{each}" for each in ports) + "?" + urlencode(files)


def asked(address: str) -> str:
    """ "" where a server answers a client, or why not."""
    client = NatsClient(address, policy=Policy(1, 1))
    try:
        client.call(lambda nc: nc.flush())
    except ConnectionUnavailableException as reason:
        return str(reason)
    finally:
        client.close()
    return ""


def test_a_node_whom_the_authority_has_signed_is_taken_and_takes_the_server(folder: Path, port: int) -> None:
    assert asked(url(folder, port)) == ""
    assert asked(url(folder, free_port(), port)) == "", "the second one of a list, where the first one is away"


def test_a_stranger_is_not_taken(folder: Path, port: int) -> None:
    Authority(folder, "other").sign("stranger")
    assert asked(f"nats://127.0.0.1:{port}")
    assert asked(url(folder, port, node="")), "without a certificate"
    assert asked(url(folder, port, node="stranger")), "with one that somebody else has signed"


def test_a_server_that_the_authority_has_not_signed_is_not_taken(folder: Path, port: int) -> None:
    Authority(folder, "elsewhere")
    assert "certificate" in asked(url(folder, port, authority="elsewhere"))


def test_who_listens_in_the_place_of_a_server_hears_nothing(folder: Path) -> None:
    heard = bytearray()
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def greet() -> None:
            client = listening.accept()[0]
            with client, suppress(OSError):
                client.settimeout(20)
                client.sendall(b"INFO " + json.dumps({"version": "2.11.0", "max_payload": 1 << 20}).encode() + b"\r\n")
                while data := client.recv(65_536):
                    heard.extend(data)

        thread = threading.Thread(target=greet, daemon=True)
        thread.start()
        assert asked(url(folder, listening.getsockname()[1]))
        thread.join(60)
    assert b"CONNECT" not in heard


def test_files_that_are_not_there_are_named(folder: Path, port: int) -> None:
    assert "gone.pem" in asked(url(folder, port, node="gone"))


def test_a_renewed_certificate_counts_at_the_next_connection(tmp_path: Path, folder: Path, port: int) -> None:
    for name in ("authority.pem", "node.pem", "node.key"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    address = url(tmp_path, port)
    client = NatsClient(address, policy=Policy(1, 1))
    client.call(lambda nc: nc.flush())
    Authority(tmp_path, "wrong").sign("node")
    client.call(lambda nc: nc.flush())  # the connection that there is goes on
    assert asked(address)
    client.close()


def test_a_channel_is_on_servers_that_the_authority_has_signed(folder: Path, port: int) -> None:
    channel = Channel("nats", "Trusted_S", 1, url(folder, port))
    administration.create(channel)
    assert administration.progress(channel) == {}
    administration.remove(channel)
