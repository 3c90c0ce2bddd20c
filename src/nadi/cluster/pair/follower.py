"""The passive node's side: whom it follows, what it promises, and whether its copy is whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from nadi.cluster.contract import Clock
from nadi.cluster.pair.memory import Memory
from nadi.cluster.pair.misfit import differs
from nadi.cluster.pair.right import Promise
from nadi.eventsync.contract import Hello, PartnerRefuses


@dataclass(slots=True)
class Followed:
    """The active node of a session."""

    hello: Hello
    connected: bool = True
    complete: bool = False


class Follower:
    """Implements `nadi.eventsync.contract.Passive`. `busy`: this node is active, or may be in a moment. `highest`: the token that it knows. `saw` is told of
    others, `freed` when the active node gives up, `changed` when something is to be shown. `waits` says what a take-over would wait for."""

    def __init__(
        self, clock: Clock, promise: Promise, memory: Memory, hello: Callable[[], Hello], busy: Callable[[], bool], highest: Callable[[], int],
        saw: Callable[[int], None], freed: Callable[[], None], changed: Callable[[], None], waits: Callable[[], str],
    ) -> None:  # fmt: skip
        self._clock, self._promise, self._memory, self._hello = clock, promise, memory, hello
        self._busy, self._highest, self._saw, self._freed, self._changed = busy, highest, saw, freed, changed
        self._waits = waits
        self.followed: Followed | None = None
        self.heard: int | None = None  # when it last promised something, by this node's clock

    @property
    def misfit(self) -> str:
        return "" if self.followed is None else differs(self._hello(), self.followed.hello)

    def greets(self, active: Hello) -> Hello:
        highest = self._highest()
        if self._busy() or active.token < highest:
            raise PartnerRefuses(highest)
        self._saw(active.token)
        if self.fits(active):
            self._memory.mark(whole=False)  # from now on it is changed; the active one has it out of the set
        self.followed = Followed(active)
        self._changed()
        return self._hello()

    def fits(self, active: Hello) -> bool:
        return not differs(active, self._hello())

    def hello(self) -> Hello:
        return self._hello()

    def promises(self, token: int) -> bool:
        if self._busy() or token < self._highest():
            return False
        self._saw(token)
        self.heard = self._clock.now()
        self._promise.give(self.heard)
        return True

    def waits(self) -> str:
        return self._waits()

    def complete(self, token: int) -> None:
        found = self.followed
        if found is None or found.hello.token != token or not found.connected:
            return  # of a session that is over: another one changes the copy now
        found.complete = True
        self._memory.mark(whole=True)
        self._changed()

    def takes_over(self, token: int) -> None:
        found = self.followed
        if found is not None and found.hello.token == token == self._highest():
            self._promise.released()
            self._freed()

    def over(self, token: int) -> None:
        found = self.followed
        if found is not None and found.hello.token == token:
            found.connected = False
            self._changed()
