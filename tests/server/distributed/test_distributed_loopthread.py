"""An event loop in a thread of its own: whoever hands something over to it hears what became of it, also where the loop ends meanwhile."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError

import pytest

from nadi.errors import NadiError, error
from nadi.server.distributed.loopthread import LoopThread

WITHIN = 30  # seconds


class Life:
    """Lasts until it is told to end, or is cancelled. `kept` holds up a thread of the loop, and with it the end of the loop."""

    def __init__(self) -> None:
        self.loop = LoopThread(self._run, self._failed)
        self.failures: list[BaseException] = []
        self.ends = threading.Event()
        self.ending = threading.Event()
        self.kept = threading.Event()
        self._over: asyncio.Event

    async def _run(self) -> None:
        self._over = asyncio.Event()
        await self._over.wait()
        raise ValueError("it broke")

    def _failed(self, reason: BaseException) -> None:
        self.failures.append(reason)
        self.ends.set()

    def break_down(self) -> None:
        """End it by itself, and wait until that is so."""
        self.loop.call(self._over.set)
        assert self.ends.wait(WITHIN)

    async def hold_up(self) -> None:
        """A loop waits for its threads when all that it ran is cancelled."""
        try:
            await asyncio.to_thread(self.kept.wait)
        finally:
            self.ending.set()


@pytest.fixture
def life() -> Iterator[Life]:
    made = Life()
    made.loop.start()
    yield made
    made.kept.set()
    made.loop.close()


def test_what_is_under_way_when_the_life_ends_by_itself_is_cancelled(life: Life) -> None:
    waiting = life.loop.submit(asyncio.sleep(600))
    life.break_down()
    with pytest.raises(CancelledError):
        waiting.result(WITHIN)
    assert [str(one) for one in life.failures] == ["it broke"]


def test_what_is_handed_over_while_the_loop_ends_is_cancelled_and_nobody_waits_for_ever(life: Life) -> None:
    life.loop.submit(life.hold_up())
    life.break_down()
    assert life.ending.wait(WITHIN)  # all tasks that there were have been cancelled; the loop waits for its thread
    waiting = life.loop.submit(asyncio.sleep(600))
    life.kept.set()
    with pytest.raises(CancelledError):
        waiting.result(WITHIN)


def test_what_is_handed_over_after_the_end_is_cancelled_at_once(life: Life) -> None:
    life.break_down()
    life.loop.close()
    called: list[str] = []
    with pytest.raises(CancelledError):
        life.loop.submit(asyncio.sleep(0)).result(0)
    life.loop.call(lambda: called.append("x"))
    assert not life.loop.begin(life.hold_up)
    assert called == []


def test_it_is_closed_once_and_again(life: Life) -> None:
    waiting = life.loop.submit(asyncio.sleep(600))
    life.loop.close()
    with pytest.raises(CancelledError):
        waiting.result(WITHIN)
    life.loop.close()
    assert life.failures == []


def test_what_ends_the_loop_is_told_by_its_name_whatever_groups_it_is_in() -> None:
    """A command ends with the message of a named error; of a group it would show the stack."""

    async def fails() -> None:
        raise error("NOT_ACTIVE", reason="the test says so")

    async def grouped() -> None:
        async with asyncio.TaskGroup() as outer:
            outer.create_task(asyncio.sleep(600))
            async with asyncio.TaskGroup() as inner:
                inner.create_task(fails())

    told: list[BaseException] = []
    loop = LoopThread(grouped, told.append)
    loop.start()
    loop._thread.join(WITHIN)
    (reason,) = told
    assert isinstance(reason, NadiError)
    assert reason.condition == "NOT_ACTIVE"


def test_a_signal_that_comes_while_something_is_handed_over_is_heard(life: Life) -> None:
    """A handler runs in the thread that it interrupts, with all locks that this one has."""
    begun = threading.Event()

    async def leave() -> None:
        begun.set()

    def hand_over() -> None:
        with life.loop._handing:
            life.loop.begin(leave)

    threading.Thread(target=hand_over, daemon=True).start()
    assert begun.wait(WITHIN)
