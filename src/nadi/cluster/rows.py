"""What the coordination database holds: frozen rows, one dataclass a table. `KEY` names the fields that find a row.

Times of rows are the database's, in ms of the epoch. `sqltables` says how tables and columns are called.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar


class Row:
    """A row of some table."""

    __slots__ = ()
    KEY: ClassVar[tuple[str, ...]] = ()


Key = tuple[type[Row], tuple[Any, ...]]


def key_of(row: Row) -> Key:
    """Which row it is.

    >>> key_of(Epoch("A-g-1", 3))
    (<class 'nadi.cluster.rows.Epoch'>, ('A-g-1',))
    """
    return type(row), tuple([getattr(row, name) for name in row.KEY])


@dataclass(frozen=True, slots=True)
class Lease(Row):
    """Who may do something alone, until when, and the token that fences it: each new holder has a higher one."""

    KEY: ClassVar = ("name",)
    name: str
    owner: str  # the id of a node
    holder: str  # its incarnation: a node that was started again does not have what it held before
    address: str
    token: int
    renewed: int
    expires: int


@dataclass(frozen=True, slots=True)
class InSync(Row):
    """The in-sync set of a pair: the nodes whose copy is complete. Only these take over."""

    KEY: ClassVar = ("name",)
    name: str
    token: int  # under which it was written
    number: int  # of the change: a change with a lower one comes too late
    members: str  # as `nadi.cluster.pair.membership` writes them
    since: int  # when the members became these
    reason: str  # why
    paired: bool  # there were ever two


@dataclass(frozen=True, slots=True)
class Agreed(Row):
    """Something that the nodes of a pair agree on: whoever comes first has written it."""

    KEY: ClassVar = ("name",)
    name: str
    value: str


@dataclass(frozen=True, slots=True)
class ManagerRow(Row):
    """A manager as a member of the cluster, or a node of a pair: its address is that of its event sync."""

    KEY: ClassVar = ("id",)
    id: str
    address: str
    incarnation: str
    new: bool  # the leader has not announced it yet
    heartbeat: int


@dataclass(frozen=True, slots=True)
class Membership(Row):
    """A change of membership that one manager has not read yet."""

    KEY: ClassVar = ("reader", "number")
    reader: str
    number: int
    change: str  # COORDINATOR_CHANGED, MEMBER_ADDED, MEMBER_REMOVED
    member: str


@dataclass(frozen=True, slots=True)
class Removed(Row):
    """A manager that was removed for its silence, for one other manager to read."""

    KEY: ClassVar = ("reader", "member")
    reader: str
    member: str
    address: str


@dataclass(frozen=True, slots=True)
class WorkerRow(Row):
    """A worker that the leader knows."""

    KEY: ClassVar = ("id",)
    id: str
    address: str
    incarnation: str
    receiver: bool
    draining: bool
    gone: bool  # its lease is over
    since: int  # when it joined or went, by the leader's count of the database's time
    version: str = ""  # of its nadi, as it says


@dataclass(frozen=True, slots=True)
class Beat(Row):
    """The last heartbeat of a worker, as of the leader's last note of it."""

    KEY: ClassVar = ("worker",)
    worker: str
    at: int
    cpu: float | None  # the machine's, 0 to 1
    process: float | None  # the node's own, 0 to 1
    memory: float | None  # used part of what it may use, 0 to 1


@dataclass(frozen=True, slots=True)
class App(Row):
    """An app that a user gave."""

    KEY: ClassVar = ("name",)
    name: str
    version: int  # from 1, one more with each changed text
    digest: str
    text: str
    generation: str = ""  # what tells its channels and the homes of its instances from those of versions before


@dataclass(frozen=True, slots=True)
class Part(Row):
    """An instance of a group of an app: what a worker runs."""

    KEY: ClassVar = ("instance",)
    instance: str
    app: str
    group: str
    digest: str
    text: str
    receiver: bool
    weight: float
    listens: str = ""  # on which ports, as `sockets` writes it
    home: str = ""  # the name by which what it keeps is known; "": its own
    heritage: str = ""  # what it begins with, for the worker to read; "": nothing


@dataclass(frozen=True, slots=True)
class AppChange(Row):
    """Another version of an app, which takes the place of the one that is there when all instances of that one have drained."""

    KEY: ClassVar = ("app",)
    app: str
    version: int
    digest: str
    text: str
    generation: str
    parts: str  # its instances: a list of `PartText`, as JSON


@dataclass(frozen=True, slots=True)
class Drained(Row):
    """An instance of an app that changes: it has taken all that it had, said so to who reads what it gives, and will never run again."""

    KEY: ClassVar = ("instance",)
    instance: str
    app: str
    epoch: int


@dataclass(frozen=True, slots=True)
class Stale(Row):
    """A version of an app whose channels and state are to be removed, once those of a later one do not need them any more."""

    KEY: ClassVar = ("name",)
    name: str
    app: str
    version: int
    text: str
    generation: str


@dataclass(frozen=True, slots=True)
class Placement(Row):
    """Where an instance is to run, or still may be running. It lies with one worker at a time: the row goes only when nothing of the instance can run there."""

    KEY: ClassVar = ("instance",)
    instance: str
    worker: str
    epoch: int
    digest: str  # of the text that this epoch runs
    wanted: bool  # False: it is to stop there
    drains: bool = False  # it takes in nothing more from outside, and ends when it has taken all


@dataclass(frozen=True, slots=True)
class Epoch(Row):
    """The highest epoch that an instance was ever started with; as `app:name` the version of an app. It outlives placement and app."""

    KEY: ClassVar = ("instance",)
    instance: str
    epoch: int


@dataclass(frozen=True, slots=True)
class Actual(Row):
    """What a worker says of an instance."""

    KEY: ClassVar = ("instance",)
    instance: str
    worker: str
    epoch: int
    state: str  # starting, running, stopping, failed, ended, drained
    reason: str


@dataclass(frozen=True, slots=True)
class Waiting(Row):
    """An app that is not placed, and why."""

    KEY: ClassVar = ("app",)
    app: str
    reason: str


@dataclass(frozen=True, slots=True)
class Failure(Row):
    """An instance that failed so often in a row, last with this epoch."""

    KEY: ClassVar = ("instance",)
    instance: str
    count: int
    epoch: int
    reason: str


@dataclass(frozen=True, slots=True)
class Revision(Row):
    """A revision of an app: one of each of its instances, all of which were read back. `parts` is JSON, as `nadi.cluster.appstates` has it."""

    KEY: ClassVar = ("name",)
    name: str
    app: str
    version: int  # of the app
    made: int
    parts: str


@dataclass(frozen=True, slots=True)
class Beginning(Row):
    """With which revision of its own an instance begins, unless a run of this epoch or a later one has committed: that has done so already."""

    KEY: ClassVar = ("instance",)
    instance: str
    revision: str
    epoch: int


@dataclass(frozen=True, slots=True)
class Event(Row):
    """Something that happened, for people. Numbers grow within a token, tokens from leader to leader."""

    KEY: ClassVar = ("token", "number")
    token: int
    number: int
    at: int
    kind: str
    subject: str
    detail: str


KINDS: tuple[type[Row], ...] = (
    Lease, ManagerRow, Membership, Removed, WorkerRow, Beat, App, Part, Placement, Epoch, Actual, Waiting, Failure, Revision, Beginning, Event, AppChange,
    Drained, Stale, InSync, Agreed,
)  # fmt: skip
