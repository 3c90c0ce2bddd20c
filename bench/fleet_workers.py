"""Workers without machines: each is a task that lives as `nadi worker` does (`nadi.cluster.worker`), with a connection of its own to the manager, and starts
and stops what it is told to without running anything.

    python -m bench.fleet_workers FILE      # JSON: secret, port, manager

reads lines on standard input: `more N` adds workers, `fewer N` ends the last ones, `spread` asks what they have. Each answer is a line of JSON with the key
`at`.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nadi.cluster.contract import Haste
from nadi.cluster.machineclock import MachineClock
from nadi.cluster.messages import Message, Metrics, Order, Poke
from nadi.cluster.settings import WorkerSettings
from nadi.cluster.worker import Worker
from nadi.server.distributed.membership import incarnation
from nadi.server.distributed.network import HttpNetwork
from nadi.server.distributed.nodekeys import NodeKey
from nadi.server.distributed.wire import answer_to, message_of


class Idle:
    """A machine that has done what it was told to at once. Implements `nadi.cluster.contract.Node`."""

    def __init__(self) -> None:
        self.incarnation = incarnation()
        self.runs: dict[str, int] = {}

    async def start(self, order: Order) -> None:
        self.runs[order.instance] = order.epoch

    async def stop(self, instance: str, haste: Haste) -> None:
        self.runs.pop(instance, None)

    def metrics(self) -> Metrics:
        return Metrics(0.25, 0.25, 0.5)

    def watch(self, ended: Callable[[str, int, str], None], drained: Callable[[str, int], None]) -> None:
        """Nothing of it ends by itself."""


class Counted:
    """A network that counts what is asked and how long answers take."""

    def __init__(self, inner: HttpNetwork, fleet: Fleet) -> None:
        self._inner = inner
        self._fleet = fleet

    async def ask(self, address: str, message: Message, within: int) -> Message:
        began = time.perf_counter()
        try:
            answer = await self._inner.ask(address, message, within)
        except Exception:
            self._fleet.failures += 1
            raise
        self._fleet.took.append(time.perf_counter() - began)
        return answer


class Fleet:
    """All workers of this process. Pokes come to one port, each worker at a path of its own."""

    def __init__(self, secret: str, port: int, manager: str) -> None:
        self._key = NodeKey(secret)
        self.port = port
        self._manager = manager
        self._trusted = ssl.create_default_context()  # one for all: making one takes longer than all else
        self._workers: dict[str, tuple[Worker, Idle, HttpNetwork, asyncio.Task[None]]] = {}
        self.took: list[float] = []
        self.failures = 0

    async def more(self, count: int) -> None:
        for n in range(len(self._workers), len(self._workers) + count):
            name, node = f"w{n:04d}", Idle()
            network = HttpNetwork(self._key, {}, None, self._trusted)
            address = f"http://127.0.0.1:{self.port}/{name}"
            settings = WorkerSettings(name, address, (self._manager,), retry=2_000)
            worker = Worker(settings, MachineClock(), Counted(network, self), node)
            self._workers[name] = (worker, node, network, asyncio.create_task(worker.run()))
            await asyncio.sleep(0.002)  # they come one after the other, as machines that are started do

    async def fewer(self, count: int) -> None:
        for name in sorted(self._workers)[-count:]:
            _worker, _node, network, task = self._workers.pop(name)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await network.close()

    def spread(self) -> dict[str, Any]:
        """How many instances workers have, and the answers since it was asked last."""
        counts = [len(node.runs) for _worker, node, _network, _task in self._workers.values()]
        took, self.took = sorted(self.took), []
        failures, self.failures = self.failures, 0
        return {
            "runs": sum(counts),
            "least": min(counts, default=0),
            "most": max(counts, default=0),
            "answers": len(took),
            "failures": failures,
            "median_ms": round(took[len(took) // 2] * 1000, 2) if took else None,
            "p99_ms": round(took[len(took) * 99 // 100] * 1000, 2) if took else None,
        }

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """A leader's pokes: HTTP enough for that."""
        try:
            while head := (await reader.readuntil(b"\r\n\r\n")).decode():
                length = next(int(v) for k, _, v in (one.partition(":") for one in head.split("\r\n")) if k.lower() == "content-length")  # fmt: skip
                asked = message_of(await reader.readexactly(length))
                found = self._workers.get(head.split("/")[1])
                if found is not None and isinstance(asked, Poke):
                    await found[0].answer(asked)
                body = answer_to(asked, 0, 0).body or b""
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


def tell(**what: Any) -> None:
    print(json.dumps(what), flush=True)


async def main() -> None:
    fleet = Fleet(**json.loads(Path(sys.argv[1]).read_text()))
    await asyncio.start_server(fleet.serve, "127.0.0.1", fleet.port, backlog=4096)
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    tell(at="ready")
    while line := (await lines.readline()).decode().split():
        if line[0] == "more":
            await fleet.more(int(line[1]))
        elif line[0] == "fewer":
            await fleet.fewer(int(line[1]))
        tell(at=line[0], **(fleet.spread() if line[0] == "spread" else {}))


if __name__ == "__main__":
    asyncio.run(main())
