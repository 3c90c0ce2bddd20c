"""Where instances go: pure functions over what is known of workers and of what they have.

Instances of one group go to different workers as long as there are some (anti-affinity); among those the algorithm chooses:

- `round-robin`: who has the fewest instances, in turn;
- `least-cpu`: who has the most idle processor, counting what was placed since it was measured;
- `weight`: who has the least weight.

An instance goes to no worker on whose machine somebody else has a port that its sources listen on. An app is placed whole or not at all. Groups that own a
user's source go to receiver nodes where there are some; nothing else goes there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from nadi.cluster.rows import Part
from nadi.cluster.settings import Placing
from nadi.cluster.sockets import Occupied

SHARE = 0.05
"""The part of a machine's processor that an instance is taken to need where nothing was measured."""


@dataclass(frozen=True, slots=True)
class Seat:
    """A worker that may be given instances. `cpu` is the busy part of its machine, 0 to 1, where it is measured; `host` is its machine, "" for its own."""

    worker: str
    receiver: bool = False
    cpu: float | None = None
    host: str = ""


@dataclass(slots=True)
class Tally:
    """What workers have, counted on while instances are placed."""

    seats: Sequence[Seat]
    placing: Placing = field(default_factory=Placing)
    counts: Counter[str] = field(default_factory=Counter)
    weights: Counter[str] = field(default_factory=Counter)
    groups: Counter[tuple[str, str]] = field(default_factory=Counter)
    busy: dict[str, float] = field(default_factory=dict)
    share: float = SHARE
    last: int = -1  # the seat that was chosen last
    occupied: Occupied = field(default_factory=Occupied)

    @staticmethod
    def of(
        seats: Iterable[Seat],
        placed: Iterable[tuple[Part, str]],
        placing: Placing,
        hosts: Mapping[str, str] = MappingProxyType({}),
    ) -> Tally:
        """What workers have now: instances, each with its worker. `hosts` are the machines of workers that may have instances and are given none."""
        found = Tally(sorted(seats, key=lambda seat: seat.worker), placing)
        found.occupied = Occupied({**hosts, **{seat.worker: seat.host for seat in found.seats}})
        for part, worker in placed:
            if part.listens:
                found.occupied.add(part.listens, worker)
            found.counts[worker] += 1
            found.weights[worker] += part.weight  # type: ignore[assignment]  # Counter's values may be any number
            found.groups[worker, part.group] += 1
        found._measure()
        return found

    def _measure(self) -> None:
        measured = [seat for seat in self.seats if seat.cpu is not None]
        mean = sum(seat.cpu or 0.0 for seat in measured) / len(measured) if measured else 0.0
        self.busy = {seat.worker: mean if seat.cpu is None else seat.cpu for seat in self.seats}
        has = sum(self.counts[seat.worker] for seat in measured)
        if has:
            self.share = max(0.01, mean * len(measured) / has)

    def load(self, worker: str) -> float:
        """What the algorithm compares."""
        if self.placing.algorithm == "least-cpu":
            return self.busy[worker]
        return self.weights[worker] if self.placing.algorithm == "weight" else self.counts[worker]

    def add(self, part: Part, at: int) -> str:
        """Give an instance to a seat."""
        worker = self.seats[at].worker
        self.counts[worker] += 1
        self.weights[worker] += part.weight  # type: ignore[assignment]
        self.groups[worker, part.group] += 1
        self.busy[worker] += self.share
        self.occupied.add(part.listens, worker)
        self.last = at
        return worker

    def take(self, part: Part, worker: str) -> None:
        """Take an instance from a worker."""
        self.counts[worker] -= 1
        self.weights[worker] -= part.weight  # type: ignore[assignment]
        self.groups[worker, part.group] -= 1
        self.busy[worker] -= self.share
        self.occupied.add(part.listens, worker, -1)

    def copy(self) -> Tally:
        made = Tally(self.seats, self.placing, self.counts.copy(), self.weights.copy(), self.groups.copy())
        made.busy, made.share, made.last = dict(self.busy), self.share, self.last
        made.occupied = self.occupied.copy()
        return made


@dataclass(frozen=True, slots=True)
class Placed:
    """The workers of the instances of one app that had none, or why it has to wait."""

    workers: dict[str, str]
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Wish:
    """Where an instance that moves should go, or should not."""

    to: str = ""
    away: str = ""


