"""Files on their way to the partner when the session ends."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path
from typing import Any, cast

import pytest

from nadi.eventsync.contract import SessionOver
from nadi.eventsync.objects import ObjectSender
from nadi.eventsync.wire import Kind, Wire
from nadi.replica.contract import ObjectPut


class Stuck:
    """A connection whose buffer has no room left, until it breaks."""

    def __init__(self) -> None:
        self.full, self.broken = asyncio.Event(), asyncio.Event()

    def say(self, _kind: Kind, *_body: bytes) -> None:
        pass

    async def drained(self) -> None:
        self.full.set()
        await self.broken.wait()
        raise SessionOver("the connection broke")


def test_a_file_that_was_being_sent_when_the_session_ended_is_told_to_its_sender_and_to_nobody_else(tmp_path: Path):
    (tmp_path / "d-1").write_bytes(b"abc")
    told: list[dict[str, Any]] = []

    async def life() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: told.append(context))
        wire = Stuck()
        sender = ObjectSender(tmp_path, cast("Wire", wire))
        sending = asyncio.create_task(sender.send(1, ObjectPut("d-1", 3)))
        await wire.full.wait()
        sender.over(SessionOver("the partner said nothing"))
        wire.broken.set()
        with pytest.raises(SessionOver, match="broke"):
            await sending
        del sending
        gc.collect()  # a future that nobody asked says so when it goes

    asyncio.run(life())
    assert told == []
