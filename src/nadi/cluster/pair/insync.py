"""The active node's changes of the in-sync set, one after the other, each until the database has made it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nadi.cluster.contract import Clock, Decide, Store, StoreAway
from nadi.cluster.leases import Refused
from nadi.cluster.pair.membership import Member, changed, keys_of
from nadi.cluster.rows import InSync


class Superseded(Exception):
    """The database has another token: this node's term is over."""

    def __init__(self, token: int) -> None:
        super().__init__(f"the database has the token {token}")
        self.token = token


class SetWriter:
    """Writes under one token. `row` is the set as it was last known; `waits` is said what it waits for, "" when it is made."""

    def __init__(
        self, clock: Clock, store: Store, row: InSync, pause: int, waits: Callable[[str], None], wrote: Callable[[InSync], None]
    ) -> None:  # fmt: skip
        self._clock = clock
        self._store = store
        self._pause = pause
        self._waits = waits
        self._wrote = wrote
        self._number = row.number
        self.row = row

    async def write(self, members: Sequence[Member], reason: str) -> None:
        """Returns when the set is this one. Cancelled, it may become so or not: the next write has a higher number, and holds. Errors: Superseded."""
        while True:
            self._number += 1
            try:
                decide = self._decide(self._number, members, reason)
                said = (await self._store.transact(keys_of(self.row.name), decide)).said
            except StoreAway as away:
                self._waits(f"the coordination database does not answer: {away}")
                await self._clock.sleep(self._pause)
                continue
            if isinstance(said, Refused):
                raise Superseded(said.token)
            if isinstance(said, InSync):
                self.row = said
                self._waits("")
                self._wrote(said)
                return

    def _decide(self, number: int, members: Sequence[Member], reason: str) -> Decide:
        name, token = self.row.name, self.row.token
        return lambda seen: changed(seen, name, token, number, members, reason)
