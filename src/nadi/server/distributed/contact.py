"""Whether a worker is heard by a manager, for people: said when it changes, and part of whether the worker is ready."""

from __future__ import annotations

from collections.abc import Callable

from nadi.cluster.contract import Network, NoAnswer
from nadi.cluster.messages import Farewell, Granted, Heartbeat, Message, Nobody, Rejected

SILENT = 3
"""So many heartbeats in a row that nobody took are worth a word: managers change now and then."""


class Contact:
    """A network that notes what becomes of heartbeats. `tell` is called with a sentence when that changes."""

    def __init__(self, network: Network, tell: Callable[[str], object]) -> None:
        self._network = network
        self._tell = tell
        self._failures = 0
        self._said = ""
        self.is_taken = False

    async def ask(self, address: str, message: Message, within: int) -> Message:
        try:
            answer = await self._network.ask(address, message, within)
        except NoAnswer as reason:
            if isinstance(message, Heartbeat):
                self._missed(f"no manager answers: {reason}")
            raise
        if isinstance(message, Heartbeat):
            self._note(message, answer)
        return answer

    def _note(self, beat: Heartbeat, answer: Message) -> None:
        if isinstance(answer, Granted):
            self._failures, self.is_taken = 0, True
            self._say(f"taken by the manager at {answer.leader}")
        elif isinstance(answer, Rejected):
            self.is_taken = False
            self._say(
                f"refused: there is a worker '{beat.id}' already, at {answer.address}; give this one another wso2.carbon.id"
            )
        elif isinstance(answer, Farewell):
            self._failures, self.is_taken = 0, False
        elif isinstance(answer, Nobody):
            self._missed("no manager leads now")

    def _missed(self, reason: str) -> None:
        self._failures += 1
        if self._failures >= SILENT:
            self.is_taken = False
            if not self._said.startswith(reason.partition(":")[0]):
                self._say(reason)

    def _say(self, sentence: str) -> None:
        if sentence != self._said:
            self._said = sentence
            self._tell(f"cluster: {sentence}")
