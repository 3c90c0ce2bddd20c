"""The lane between machines: the same frames (`nadi.pipeline.hosting.lane`) over TCP, behind proof of a token that both sides have.

    client ──► magic, nonce of the client (32 bytes)
    server ──► nonce of the server (32 bytes), HMAC-SHA256 of "server", both nonces and the server's address by the token
    client ──► HMAC-SHA256 of "client", both nonces and the address by the token
    server ──► 1 byte: come in

Each side has made one of the nonces, so that nothing heard on an earlier connection proves anything. The address is a part of it, so that a stranger cannot
hand the proof on to another door. What follows is neither encrypted nor signed: the network between the machines of a cluster must be one that others cannot
write to.
"""

from __future__ import annotations

import hmac
import os
import secrets
import socket
from pathlib import Path

from nadi.pipeline.hosting.lane import Handler, LaneClient, LaneServer
from nadi.pipeline.hosting.protocol import exactly

MAGIC = b"NADIDOOR1"
NONCE = 32  # bytes
PROOF = 32
_COME_IN = b"\x01"
WITHIN = 5.0  # seconds for a connection with its proofs
SILENT = 15_000  # ms after which a machine that acknowledges nothing counts as gone


def new_token() -> str:
    """What the processes of one run of a node know each other by."""
    return secrets.token_hex(32)


_RING = "tcp:"


def bell(address: str, token: str) -> str:
    """A door as one word, for whoever is to ring there.

    >>> address_of(bell("10.0.0.1:4711", "sesame")), address_of("/tmp/coordinator.lane")
    (('10.0.0.1:4711', 'sesame'), None)
    """
    return f"{_RING}{token}@{address}"


def address_of(word: str) -> tuple[str, str] | None:
    """(address, token) of what `bell` gave; None for the path of a socket."""
    if not word.startswith(_RING):
        return None
    token, _, address = word.removeprefix(_RING).partition("@")
    return address, token


class Door(LaneServer):
    """Answers at a free TCP port of this machine, from its making to `close`; strangers are not answered. `machine` is how others reach this one."""

    def __init__(self, machine: str, token: str, handler: Handler) -> None:
        self._machine = machine
        self._token = token.encode()
        super().__init__(Path("door"), handler)

    @property
    def address(self) -> str:
        """`host:port`, as others reach it."""
        return f"{self._machine}:{self._listening.getsockname()[1]}"

    @property
    def bell(self) -> str:
        """The door as one word, for whoever is to ring there: it has the token in it."""
        return bell(self.address, self._token.decode())

    def _listen(self) -> socket.socket:
        family, place = _family(self._machine)
        made = socket.socket(family, socket.SOCK_STREAM)
        made.bind((place, 0))
        made.listen(128)
        return made

    def _admit(self, connection: socket.socket) -> bool:
        connection.settimeout(WITHIN)
        hello = exactly(connection, len(MAGIC) + NONCE)
        if hello is None or bytes(hello[: len(MAGIC)]) != MAGIC:
            return False
        theirs, ours = bytes(hello[len(MAGIC) :]), os.urandom(NONCE)
        connection.sendall(ours + _proof(self._token, b"server", theirs, ours, self.address))
        told = exactly(connection, PROOF)
        if told is None or not hmac.compare_digest(told, _proof(self._token, b"client", theirs, ours, self.address)):
            return False
        connection.sendall(_COME_IN)
        connection.settimeout(None)
        _watch(connection)
        return True


class DoorClient(LaneClient):
    """One connection to a door. Errors: OSError where it is not there, or does not prove that it is one of ours."""

    def __init__(self, address: str, token: str) -> None:
        self._number = 0
        self._connection = _let_in(address, token.encode())


def _let_in(address: str, token: bytes) -> socket.socket:
    machine, _, port = address.rpartition(":")
    made = socket.create_connection((machine.strip("[]"), int(port)), WITHIN)
    try:
        ours = os.urandom(NONCE)
        made.sendall(MAGIC + ours)
        told = exactly(made, NONCE + PROOF)
        if told is None:
            raise ConnectionError(f"{address} closed the connection")
        theirs = bytes(told[:NONCE])
        if not hmac.compare_digest(told[NONCE:], _proof(token, b"server", ours, theirs, address)):
            raise ConnectionError(f"{address} does not know the token of this node")
        made.sendall(_proof(token, b"client", ours, theirs, address))
        if exactly(made, len(_COME_IN)) is None:
            raise ConnectionError(f"{address} does not let us in")
        made.settimeout(None)
        _watch(made)
    except BaseException:
        made.close()
        raise
    return made


def _proof(token: bytes, who: bytes, client: bytes, server: bytes, address: str) -> bytes:
    return hmac.digest(token, who + client + server + address.encode(), "sha256")


def _watch(connection: socket.socket) -> None:
    """Notice a machine that went without a word. A small frame is sent at once."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 5), ("TCP_KEEPINTVL", 2), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", SILENT)):
        if hasattr(socket, name):  # not every system has all of them
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _family(machine: str) -> tuple[socket.AddressFamily, str]:
    """Where to listen so that a machine is reached by this name: at loopback only where it is that."""
    found = socket.getaddrinfo(machine.strip("[]"), None, type=socket.SOCK_STREAM)[0]
    family, place = found[0], str(found[4][0])
    if place.startswith("127.") or place == "::1":
        return family, place
    return family, "::" if family == socket.AF_INET6 else "0.0.0.0"
