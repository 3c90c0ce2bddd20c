"""A worker of a pair: how it ends."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from nadi.errors import NadiError
from nadi.replica.contract import AppFile
from nadi.server.distributed.loopthread import LoopThread
from nadi.server.pair.pairworker import PairWorker


async def lives() -> None:
    await asyncio.Event().wait()


async def prepares(_record: object) -> int:
    return 1


def test_a_record_that_comes_when_the_node_has_ended_is_refused_by_name() -> None:
    loop = LoopThread(lives, lambda _reason: None)
    loop.start()
    loop.close()
    ended = SimpleNamespace(_coordination=loop, _sync=SimpleNamespace(node=SimpleNamespace(prepare=prepares)))
    with pytest.raises(NadiError, match="CONNECTION_UNAVAILABLE"):
        PairWorker.prepare(ended, AppFile("A", "text"))  # type: ignore[arg-type]
