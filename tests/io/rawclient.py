"""A client that sends bytes as they are: what a library would never send can be sent."""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

PATIENCE = 20  # seconds


@dataclass(frozen=True)
class Heard:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def error(self) -> str:
        told: Any = json.loads(self.body)
        return str(told["error"])


class RawClient:
    """One connection."""

    def __init__(self, url: str, trusted: ssl.SSLContext | None = None) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        self.path = parts.path
        self._socket = socket.create_connection((parts.hostname, parts.port or 80), PATIENCE)
        if trusted is not None:
            plain = self._socket
            try:
                self._socket = trusted.wrap_socket(plain, server_hostname=parts.hostname)
            except OSError:
                plain.close()
                raise
        self._rest = b""

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def post(self, body: bytes = b"", *headers: str, length: int | None = None) -> None:
        """Send a request with a body; `length` is what is said of it."""
        lines = [f"POST {self.path} HTTP/1.1", "Host: h", f"Content-Length: {len(body) if length is None else length}"]
        self.send("\r\n".join([*lines, *headers, "", ""]).encode() + body)

    def finish(self) -> None:
        """Send no more."""
        self._socket.shutdown(socket.SHUT_WR)

    def hear(self) -> Heard:
        """The next answer."""
        while b"\r\n\r\n" not in self._rest:
            self._read()
        head, _, self._rest = self._rest.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        pairs = (line.partition(":") for line in lines)
        headers = {name.lower(): value.strip() for name, _, value in pairs}
        status = int(first.split()[1])
        length = int(headers.get("content-length", 0))
        while len(self._rest) < length:
            self._read()
        body, self._rest = self._rest[:length], self._rest[length:]
        return Heard(status, headers, body)

    def over(self) -> bool:
        """Wait until the server has ended the connection; whether nothing came before."""
        try:
            return not self._rest and not self._socket.recv(1)
        except ConnectionError:
            return True

    def close(self) -> None:
        self._socket.close()

    def _read(self) -> None:
        more = self._socket.recv(65_536)
        if not more:
            raise EOFError(f"the connection ended after {self._rest!r}")
        self._rest += more


@contextmanager
def raw(url: str, trusted: ssl.SSLContext | None = None) -> Iterator[RawClient]:
    client = RawClient(url, trusted)
    try:
        yield client
    finally:
        client.close()
