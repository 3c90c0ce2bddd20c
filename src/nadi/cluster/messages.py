"""What nodes say to each other. REST and the simulated network carry the same values."""

from __future__ import annotations

from dataclasses import dataclass, field


class Message:
    """A request or an answer."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Metrics:
    """Loads between 0 and 1; None where they are not measured."""

    cpu: float | None = None
    process: float | None = None
    memory: float | None = None


@dataclass(frozen=True, slots=True)
class Running:
    """What a worker has of an instance: also what is being started or stopped. Of what failed or ended nothing runs, and this epoch never will."""

    instance: str
    epoch: int
    state: str  # starting, running, stopping, failed, ended, drained
    reason: str = ""

    @property
    def over(self) -> bool:
        return self.state in ("failed", "ended", "drained")


@dataclass(frozen=True, slots=True)
class Order:
    """What a worker is to run. The text, and what belongs to it, is there where the worker does not have it yet: the revision that it begins with, and the
    epoch (where a run of that one or a later one has committed, it has begun so already; "": it goes on where it stood), home and heritage. With `drain`
    the instance takes in nothing more from outside, and has drained when it has taken all that it has."""

    instance: str
    epoch: int
    digest: str
    text: str | None = None
    revision: str = ""
    since: int = 0
    home: str = ""
    heritage: str = ""
    drain: bool = False


@dataclass(frozen=True, slots=True)
class Heartbeat(Message):
    """A worker's request. `state` is NEW until a manager has taken it. `number` grows with each request of an incarnation. `applied` is the decision that it
    has taken over last, `seen` the highest token of a leader that it knows, and `holder` that leader's incarnation. One that is `leaving` is about to end: it
    wants nothing new, and what it has is to go on elsewhere. `version` is that of its nadi, for people."""

    id: str
    address: str
    incarnation: str
    number: int
    state: str
    receiver: bool
    running: tuple[Running, ...]
    applied: tuple[int, int]
    seen: int
    holder: str = ""
    metrics: Metrics = field(default_factory=Metrics)
    leaving: bool = False
    version: str = ""


@dataclass(frozen=True, slots=True)
class Stranger(Message):
    """A heartbeat of a worker of another system: it says what the contract has, and cannot run what a leader orders."""

    id: str
    address: str


@dataclass(frozen=True, slots=True)
class Granted(Message):
    """200: the leader took the heartbeat. All that the worker runs has to be in `orders`; it may run it for `lease` ms from when it sent the heartbeat. `time`
    is the coordination database's when it was taken, in ms since 1970, by which workers date what they do; 0: not known."""

    leader: str
    managers: tuple[str, ...]
    joined: str  # NEW: the leader did not know the worker; EXISTS
    token: int
    holder: str  # the incarnation of who has the token
    decision: int
    interval: int
    lease: int
    stop_within: int
    orders: tuple[Order, ...]
    time: int = 0


@dataclass(frozen=True, slots=True)
class Farewell(Message):
    """A worker that leaves has left: nothing lies with it any more, and nobody waits for its lease. `waiting` are the apps that nobody can run now, and why."""

    waiting: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Rejected(Message):
    """The worker is not taken: its id belongs to another one that is alive, at `address`; or for another `reason`."""

    address: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Elsewhere(Message):
    """301: another manager leads."""

    leader: str


@dataclass(frozen=True, slots=True)
class Nobody(Message):
    """204: this manager knows of no leader."""


@dataclass(frozen=True, slots=True)
class Poke(Message):
    """A leader's wish that a worker sends a heartbeat now. It may be lost: the next heartbeat comes anyway."""

    leader: str
    token: int


@dataclass(frozen=True, slots=True)
class PartText:
    """An instance of a group, as the plan of an app has it."""

    instance: str
    group: str
    text: str
    receiver: bool = False
    weight: float = 1.0
    listens: str = ""
    home: str = ""
    heritage: str = ""


@dataclass(frozen=True, slots=True)
class Deploy(Message):
    """Run an app, or its changed text. Asking again for the same changes nothing. With `after` it is done only if the app has this version (0: there was never
    one of the name), so that a request that arrives late does not undo a later one.

    With `base` it takes effect when all instances of the app have drained, whose version is to be that one then: the parts begin with what these leave. Of
    several such changes that wait only the last one counts."""

    name: str
    text: str
    parts: tuple[PartText, ...]
    after: int | None = None
    forwarded: bool = False
    generation: str = ""
    base: int | None = None


@dataclass(frozen=True, slots=True)
class Delete(Message):
    """Run an app no longer. `after` as in `Deploy`."""

    name: str
    after: int | None = None
    forwarded: bool = False


@dataclass(frozen=True, slots=True)
class Drain(Message):
    """Move everything off a worker and give it nothing new, or (`on` False) use it again."""

    worker: str
    on: bool = True
    forwarded: bool = False


@dataclass(frozen=True, slots=True)
class Move(Message):
    """Move an instance off the worker that it is on."""

    instance: str
    forwarded: bool = False


@dataclass(frozen=True, slots=True)
class Restart(Message):
    """Stop what runs of an app and start it again where it is, each instance with a higher epoch; what failed starts without waiting for its pause to end."""

    name: str
    forwarded: bool = False


@dataclass(frozen=True, slots=True)
class Cleaned(Message):
    """What a version of an app has left is removed: `name` is that of the row that says so."""

    name: str
    forwarded: bool = False


@dataclass(frozen=True, slots=True)
class PartState:
    """A revision of one instance, made with a text of this digest after cut `cut`. `needs` has the first chunks that it still asks for: (channel, producer,
    part, chunk). `home` is that of the instance (`nadi.cluster.rows.Part`); None where it was not noted yet."""

    instance: str
    revision: str
    digest: str
    cut: int
    needs: tuple[tuple[str, str, int, int], ...] = ()
    home: str | None = None


@dataclass(frozen=True, slots=True)
class Record(Message):
    """A revision of an app is whole: one of each of its instances, which have these texts. `version` is the app's."""

    name: str
    app: str
    version: int
    parts: tuple[PartState, ...]
    forwarded: bool = False


@dataclass(frozen=True, slots=True)
class Restore(Message):
    """Have all instances of an app begin anew with a revision of it."""

    app: str
    revision: str
    forwarded: bool = False


@dataclass(frozen=True, slots=True)
class Forget(Message):
    """Revisions of apps are to be restored no more."""

    revisions: tuple[str, ...]
    forwarded: bool = False


@dataclass(frozen=True, slots=True)
class Owner:
    """An instance that takes messages of an http source, and where it does."""

    instance: str
    epoch: int
    url: str


@dataclass(frozen=True, slots=True)
class Where(Message):
    """A worker's question that is an entrance for messages: who takes them."""


@dataclass(frozen=True, slots=True)
class Owners(Message):
    """Who takes messages, by the path at the entrance; nobody where the instances of a source run nowhere now."""

    by_path: dict[str, tuple[Owner, ...]] = field(default_factory=dict)


Write = Deploy | Delete | Drain | Move | Restart | Record | Restore | Forget | Cleaned


@dataclass(frozen=True, slots=True)
class Done(Message):
    """A write is in the database, and what it changed: created, updated, deleted, unchanged, absent, moving, restarting, recorded, restoring, changing; stale:
    nothing, as the app has another version than the write is for; unfit: nothing, as the revision is of other instances than the app has. `waiting` says why
    an app is not placed, `version` is the app's after the write."""

    what: str
    waiting: str = ""
    version: int = 0


@dataclass(frozen=True, slots=True)
class Unknown(Message):
    """Whether a write was made is not known, or it was not: ask again."""

    reason: str
