"""Event sync over loopback: what two ends in two processes send, sync and answer. `python bench/eventsync.py --folder /a/disk [--plain]`

The passive end is a process of its own, whose service takes everything at once, so that the figures are those of the wire and of the log.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path

from nadi.eventsync.contract import Hello, Keep, Surplus
from nadi.eventsync.counters import Counters
from nadi.eventsync.keys import Keys
from nadi.eventsync.link import TcpLink
from nadi.eventsync.passive import PassiveEnd
from nadi.eventsync.session import ActiveSession
from nadi.io.certificate import OwnCertificate
from nadi.replica.contract import JournalAppend, Record

ME = Hello("a", "i", "s", 1, "1", "1", "c")
CASES = ((200, 20_000, 1), (200, 40_000, 64), (20_000, 20_000, 64), (1_000_000, 600, 8), (8_000_000, 80, 4))


class Nowhere:
    kinds = (JournalAppend,)

    async def holds(self, record: Record) -> bool:
        return True

    async def apply(self, record: Record) -> None:
        return

    async def standing(self) -> bytes:
        return b""

    async def missing(self, standing: bytes) -> AsyncIterator[bytes]:
        for piece in ():
            yield piece

    async def restore(self, pieces: AsyncIterator[bytes], keep: Keep) -> None:
        async for _ in pieces:
            pass


class Follows:
    def greets(self, active: Hello) -> Hello:
        return active

    def hello(self) -> Hello:
        return ME

    def waits(self) -> str:
        return ""

    def fits(self, active: Hello) -> bool:
        return True

    def promises(self, token: int) -> bool:
        return True

    def complete(self, token: int) -> None: ...
    def takes_over(self, token: int) -> None: ...
    def over(self, token: int) -> None: ...


def keys(folder: Path, plain: bool) -> Keys:
    return Keys("a secret for the benchmark only, not for a node", None if plain else OwnCertificate(folder).tls())


async def passive(folder: Path, plain: bool) -> None:
    end = PassiveEnd(
        keys(folder, plain), folder, folder / "objects", [Nowhere()], Follows(), lambda _: True, 10_000, Counters()
    )
    await end.open("127.0.0.1", 0)
    print(end.port, flush=True)
    await asyncio.Event().wait()


async def active(folder: Path, plain: bool) -> None:
    made = keys(folder, plain)
    arguments = [sys.executable, __file__, "--passive", "--folder", str(folder)] + (["--plain"] if plain else [])
    process = await asyncio.create_subprocess_exec(*arguments, stdout=asyncio.subprocess.PIPE)
    port = int(await process.stdout.readline())  # type: ignore[union-attr]
    link = TcpLink(made, folder, [Nowhere()], kept, 10_000, Counters())
    session = await link.open(f"127.0.0.1:{port}", ME)
    await session.catch_up()
    await session.equal()
    for size, most, together in CASES:
        await measured(session, size, most, together)
    await session.close()
    process.kill()
    await process.wait()


async def measured(session: ActiveSession, size: int, most: int, together: int) -> None:
    """One line of figures: records of a size, so many in flight, for five seconds at the most."""
    payload, numbers, took, began = os.urandom(size), iter(range(most)), [], time.perf_counter()

    async def write() -> None:
        for first in numbers:
            sent = time.perf_counter()
            session.confirm(await session.send(JournalAppend("s", b"{}", "s.a", first, {}, payload)))
            took.append(time.perf_counter() - sent)
            if time.perf_counter() - began > 5:
                return

    await asyncio.gather(*(write() for _ in range(together)))
    span = time.perf_counter() - began
    took.sort()
    rate, median, late = len(took) / span, took[len(took) // 2] * 1000, took[len(took) * 99 // 100] * 1000
    print(
        f"{size:>9,} bytes, {together:>2} in flight: {rate:>7,.0f} records/s {rate * size / 1e6:>6.1f} MB/s"
        f"   answered after {median:.2f} ms (median), {late:.2f} ms (99 %)",
        flush=True,
    )


async def kept(_: list[Surplus]) -> None:
    return


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--passive", action="store_true")
    parser.add_argument("--plain", action="store_true")
    given = parser.parse_args()
    if given.passive:
        asyncio.run(passive(given.folder, given.plain))
    else:
        with tempfile.TemporaryDirectory(dir=given.folder) as made_folder:
            asyncio.run(active(Path(made_folder), given.plain))
