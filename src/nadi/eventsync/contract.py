"""What the parts of the pair ask of each other: who decides (`nadi.cluster.pair`), who sends (`Session`), who keeps a copy (`Copy`).

The simulator of the tests implements `Link` and `Session`, too.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

import msgspec

from nadi.replica.contract import Record


class Hello(msgspec.Struct, frozen=True):
    """What a node says of itself when a session begins. A session with other versions, settings or app texts is not refused, but its node does not get into
    the in-sync set: `misfit` says why.

    `store` is the random text on its disk by which the set knows it; `apps` are digests of app texts by name; `rest` is where the node's REST API is reached.
    """

    id: str
    incarnation: str
    store: str
    token: int
    version: str
    semantics: str
    settings: str
    apps: dict[str, str] = {}
    rest: str = ""


class SessionOver(Exception):
    """The partner does not answer, or the connection broke. What was on its way may have arrived."""


@dataclass(eq=False)
class PartnerRefuses(Exception):
    """The partner answers that it does not follow this node, which is not active any more where `token`, the one that the partner knows, is higher than its
    own. 0: it did not say which one."""

    token: int


class Session(Protocol):
    """The active node's side of a connection to its partner, under one token. Errors of all methods: SessionOver, PartnerRefuses."""

    partner: Hello

    @property
    def copying(self) -> bool:
        """Whether services are being copied, and that goes on: until it is done a record may have to wait for room."""
        ...

    async def catch_up(self) -> Hello:
        """Copy what the partner does not have. Records that are sent meanwhile go along, without an answer. Returns when little is left. Whatever was prepared
        before the session began must be settled by now: it may still be written, and comparing services would miss it. -> what the partner says of itself
        with what it has got."""
        ...

    async def send(self, record: Record) -> int:
        """Have a record in the partner's log, durably. -> its number. Before `synchronous` was set: returns at once."""
        ...

    def confirm(self, number: int) -> None:
        """This node has the record itself."""
        ...

    def abandon(self, number: int) -> None:
        """This node will never have it."""
        ...

    async def equal(self) -> None:
        """Nothing is sent meanwhile: returns when the partner has in its log all that was sent. From then on `send` waits for the partner."""
        ...

    async def beat(self) -> str:
        """Ask the partner for another promise. It was given when this returns; it counts from before it was asked for. It waits behind nothing else that is
        sent. -> why the partner could not go on at once ("Spark starts"), "" where it could."""
        ...

    async def hand_over(self) -> None:
        """Ask the partner to take over now. This node has ended all that it did, and given the lease back."""
        ...

    async def close(self) -> None: ...


class Link(Protocol):
    """How the active node reaches its partner."""

    async def open(self, address: str, mine: Hello) -> Session:
        """The partner is out of the in-sync set: it forgets what it held back of another session. Cancelled, it closes the connection: the partner must not be
        greeted late. Errors: SessionOver, PartnerRefuses."""
        ...


class Passive(Protocol):
    """What decides on the passive node, as event sync asks it. It never waits.

    From when `Duties.activate` is called no record of an earlier session goes into the log any more: it would be found there by a later take-over.
    """

    def greets(self, active: Hello) -> Hello:
        """A session begins; for one before it `over` was called, and nothing more of it is taken in. Errors: PartnerRefuses, where a higher token is known, or
        this node is active itself under it."""
        ...

    def fits(self, active: Hello) -> bool:
        """Whether this node could stand in for the active one. Where it could not there is no session: what it has and holds stays as it is."""
        ...

    def hello(self) -> Hello:
        """What this node says of itself now."""
        ...

    def promises(self, token: int) -> bool:
        """Whether this node still follows the active one of this token; if so it promises not to take over for the length of a lease, from now. Event sync asks
        before each answer, also before it says that a record is logged: what is answered after a take-over has begun would be lost. Where it does not, the
        answer is PartnerRefuses."""
        ...

    def waits(self) -> str:
        """As `Duties.waits`: the answer to a beat has it."""
        ...

    def complete(self, token: int) -> None:
        """The copy is complete: the active node says so, before it puts this node into the set. Called before `Session.equal` is answered."""
        ...

    def takes_over(self, token: int) -> None:
        """The active node of this token has ended and wants this node to go on."""
        ...

    def over(self, token: int) -> None:
        """The session broke."""
        ...


class Copy(Protocol):
    """A service of this node of which the partner keeps a copy: the journal, the logs, the objects, the app texts. Each handles some kinds of records."""

    @property
    def kinds(self) -> tuple[type, ...]: ...

    async def holds(self, record: Record) -> bool:
        """On the active node, of a record whose writer ended without a word: whether the service has it."""
        ...

    async def apply(self, record: Record) -> None:
        """On the passive node: write it, durably; nothing where it is there already. Records come in order."""
        ...

    async def standing(self) -> bytes:
        """On the passive node: what it has, for `missing` of the active one."""
        ...

    def missing(self, standing: bytes) -> AsyncIterator[bytes]:
        """On the active node: pieces by which a copy that has `standing` becomes equal to this service as it is now or later."""
        ...

    async def restore(self, pieces: AsyncIterator[bytes], keep: Keep) -> None:
        """On the passive node: become equal. What it had and the active one does not have, which is only so after a promotion with loss, goes only after it
        was given to `keep`; after a crash some of it may be given once more."""
        ...


class SurplusKind(StrEnum):
    """EVENT: of a part of the journal. ERROR: a row of the error store, as JSON. NOTE: what nothing can be done with but read it."""

    EVENT = "event"
    ERROR = "error"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Surplus:
    """Something that only the copy of a returning node had: the active node keeps it for people. `what` names it for them.

    `app` is as the service knows it: in the journal the part of a stream's name. Of an event `stream` is the part of the journal (the number of an input),
    `position` its number, `properties` what was stored beside it.
    """

    app: str
    stream: str
    what: str
    time: int
    payload: bytes
    kind: SurplusKind = SurplusKind.NOTE
    position: int = -1
    properties: dict[str, str] = field(default_factory=dict)


Keep = Callable[[Sequence[Surplus]], None]
"""Keeps what a copy is about to lose: it is on the disk when this returns. It blocks. Errors: OSError, DISK_FULL."""


class Duties(Protocol):
    """What a node does in its roles; implemented by `nadi.server.pair`. Both may take long, and are cancelled by nobody."""

    async def activate(self, token: int) -> None:
        """Apply what event sync holds back, start all apps with this token as their owner's epoch, open sources and the listener of on-demand queries. Returns
        when all that can run has begun."""
        ...

    def hurry(self) -> None:
        """`activate` is under way, and `deactivate` comes next: it need not wait any longer for what begins by itself. Returns at once."""
        ...

    async def deactivate(self, gentle: bool) -> None:
        """End all that `activate` began; `gentle`: at the end of a batch. Nothing of it runs when this returns."""
        ...

    def waits(self) -> str:
        """What `activate` would have to wait for, if it were called now: "Spark starts". "" where it would begin at once. It never waits itself."""
        ...


class Gate(Protocol):
    """What decides on the active node, as the local end of event sync asks it for each record of a writer. Implemented by `nadi.cluster.pair`.

    Errors of `prepare`: as those of `nadi.replica.contract.Replica`.
    """

    async def prepare(self, record: Record) -> int:
        """Returns when all nodes of the in-sync set have the record durably; where that takes a partner out of the set, after it. -> a ticket."""
        ...

    def confirm(self, ticket: int) -> None: ...
    def abandon(self, ticket: int) -> None: ...
