"""Ways between processes, as TCP proxies that can lose what is sent: a black hole, both ways or one way.

A worker's packets to managers are lost (`OUT`), or those of managers to the worker (`IN`), or both; and the same for whoever listens behind a way of its own
(`to_worker`). Connections stay open meanwhile, as in a network that drops packets, and are closed when the way is whole again.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import threading
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

OUT, IN = "out", "in"
CHUNK = 64 * 1024
_WORKER = re.compile(rb'"id":"([^"]+)"')


@dataclass(eq=False, slots=True)
class _Way:
    """One connection. `worker` is whose it is; `asks`: the worker made it, so what it sends is on its way out."""

    worker: str
    asks: bool
    client: asyncio.StreamWriter
    server: asyncio.StreamWriter


class Wires:
    """All proxies, in one thread. Closed with `close`."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="wires", daemon=True)
        self._thread.start()
        self._lost: dict[str, frozenset[str]] = {}
        self._ways: set[_Way] = set()
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def to_manager(self, listens: int, port: int) -> None:
        """Have a port of this machine lead to a manager's. Whose connection it is says the first heartbeat on it; other requests are those of managers."""
        self._do(self._listen(listens, port, ""))

    def to_worker(self, listens: int, port: int, worker: str) -> None:
        """Have a port lead to a worker's, or to that of any server: `IN` is what comes to it, `OUT` what it answers."""
        self._do(self._listen(listens, port, worker))

    def lose(self, worker: str, *ways: str) -> None:
        """From now on what goes these ways is lost; nothing for whole again."""
        self._do(self._set(worker, frozenset(ways)))

    def close(self) -> None:
        self._do(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    # ---- in the loop

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    async def _listen(self, listens: int, port: int, worker: str) -> None:
        def taken(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = self._loop.create_task(self._serve(reader, writer, port, worker))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        self._servers.append(await asyncio.start_server(taken, "127.0.0.1", listens))

    async def _set(self, worker: str, ways: frozenset[str]) -> None:
        self._lost[worker] = ways
        if not ways:  # what was lost in the middle of a connection does not come any more
            for way in [way for way in self._ways if way.worker == worker]:
                _abort(way.client)
                _abort(way.server)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int, worker: str) -> None:
        try:
            head = b""
            asks = not worker
            if asks:
                head, worker = await _named(reader)
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            _abort(writer)
            return
        way = _Way(worker, asks, writer, far_writer)
        self._ways.add(way)
        try:
            if head and not self._is_lost(way, True):
                far_writer.write(head)
            async with asyncio.TaskGroup() as pumps:
                pumps.create_task(self._pump(reader, far_writer, way, True))
                pumps.create_task(self._pump(far_reader, writer, way, False))
        finally:
            self._ways.discard(way)
            _abort(writer)
            _abort(far_writer)

    def _is_lost(self, way: _Way, asked: bool) -> bool:
        """Whether a request (`asked`) or an answer on a connection is lost now."""
        return (OUT if way.asks == asked else IN) in self._lost.get(way.worker, frozenset())

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: _Way, asked: bool) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(CHUNK):
                if not self._is_lost(way, asked):
                    writer.write(data)
                    await writer.drain()
        if not self._is_lost(way, asked):  # the end of a connection is a packet, too
            with contextlib.suppress(OSError, RuntimeError):
                writer.write_eof()

    async def _end(self) -> None:
        for server in self._servers:
            server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def _named(reader: asyncio.StreamReader) -> tuple[bytes, str]:
    """What has come so far of a request, and the worker that it is of; "" for one of a manager."""
    head = b""
    while data := await reader.read(CHUNK):
        head += data
        if found := _WORKER.search(head):
            return head, found[1].decode()
        if b"\r\n" in head and b"/heartbeat" not in head.partition(b"\r\n")[0]:
            break
    return head, ""


def _abort(writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(RuntimeError):
        writer.transport.abort()
