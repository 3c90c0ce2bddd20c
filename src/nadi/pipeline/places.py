"""Where the groups of a node are served: in the hosts and the query that apps share, or apart from others.

    shared query, shared hosts ──busy──► own query, shared hosts ──calm──► back         (coordinator/share)
    any of these ──exceeds bounds again and again──► own query, own hosts ──good──► back    (coordinator/conduct)

Own hosts are further processes beside those that apps share; whoever asks one first starts it, as with all hosts. There are at most as many of them at a time
as there are shared ones: on a machine where everybody is late, more processes help nobody; those whose hosts die have more (SUSPECTS). On a cluster nobody gets
any: the node does not see the hosts of other machines die.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from nadi.pipeline.coordinator.conduct import Conduct
from nadi.pipeline.coordinator.share import Share
from nadi.pipeline.hosting.fences import Fences
from nadi.pipeline.hosting.hostclient import hosts
from nadi.pipeline.spec import AppSpec

SUSPECTS = 4  # times as many own hosts as shared ones there may be for apps that have theirs die


@dataclass(frozen=True, slots=True)
class Place:
    """Whether a group has a query of its own, and what is added to the numbers of its hosts (0: the shared ones)."""

    alone: bool
    offset: int = 0


class OwnHosts:
    """The sets of hosts that one app has for itself, and what hosts are told when an app moves or ends. Used from several threads.

    `folder` is that of the hosts of the JVM `jvm`.
    """

    def __init__(self, folder: Path, jvm: int) -> None:
        self._jvm = jvm
        self._fences = Fences(folder)
        self._taken: dict[int, AppSpec] = {}
        self._lock = threading.Lock()

    def take(self, spec: AppSpec, suspect: bool = False) -> int | None:
        """The offset of hosts that the app has for itself from now on; None where no more are to be had. `suspect`: others die with it where it is."""
        most = spec.hosts * (SUSPECTS if suspect else 1)
        with self._lock:
            others = {number: each for number, each in self._taken.items() if each.app != spec.app}
            if sum(map(_processes, (*others.values(), spec))) > most:
                return None
            number = next(n for n in range(1, most + 1) if n not in others)
            self._taken = {**others, number: spec}
            return number * spec.hosts

    def give_back(self, spec: AppSpec) -> None:
        """The app does not need them any more, or not yet."""
        with self._lock:
            self._taken = {number: each for number, each in self._taken.items() if each.app != spec.app}

    def left(self, before: AppSpec, now: AppSpec) -> None:
        """A group that was served as `before` says is served as `now` says, whose epoch counts from now on: the hosts that it has left answer its earlier runs
        no more and forget it, also those that start only then; its own ones end. Takes a while, bounded (TOLD_WITHIN)."""
        group = now.state, now.group
        self._fences.raise_to(group, now.epoch)
        known = hosts(before.hosts, self._jvm)
        gone = [index for index in known.up() if index in _set_of(before)]
        known.forget(before.id, gone, moved=[group, now.epoch])
        if before.offset:
            known.end(gone)

    def forget(self, spec: AppSpec) -> None:
        """An app has ended. Takes a while, bounded."""
        known = hosts(spec.hosts, self._jvm)
        known.forget(spec.id)
        if spec.offset:
            known.end([index for index in known.up() if index in _set_of(spec)])
        self._fences.drop((spec.state, spec.group))
        self.give_back(spec)

    def close(self) -> None:
        """Remove what only hosts of this JVM need."""
        self._fences.close()


def _processes(spec: AppSpec) -> int:
    """How many hosts serve an app.

    >>> _processes(AppSpec("A", "", "", buckets=3, hosts=2))
    2
    """
    return min(spec.buckets, spec.hosts)


def _set_of(spec: AppSpec) -> range:
    """All hosts of the set that serves an app.

    >>> _set_of(AppSpec("A", "", "", hosts=2, offset=4))
    range(4, 6)
    """
    return range(spec.offset, spec.offset + spec.hosts)


class Placement:
    """The place of one group, and which one it should have. `sharing()` is whether apps share a query, `several()` whether there are others to hold up; an
    app that is pinned (`spec.pool`) stays in its query."""

    def __init__(self, spec: AppSpec, own: OwnHosts, sharing: Callable[[], bool], several: Callable[[], bool]) -> None:
        self.conduct = Conduct()
        self._spec = spec
        self._own = own
        self._sharing = sharing
        self._several = several
        self.place = Place(spec.pool == "own" if spec.pool else not sharing())
        self.next: Place | None = None

    def wanted(self, now: float, share: Share) -> Place | None:
        """Another place for the group; None where it is well where it is. Until it has moved or stays, its new hosts are kept for it."""
        self.next = self._back(now, share) if self.place.offset else self._apart(now, share)
        return self.next

    def _apart(self, now: float, share: Share) -> Place | None:
        if self._several() and not self._spec.cluster and self.conduct.offends(now):
            offset = self._own.take(self._spec, self.conduct.has_crashed(now))
            if offset is not None:
                return Place(self._spec.pool != "shared", offset)
        if self._spec.pool or not self._sharing():
            return None
        alone = self.place.alone
        moves = share.is_calm(now) if alone else share.is_busy(now)
        return Place(not alone) if moves else None

    def _back(self, now: float, share: Share) -> Place | None:
        if not self.conduct.is_good(now):
            return None
        pinned, shares = self._spec.pool, not self._spec.pool and self._sharing() and share.is_calm(now)
        return Place(pinned != "shared" and not shares)

    @property
    def drains(self) -> bool:
        """Whether the cut under way is to end before it moves: to other hosts, unless it is its cuts that these die of."""
        return self.next is not None and self.next.offset != self.place.offset

    def in_haste(self, now: float) -> bool:
        """Whether nothing is waited for: its hosts die."""
        return not self.place.offset and self.conduct.has_crashed(now)

    def stay(self) -> None:
        """The move does not take place."""
        if self.next is not None and self.next.offset and not self.place.offset:
            self._own.give_back(self._spec)
        self.next = None

    def move(self, spec: AppSpec) -> AppSpec:
        """The description of the app at its next place."""
        assert self.next is not None
        if self.place.offset and not self.next.offset:
            self._own.give_back(spec)
        self.place, self.next = self.next, None
        return replace(spec, offset=self.place.offset)
