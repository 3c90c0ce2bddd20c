"""What a worker says of its managers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from nadi.cluster.contract import NoAnswer
from nadi.cluster.messages import Farewell, Granted, Heartbeat, Message, Nobody, Poke, Rejected
from nadi.server.distributed.contact import SILENT, Contact

BEAT = Heartbeat("w1", "http://w:1", "0-a", 1, "NEW", False, (), (0, 0), 0)
GRANTED = Granted("http://m:1", (), "NEW", 1, "0-m", 1, 2000, 8000, 3000, ())


class Script:
    """A network with answers that are known before; None: nobody answers."""

    def __init__(self, answers: Sequence[Message | None]) -> None:
        self._answers = list(answers)

    async def ask(self, address: str, message: Message, within: int) -> Message:
        answer = self._answers.pop(0)
        if answer is None:
            raise NoAnswer("it is away")
        return answer


def heard(*answers: Message | None, message: Message = BEAT) -> tuple[list[str], bool]:
    """What is said, and whether the worker is taken at the end."""
    said: list[str] = []
    contact = Contact(Script(answers), said.append)

    async def life() -> None:
        for answer in answers:
            if answer is None:
                with pytest.raises(NoAnswer):
                    await contact.ask("http://m:1", message, 1)
            else:
                assert await contact.ask("http://m:1", message, 1) == answer

    asyncio.run(life())
    return said, contact.is_taken


def test_it_says_once_that_it_was_taken():
    assert heard(GRANTED, GRANTED) == (["cluster: taken by the manager at http://m:1"], True)


def test_a_manager_that_is_silent_for_a_moment_is_no_word_worth():
    assert heard(GRANTED, *[None] * (SILENT - 1), GRANTED) == (["cluster: taken by the manager at http://m:1"], True)


def test_managers_that_stay_silent_are_told_of_once_and_their_return_too():
    said, taken = heard(GRANTED, *[None] * 9, GRANTED)
    assert said[1:] == ["cluster: no manager answers: it is away", "cluster: taken by the manager at http://m:1"]
    assert taken


def test_a_worker_that_nobody_takes_is_not_taken():
    assert not heard(GRANTED, *[Nobody()] * SILENT)[1]


def test_a_worker_whose_id_is_another_ones_is_told_so():
    said, taken = heard(Rejected("http://w:2"), Rejected("http://w:2"))
    assert len(said) == 1
    assert "worker 'w1' already, at http://w:2" in said[0]
    assert not taken


def test_a_worker_that_has_left_is_not_taken():
    assert not heard(GRANTED, Farewell())[1]


def test_other_messages_say_nothing():
    assert heard(Poke("http://m:1", 1), None, None, None, message=Poke("http://m:1", 1)) == ([], False)
