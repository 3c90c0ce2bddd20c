"""The clients of the suite `http`: many connections in one process, as cheap as Python can: raw sockets, requests made beforehand but for their numbers.

python -m bench.posts_load PLAN. Lines on standard output are JSON: `{"at": "open"|"waited"|"done", …}`. What was acknowledged goes into a file, as pairs of a
first number and a count. The end of the standard input ends it.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections import Counter, deque
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import numpy as np

OPENING = 200  # connections that are opened at a time
USED_AT_A_TIME = 50


class Plan(msgspec.Struct):
    """`events` are those of a request; `rate` is requests/s (0: as many as are answered); `used` are the connections that send something after idling
    for `wait` seconds."""

    kind: str
    url: str
    first: int
    taken: str
    clients: int
    events: int
    seconds: float = 0.0
    rate: float = 0.0
    used: int = 0
    wait: float = 5.0


class Requests:
    """Makes requests with events of their own numbers."""

    def __init__(self, plan: Plan) -> None:
        parts = urlsplit(plan.url)
        self._head = f"POST {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Type: application/json\r\n"
        self._events = plan.events
        self._next = plan.first

    def make(self) -> tuple[int, bytes]:
        """(the first number, the request). Events of even numbers pass the filter."""
        first, self._next = self._next, self._next + self._events
        texts = [f'{{"event":{{"id":{n},"price":{"25.5" if n % 2 else "75.5"}}}}}' for n in range(first, self._next)]
        body = texts[0] if len(texts) == 1 else "[" + ",".join(texts) + "]"
        return first, f"{self._head}Content-Length: {len(body)}\r\n\r\n{body}".encode()


class Taken:
    """What was answered: which numbers, how long it took (s), which other answers there were."""

    def __init__(self, plan: Plan) -> None:
        self._count = plan.events
        self._file = Path(plan.taken)
        self.firsts: list[int] = []
        self.took: list[float] = []
        self.others: Counter[str] = Counter()

    def save(self) -> None:
        pairs = np.empty((len(self.firsts), 2), np.int64)
        pairs[:, 0], pairs[:, 1] = self.firsts, self._count
        pairs.tofile(self._file)

    def told(self, seconds: float) -> dict[str, Any]:
        ms = np.percentile(np.array(self.took) * 1000, [50, 99]) if self.took else (0.0, 0.0)
        rate = len(self.firsts) / seconds
        return {
            "requests": len(self.firsts),
            "requests_per_s": rate,
            "events_per_s": rate * self._count,
            "ms": {"p50": float(ms[0]), "p99": float(ms[1])},
            "others": dict(self.others),
            "seconds": seconds,
        }


class Client(asyncio.Protocol):
    """A connection with one request at a time."""

    def __init__(self, taken: Taken, free: Callable[[Client], None]) -> None:
        self._taken = taken
        self._free = free
        self._first = -1
        self._due = 0.0
        self._rest = b""
        self.lost = False
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, reason: Exception | None) -> None:
        self.lost = True
        if self._first >= 0:
            self._taken.others["connection lost"] += 1

    def send(self, first: int, request: bytes, due: float) -> None:
        self._first, self._due = first, due
        self._transport.write(request)

    def close(self) -> None:
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        if self._rest:
            data = self._rest + data
        if not data.endswith(b"\r\n\r\n") and not data.endswith(b"}"):
            self._rest = data
            return
        self._rest = b""
        if data.startswith(b"HTTP/1.1 202"):
            self._taken.firsts.append(self._first)
            self._taken.took.append(time.perf_counter() - self._due)
        else:
            self._taken.others[data[9:12].decode()] += 1
        self._first = -1
        self._free(self)


async def connected(plan: Plan, taken: Taken, free: Callable[[Client], None]) -> list[Client]:
    loop = asyncio.get_running_loop()
    parts = urlsplit(plan.url)
    made: list[Client] = []
    while len(made) < plan.clients:
        some = min(OPENING, plan.clients - len(made))
        pairs = await asyncio.gather(
            *(loop.create_connection(lambda: Client(taken, free), parts.hostname, parts.port) for _ in range(some))
        )
        made += [client for _transport, client in pairs]
    return made


async def load(plan: Plan) -> dict[str, Any]:
    """Send as much as is answered, or at a rate: then a request that has no free connection waits, and its time counts from when it was due."""
    requests, taken = Requests(plan), Taken(plan)
    loop = asyncio.get_running_loop()
    waiting: deque[Client] = deque()
    due: deque[float] = deque()
    over = False

    def free(client: Client) -> None:
        if over:
            return
        if not plan.rate:
            client.send(*requests.make(), time.perf_counter())
        elif due:
            client.send(*requests.make(), due.popleft())
        else:
            waiting.append(client)

    clients = await connected(plan, taken, free)
    begin = time.perf_counter()
    for client in clients:
        free(client)
    if plan.rate:
        sent = 0
        while (now := time.perf_counter()) < begin + plan.seconds:
            while sent < (now - begin) * plan.rate:
                at = begin + sent / plan.rate
                sent += 1
                if waiting:
                    waiting.popleft().send(*requests.make(), at)
                else:
                    due.append(at)
            await asyncio.sleep(max(0.0, begin + sent / plan.rate - time.perf_counter()))
    else:
        await asyncio.sleep(plan.seconds)
    over = True
    told = taken.told(time.perf_counter() - begin)
    await _answered(clients, loop.time() + 20)
    taken.save()
    await _closed(clients)
    return {**told, "others": dict(taken.others), "late": len(due)}


async def _closed(clients: list[Client]) -> None:
    for client in clients:
        client.close()
    while not all(client.lost for client in clients):
        await asyncio.sleep(0)


async def _answered(clients: list[Client], until: float) -> None:
    """Wait for the answers to what is under way; they count as acknowledged, and not as speed."""
    while any(c._first >= 0 and not c.lost for c in clients) and asyncio.get_running_loop().time() < until:
        await asyncio.sleep(0.01)


async def idle(plan: Plan, commands: asyncio.StreamReader) -> dict[str, Any]:
    """Open connections, say nothing on command, then have some of them send."""
    requests, taken = Requests(plan), Taken(plan)
    answered: deque[Client] = deque()
    clients = await connected(plan, taken, answered.append)
    tell("open", connections=sum(not c.lost for c in clients))
    await commands.readline()
    await asyncio.sleep(plan.wait)
    tell("waited")
    await commands.readline()
    some = clients[:: max(1, len(clients) // plan.used)][: plan.used]
    begin = time.perf_counter()
    for at in range(0, len(some), USED_AT_A_TIME):
        part = some[at : at + USED_AT_A_TIME]
        for client in part:
            client.send(*requests.make(), time.perf_counter())
        await _answered(part, asyncio.get_running_loop().time() + 20)
    told = taken.told(time.perf_counter() - begin)
    taken.save()
    alive = sum(not c.lost for c in clients)
    await _closed(clients)
    return {**told, "alive": alive}


def tell(at: str, **more: Any) -> None:
    sys.stdout.write(msgspec.json.encode({"at": at, **more}).decode() + "\n")
    sys.stdout.flush()


async def work(plan: Plan) -> None:
    loop = asyncio.get_running_loop()
    commands = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    told = await (idle(plan, commands) if plan.used else load(plan))
    tell("done", **told)
    await commands.read()


def main() -> int:
    plan = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Plan)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(work(plan))
    return 0


if __name__ == "__main__":
    sys.exit(main())