def place(parts: Sequence[Part], tally: Tally, wishes: Mapping[str, Wish] = MappingProxyType({})) -> Placed:
    """Workers for instances of one app, added to the tally where all of them find one. `wishes` are followed as far as there are workers for them.

    >>> parts = [Part(f"A-g-{n}", "A", "A-g", "", "", False, 1.0) for n in (1, 2, 3)]
    >>> place(parts, Tally.of([Seat("w1"), Seat("w2")], [], Placing())).workers
    {'A-g-1': 'w1', 'A-g-2': 'w2', 'A-g-3': 'w1'}
    >>> place(parts, Tally.of([Seat("w1")], [], Placing(least=2))).reason
    '1 of 2 workers are there (minResourceCount)'
    >>> from nadi.cluster.sockets import Socket, written
    >>> parts = [Part(f"A-g-{n}", "A", "A-g", "", "", False, 1.0, written([Socket("S", 8006, "/")])) for n in (1, 2)]
    >>> place(parts, Tally.of([Seat("w1", host="h"), Seat("w2", host="h")], [], Placing())).reason
    'no worker has port 8006 free'
    """
    reason = _short_of(parts, tally)
    if reason:
        return Placed({}, reason)
    receivers = [at for at, seat in enumerate(tally.seats) if seat.receiver]
    others = [at for at, seat in enumerate(tally.seats) if not seat.receiver]
    workers: dict[str, str] = {}
    busy, last = dict(tally.busy), tally.last
    for part in parts:
        among = (receivers or others) if part.receiver else others
        free = among
        if part.listens:
            free = [at for at in among if not tally.occupied.hinders(part.listens, tally.seats[at].worker)]
        if not free:
            port = tally.occupied.hinders(part.listens, tally.seats[among[0]].worker)
            for done in parts[: len(workers)]:
                tally.take(done, workers[done.instance])
            tally.busy, tally.last = busy, last
            return Placed({}, f"no worker has port {port} free")
        workers[part.instance] = tally.add(part, _best(part, free, tally, wishes.get(part.instance, _NONE)))
    return Placed(workers)


def _short_of(parts: Sequence[Part], tally: Tally) -> str:
    """Why these instances cannot be placed now; "" where they can."""
    others = sum(not seat.receiver for seat in tally.seats)
    plain = any(not part.receiver for part in parts)
    if plain and others < tally.placing.least:
        return f"{others} of {tally.placing.least} workers are there (minResourceCount)"
    if plain and not others:
        return "no worker is there that is not a receiver node"
    return "" if tally.seats else "no worker is there"


_NONE = Wish()


def _best(part: Part, among: Sequence[int], tally: Tally, wish: Wish) -> int:
    """The seat for an instance."""
    group, groups, size, seats = part.group, tally.groups, len(tally.seats), tally.seats

    def rank(at: int) -> tuple[bool, bool, int, float, int]:
        worker = seats[at].worker
        return (
            worker != wish.to,
            worker == wish.away,
            groups[worker, group],
            tally.load(worker),
            (at - tally.last - 1) % size,
        )

    return min(among, key=rank)


def moves(placed: Sequence[tuple[Part, str]], tally: Tally, most: int) -> dict[str, str]:
    """Instances that should leave their worker so that loads get even, and where they should go: as few as do, `most` at a time. The tally has them there.

    An instance moves where the difference of the two workers is twice its weight at least: what is even enough stays as it is. One that lies with another of
    its group moves where that makes no worker fuller than the fullest was: a machine that dies should not take a whole group along. Balance is by number or
    by weight, never by a measured load, which would change with each move.

    >>> parts = [(Part(f"A-g-{n}", "A", f"A-g{n}", "", "", False, 1.0), "w1") for n in (1, 2, 3, 4)]
    >>> moves(parts, Tally.of([Seat("w1"), Seat("w2")], parts, Placing()), 9)
    {'A-g-1': 'w2', 'A-g-2': 'w2'}
    >>> parts = [(Part(f"A-{g}-{n}", "A", f"A-{g}", "", "", False, 1.0), w) for g, n, w in (("f", 1, "w1"), ("s", 1, "w2"), ("s", 2, "w2"))]
    >>> moves(parts, Tally.of([Seat("w1"), Seat("w2")], parts, Placing()), 9)
    {'A-s-1': 'w1'}
    """
    found: dict[str, str] = {}
    for receiver in (False, True):
        seats = {seat.worker: at for at, seat in enumerate(tally.seats) if seat.receiver == receiver}
        of: dict[str, list[Part]] = {worker: [] for worker in seats}
        for part, worker in placed:
            if worker in of and part.receiver == receiver:
                of[worker].append(part)
        while len(found) < most and len(seats) > 1:
            step = _step(of, tally)
            if step is None:
                break
            part, high, low = step
            of[high].remove(part)
            of[low].append(part)
            tally.take(part, high)
            tally.add(part, seats[low])
            found[part.instance] = low
    was = {part.instance: worker for part, worker in placed}
    return {instance: worker for instance, worker in found.items() if was[instance] != worker}


def _step(of: dict[str, list[Part]], tally: Tally) -> tuple[Part, str, str] | None:
    """The next instance to move, from where and to where."""
    by_weight = tally.placing.algorithm == "weight"
    loads = tally.weights if by_weight else tally.counts
    low = min(of, key=lambda worker: (loads[worker], worker))
    for high in sorted(of, key=lambda worker: (-loads[worker], worker)):
        more = loads[high] - loads[low]
        if more <= 0:
            break
        weight = {part.instance: part.weight if by_weight else 1.0 for part in of[high]}
        apart = {part.instance: tally.groups[high, part.group] - tally.groups[low, part.group] for part in of[high]}
        fit = [
            part
            for part in of[high]
            if (
                (weight[part.instance] <= more / 2 and apart[part.instance] > 0)
                or (weight[part.instance] <= more and apart[part.instance] > 1)
            )
            and not tally.occupied.hinders(part.listens, low, high)
        ]
        if fit:
            return max(fit, key=lambda part: (apart[part.instance] > 1, weight[part.instance])), high, low
    return None
