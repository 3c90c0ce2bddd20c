"""The connection to a NATS server that has an identity (`nadi.io.natsidentity`): TLS from the first byte.

nats-py's own way to TLS has asyncio complain about each connection that ends, and hands it messages of megabytes at once, for which asyncio asks the system for
fresh memory three times: half of the throughput.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Any
from urllib.parse import ParseResult

from nats.aio.transport import TcpTransport

PIECE = 256 * 1024  # bytes that are encrypted and sent before the next ones are
_GOODBYE = 1.0  # seconds that the other side has to answer that it is over


class SecuredTransport(TcpTransport):
    """Implements nats-py's Transport."""

    def __init__(self, context: ssl.SSLContext) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._context = context
        self._tried = False

    def __bool__(self) -> bool:
        """Whether it is to be used: nats-py makes another one where it finds none to begin with."""
        return not self._tried or self._io_writer is not None

    async def connect(self, uri: ParseResult, buffer_size: int, connect_timeout: int) -> None:
        """Connect; whoever listens has proved who he is on return."""
        self._tried = True
        opened = asyncio.open_connection(
            uri.hostname,
            uri.port,
            limit=buffer_size,
            ssl=self._context,
            ssl_handshake_timeout=connect_timeout,
            ssl_shutdown_timeout=_GOODBYE,
        )
        async with asyncio.timeout(connect_timeout):
            self._io_reader, self._io_writer = await opened

    async def connect_tls(self, *_: Any) -> None:
        """It is TLS already."""

    def write(self, payload: bytes) -> None:
        """Send bytes, in the background where the system does not take them at once."""
        assert self._io_writer is not None
        if len(payload) <= PIECE:
            self._io_writer.write(payload)
            return
        view = memoryview(payload)
        for start in range(0, len(view), PIECE):
            self._io_writer.write(view[start : start + PIECE])

    def writelines(self, payload: list[bytes]) -> None:
        """As `write`, many at a time."""
        assert self._io_writer is not None
        if sum(map(len, payload)) <= PIECE:
            self._io_writer.writelines(payload)
            return
        for one in payload:
            self.write(one)
