"""What is copied to the partner of a node, and how a writer asks for it.

A writer prepares a record, writes it to the service of its own node, and confirms it. What is prepared is durable on all nodes of the in-sync set. Where a
writer ends between the two, the service itself is asked whether it has the record.
"""

from __future__ import annotations

from typing import Protocol

import msgspec


class JournalAppend(msgspec.Struct, frozen=True, tag="journal"):
    """A message of the journal: `stream` with its configuration as JSON, and what is published. A later one with the same subject and `first` replaces it."""

    stream: str
    config: bytes
    subject: str
    first: int
    headers: dict[str, str]
    payload: bytes


class JournalTrim(msgspec.Struct, frozen=True, tag="trim"):
    """Messages of a subject whose events are all before `position` go; with `position` -1 the stream goes."""

    stream: str
    subject: str
    position: int


class Statements(msgspec.Struct, frozen=True, tag="sql"):
    """Transaction `n` of the logs: statements with their parameters as MessagePack, in order. A later one with the same `n` replaces it."""

    n: int
    statements: list[tuple[str, bytes]]


class ObjectPut(msgspec.Struct, frozen=True, tag="put"):
    """A file that is complete and synced in the folder of objects, at this relative path."""

    path: str
    length: int


class ObjectsGone(msgspec.Struct, frozen=True, tag="gone"):
    """Files that are not needed any more."""

    paths: list[str]


class AppFile(msgspec.Struct, frozen=True, tag="app"):
    """The text of an app in the folder of apps; None: it is undeployed."""

    name: str
    text: str | None


Record = JournalAppend | JournalTrim | Statements | ObjectPut | ObjectsGone | AppFile


class Replica(Protocol):
    """The event sync of this node, as a writer sees it. Implementations: `nadi.replica.client` over the node's Unix socket, with blocking and with
    asynchronous methods of the same meaning.

    Errors of `prepare`: NOT_ACTIVE where this node may not write (it is passive, or is no more active); CONNECTION_UNAVAILABLE where nobody knows (the record
    may be written by a take-over).
    """

    def prepare(self, record: Record) -> int:
        """Have a record durable on all nodes of the in-sync set. -> a ticket."""
        ...

    def confirm(self, ticket: int) -> None:
        """The service of this node has it."""
        ...

    def abandon(self, ticket: int) -> None:
        """The service of this node does not have it, and never will."""
        ...
