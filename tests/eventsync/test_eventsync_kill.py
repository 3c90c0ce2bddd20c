"""A passive node that is killed in the middle of group commits has every record that it answered."""

from __future__ import annotations

import asyncio
import os
import sys
from itertools import count
from pathlib import Path
from random import Random

import pytest
from pairing import ACTIVE, append, run
from passiveprocess import FileCopy

from nadi.eventsync.contract import SessionOver
from nadi.eventsync.counters import Counters
from nadi.eventsync.heldlog import HeldLog
from nadi.eventsync.keys import Keys
from nadi.eventsync.link import TcpLink
from nadi.eventsync.session import ActiveSession

PROGRAM = Path(__file__).with_name("passiveprocess.py")


async def started(folder: Path) -> tuple[asyncio.subprocess.Process, int]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = await asyncio.create_subprocess_exec(
        sys.executable, PROGRAM, folder, stdout=asyncio.subprocess.PIPE, env=environment
    )
    assert process.stdout is not None
    return process, int(await process.stdout.readline())


@pytest.mark.parametrize("seed", range(4))
def test_every_record_that_was_answered_is_there_after_the_passive_node_was_killed(tmp_path: Path, seed: int) -> None:
    dice = Random(seed)

    async def write(session: ActiveSession) -> None:
        while True:
            first = next(firsts)
            number = await session.send(append(first, dice.randbytes(dice.randrange(20_000))))
            answered.append(first)
            if dice.random() < 0.9:
                session.confirm(number)
            elif dice.random() < 0.5:
                session.abandon(number)
                abandoned.add(first)

    async def scene() -> None:
        process, port = await started(tmp_path)
        own = FileCopy(tmp_path / "own")
        link = TcpLink(
            Keys("a secret of the cluster that is long", None),
            tmp_path,
            [own],
            keep,
            5_000,
            Counters(),
        )
        session = await link.open(f"127.0.0.1:{port}", ACTIVE)
        await session.catch_up()
        await session.equal()
        writers = [asyncio.ensure_future(write(session)) for _ in range(50)]
        until = dice.randrange(200, 2_000)
        while len(answered) < until:
            await asyncio.sleep(0)
        process.kill()
        for found in await asyncio.gather(*writers, return_exceptions=True):
            assert isinstance(found, SessionOver)
        await process.wait()
        await session.close()
        own.close()

        service = FileCopy(tmp_path / "service")
        before = list(service.written)
        log = HeldLog(tmp_path / "pair" / "held", [service])
        await log.open()
        assert log.whole
        await log.take_over()
        await log.close()
        assert service.written[: len(before)] == before
        assert sorted(set(service.written)) == service.written, "each once, in order"
        lost = set(answered) - set(service.written) - abandoned
        assert lost == set()
        service.close()

    firsts = count()
    answered: list[int] = []
    abandoned: set[int] = set()

    async def keep(_: object) -> None:
        raise AssertionError("there is no surplus")

    run(scene())
