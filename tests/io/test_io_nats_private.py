"""Finding 2: the embedded NATS server speaks to processes of its user only, and they to no other server, whoever listens on its port."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from eventually import eventually
from servers.ports import free_port

from nadi.errors import NadiError
from nadi.errors.exceptions import ConnectionUnavailableException
from nadi.io.guard import guarded
from nadi.io.journal import Journal
from nadi.io.natsclient import NatsClient, shared
from nadi.io.natsidentity import context, make_identity, parted, url_of
from nadi.io.natsserver import NatsServer, binary
from nadi.io.retry import Policy


def spoken_to(port: int, known: ssl.SSLContext | None, greeting: bytes = b"") -> bytes:
    """What a server says to a stranger."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as plain, contextlib.ExitStack() as open_:
        if known is None:
            plain.settimeout(0.5)  # it says nothing for as long as it waits for the handshake
            with contextlib.suppress(TimeoutError):
                plain.sendall(greeting)
                return plain.recv(1024)
            return b""
        try:
            encrypted = open_.enter_context(known.wrap_socket(plain))
            return encrypted.recv(1024)
        except OSError:
            return b""


def trusting() -> ssl.SSLContext:
    """A stranger who takes any server."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
    return made


def test_a_stranger_is_told_nothing(nats: NatsServer, tmp_path: Path) -> None:
    make_identity(tmp_path / "other.pem")
    another = trusting()
    another.load_cert_chain(tmp_path / "other.pem")
    assert b"INFO" not in spoken_to(nats.port, None)
    assert b"INFO" not in spoken_to(nats.port, None, b'CONNECT {"verbose":false}\r\nSUB > 1\r\nPING\r\n')
    assert spoken_to(nats.port, trusting()) == b""
    assert spoken_to(nats.port, another) == b""


def test_who_has_the_key_is_spoken_to(nats: NatsServer) -> None:
    identity = parted(nats.url)[1]
    assert identity is not None
    assert spoken_to(nats.port, context(identity)).startswith(b"INFO ")


def test_a_client_without_the_key_neither_reads_nor_forges_nor_purges(nats: NatsServer) -> None:
    Journal(NatsClient(nats.url), "App").append(0, [(1, b"x", {})])
    stranger = NatsClient(f"nats://127.0.0.1:{nats.port}")
    with pytest.raises(ConnectionUnavailableException):
        stranger.call(lambda nc: nc.request("$JS.API.STREAM.PURGE.NADI_App", b"", timeout=5))
    stranger.close()


class Thief:
    """Listens on a port and keeps what it is sent; with an identity it speaks TLS, and says what a NATS server says."""

    def __init__(self, identity: Path | None) -> None:
        self.heard = bytearray()
        self.calls = 0
        self._identity = identity
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Thief:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join(60)

    def _serve(self) -> None:
        info = {"server_id": "X", "server_name": "nadi", "version": "2.11.0", "max_payload": 1 << 20, "headers": True}
        while True:
            try:
                client = self._listening.accept()[0]
            except OSError:
                return
            self.calls += 1
            client.settimeout(20)
            with client, contextlib.suppress(OSError):
                spoken: socket.socket = client
                if self._identity is not None:
                    own = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                    own.load_cert_chain(self._identity)
                    spoken = own.wrap_socket(client, server_side=True)
                with spoken:
                    spoken.sendall(b"INFO " + json.dumps(info).encode() + b"\r\n")
                    while data := spoken.recv(65_536):
                        self.heard += data


@pytest.mark.parametrize("encrypted", [False, True])
def test_who_listens_on_the_port_while_the_server_is_away_gets_neither_secrets_nor_events(
    tmp_path: Path, encrypted: bool
) -> None:
    make_identity(tmp_path / "mine.pem")
    make_identity(tmp_path / "thief.pem")
    with Thief(tmp_path / "thief.pem" if encrypted else None) as thief:
        client = NatsClient(url_of(thief.port, tmp_path / "mine.pem"), policy=Policy(1, 1))
        with pytest.raises(ConnectionUnavailableException):
            client.call(lambda nc: nc.publish("nadi.App.in.0", b"an event"))
        client.close()
    assert thief.calls
    assert b"CONNECT" not in thief.heard
    assert b"an event" not in thief.heard


def test_the_key_is_for_its_user_only_and_stands_in_no_command_line_or_url(own_nats: NatsServer) -> None:
    address, identity = parted(own_nats.url)
    assert identity is not None
    secret = identity.read_text().split("-----")[2].strip()
    assert identity.stat().st_mode & 0o777 == 0o600
    assert identity.parent.stat().st_mode & 0o777 == 0o700
    assert address == f"tls://127.0.0.1:{own_nats.port}"
    assert secret not in own_nats.url
    assert secret not in Path(f"/proc/{own_nats.pid}/cmdline").read_text()
    assert secret not in Path(f"/proc/{own_nats.pid}/environ").read_text()
    assert NatsClient(own_nats.url).name == f"NATS server {address}"


def test_each_node_makes_a_key_of_its_own_and_leaves_none(tmp_path: Path) -> None:
    with NatsServer(tmp_path / "nats") as first:
        before = parted(first.url)[1]
        assert before is not None
        was = before.read_bytes()
    assert list((tmp_path / "nats").glob("*.pem")) == []
    (tmp_path / "nats" / "nats-1-killed.pem").write_bytes(was)
    with NatsServer(tmp_path / "nats", port=first.port) as second:
        after = parted(second.url)[1]
        assert after is not None
        assert list((tmp_path / "nats").glob("*.pem")) == [after]
        (tmp_path / "old.pem").write_bytes(was)
        with pytest.raises(ConnectionUnavailableException):
            NatsClient(url_of(second.port, tmp_path / "old.pem")).call(lambda nc: nc.publish("x", b""))


def test_a_client_whose_key_is_gone_with_its_server_says_that_it_cannot_connect(tmp_path: Path) -> None:
    client = NatsClient(url_of(free_port(), tmp_path / "gone.pem"))
    with pytest.raises(ConnectionUnavailableException, match=r"gone\.pem cannot be read"):
        client.call(lambda nc: nc.publish("x", b""))
    client.close()


def test_the_key_survives_a_restart_of_the_server_by_its_node(own_nats: NatsServer) -> None:
    client = NatsClient(own_nats.url)
    client.call(lambda nc: nc.flush())
    pid = own_nats.pid
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: own_nats.starts == 2 and own_nats.pid not in (0, pid))

    def spoken() -> bool:
        with contextlib.suppress(ConnectionUnavailableException):
            client.call(lambda nc: nc.flush())
            return True
        return False

    eventually(spoken)
    client.close()


def test_a_folder_that_others_may_write_to_gets_no_server(tmp_path: Path) -> None:
    (tmp_path / "nats").mkdir()
    (tmp_path / "nats").chmod(0o777)
    with pytest.raises(NadiError, match="FOLDER_NOT_PRIVATE"):
        NatsServer(tmp_path / "nats").start()


@pytest.fixture(params=['user: "u", password: "pass"', 'token: "t0k"'], ids=["password", "token"])
def users_own(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a server that a user has, with a password or a token."""
    port = free_port()
    config = tmp_path / "own.conf"
    config.write_text(
        f'listen: "127.0.0.1:{port}"\nauthorization {{ {request.param} }}\njetstream {{ store_dir: "{tmp_path}" }}\n'
    )
    server = guarded([binary(), "-c", str(config)], tmp_path / "own.log")
    eventually(lambda: "Server is ready" in (tmp_path / "own.log").read_text())
    yield f"nats://{'t0k' if 'token' in request.param else 'u:pass'}@127.0.0.1:{port}"
    server.stop()


def test_a_users_own_server_with_a_password_or_a_token_keeps_the_journal(users_own: str) -> None:
    assert Journal(shared(users_own), "App").append(0, [(1, b"x", {})]) == 0
    with pytest.raises(ConnectionUnavailableException):
        NatsClient("nats://" + users_own.rpartition("@")[2]).call(lambda nc: nc.flush())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_cannot_read_the_key(own_nats: NatsServer) -> None:
    identity = parted(own_nats.url)[1]
    tried = subprocess.run(["cat", str(identity)], user=65534, capture_output=True, text=True, check=False)
    assert tried.returncode != 0
    assert tried.stdout == ""
