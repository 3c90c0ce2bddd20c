"""Sends events to a subject at a steady rate and takes what an app puts out on another one: `python -m bench.load ORDER` (a JSON file, `Order`).

Runs in a process of its own, so that it does not share an interpreter with what it measures. An event's `ts` is the time of its sending (µs), rows carry
the `ts` of the event that made them, and a row's latency ends when its message is here. Until the first row has come back only a few events are sent, so that
no backlog grows while Spark starts.

Lines on standard output are JSON: `{"at": "ready"|"sending"|"sent"|"done", …}`. Anything on the standard input, or its end, says that all rows are out.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path

import msgspec
import nats
import numpy as np
from nats.aio.client import Client
from nats.aio.msg import Msg

from bench.events import Events, make_events, message
from nadi.io.jetstream import ensure_stream, stream_config, token

TICK = 0.005  # seconds between two bursts
TELL_EVERY = 1.0
QUIET = 0.5  # seconds without a row after which, with all rows out, all are here
FEW = 50  # events a second until the first row is here
FIRST_WITHIN = 120.0


class Order(msgspec.Struct, frozen=True):
    """`rate` events a second; `warm` seconds from the first row on, then `seconds` that count; files go to `folder`."""

    url: str
    source: str
    target: str
    rate: int
    warm: float
    seconds: float
    folder: str


class Load:
    """One run."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._stamps: list[int] = []
        self._got: list[tuple[int, bytes]] = []
        self._ended = asyncio.Event()
        self._counted = (0, 0)
        self._late = 0.0

    async def run(self) -> None:
        client = await nats.connect(self._order.url, pending_size=64 * 1024 * 1024)
        for subject in (self._order.source, self._order.target):
            await ensure_stream(client, stream_config(token(subject), [subject]))
        await client.subscribe(self._order.target, cb=self._take, pending_msgs_limit=-1, pending_bytes_limit=-1)
        await client.flush()
        tell("ready")
        await self._send(client)
        await client.flush()
        tell("sent", sent=len(self._stamps), got=len(self._got))
        await self._drain()
        await client.close()
        self._save()
        tell("done", sent=len(self._stamps), got=len(self._got), counted=self._counted, late=self._late)

    def end(self) -> None:
        self._ended.set()

    async def _take(self, received: Msg) -> None:
        self._got.append((time.time_ns() // 1000, received.data))

    async def _send(self, client: Client) -> None:
        order = self._order
        bound = int(FEW * FIRST_WITHIN + order.rate * (order.warm + order.seconds + 1))
        made = make_events(0, bound)
        keys, cents, vols = made.key.tolist(), made.cents.tolist(), made.vol.tolist()
        stamps, last, told = self._stamps, 0, 0.0
        begin, before, rate, until = time.monotonic(), 0, FEW, float("inf")
        while not self._ended.is_set() and (now := time.monotonic()) < until:
            due = min(bound, before + int((now - begin) * rate))
            if rate == order.rate:
                self._late = max(self._late, (due - len(stamps)) / rate)
            for i in range(len(stamps), due):
                last = max(time.time_ns() // 1000, last + 1)
                await client.publish(order.source, message(last, keys[i], cents[i], vols[i]))
                stamps.append(last)
            if self._got and until == float("inf"):
                begin, before, rate, until = now, len(stamps), order.rate, now + order.warm + order.seconds
                low = time.time_ns() // 1000 + int(order.warm * 1e6)
                self._counted = (low, low + int(order.seconds * 1e6))
            if not self._got and now - begin > FIRST_WITHIN:
                break
            if now - told > TELL_EVERY:
                told = now
                self._tell_sending(until - now)
            await asyncio.sleep(max(0.0, TICK - (time.monotonic() - now)))

    def _tell_sending(self, left: float) -> None:
        order = self._order
        phase = "starting" if left == float("inf") else "warming up" if left > order.seconds else "measuring"
        left = min(left, order.warm + order.seconds)
        tell("sending", sent=len(self._stamps), got=len(self._got), phase=phase, left=left)

    async def _drain(self) -> None:
        """Until somebody says that all rows are out, and nothing has come for a moment."""
        await self._ended.wait()
        count, since = -1, time.monotonic()
        while time.monotonic() - since < QUIET:
            if len(self._got) != count:
                count, since = len(self._got), time.monotonic()
            await asyncio.sleep(0.05)

    def _save(self) -> None:
        folder = Path(self._order.folder)
        folder.mkdir(parents=True, exist_ok=True)
        np.save(folder / "sent.npy", np.array(self._stamps, np.int64))
        np.save(folder / "came.npy", np.array([t for t, _ in self._got], np.int64))
        (folder / "came.jsonl").write_bytes(b"".join(data + b"\n" for _, data in self._got))


def sent_events(folder: Path) -> Events:
    """The events that a run has sent."""
    stamps = np.load(folder / "sent.npy")
    made = make_events(0, len(stamps))
    return Events(stamps, made.key, made.cents, made.vol)


def tell(at: str, **more: object) -> None:
    sys.stdout.write(msgspec.json.encode({"at": at, **more}).decode() + "\n")
    sys.stdout.flush()


async def main() -> None:
    load = Load(msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Order))

    def heard() -> None:
        os.read(sys.stdin.fileno(), 4096)
        load.end()

    asyncio.get_running_loop().add_reader(sys.stdin, heard)
    await load.run()


if __name__ == "__main__":
    asyncio.run(main())
