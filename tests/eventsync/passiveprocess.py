"""A passive node in a process that is to be killed. Its service is a file: the position of each record that was written, one a line."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from pairing import SECRET, Decided

from nadi.eventsync.contract import Keep
from nadi.eventsync.counters import Counters
from nadi.eventsync.keys import Keys
from nadi.eventsync.passive import PassiveEnd
from nadi.replica.contract import JournalAppend, JournalTrim, Record


class FileCopy:
    kinds = (JournalAppend, JournalTrim)

    def __init__(self, path: Path) -> None:
        self._file = path.open("a+", buffering=1)
        self._file.seek(0)
        self.written = [int(line) for line in self._file]

    async def holds(self, record: Record) -> bool:
        raise NotImplementedError

    async def apply(self, record: Record) -> None:
        assert isinstance(record, JournalAppend)
        if record.first not in self.written[-2000:]:
            self.written.append(record.first)
            self._file.write(f"{record.first}\n")
        await asyncio.sleep(0.001)

    async def standing(self) -> bytes:
        return b""

    async def missing(self, standing: bytes) -> AsyncIterator[bytes]:
        for piece in ():
            yield piece

    async def restore(self, pieces: AsyncIterator[bytes], keep: Keep) -> None:
        async for _ in pieces:
            raise AssertionError("nothing is missing")

    def close(self) -> None:
        self._file.close()


async def main(folder: Path) -> None:
    copies = [FileCopy(folder / "service")]
    end = PassiveEnd(
        Keys(SECRET, None), folder / "pair", folder / "objects", copies, Decided(), lambda _: True, 5_000, Counters()
    )
    await end.open("127.0.0.1", 0)
    print(end.port, flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
