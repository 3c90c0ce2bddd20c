"""What the hosts are asked to do for the cuts of a batch: pure planning, and the requests as bytes.

Spark passes requests on without looking at them. In one stage a request has all groups of a host, and the host does everything; in two stages a request is
a part of the reading of one group, whose events Spark carries to the hosts of its buckets.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from nadi.pipeline.cutting.cuts import Cut
from nadi.pipeline.hosting.lane import Partition
from nadi.pipeline.hosting.seats import Seat
from nadi.pipeline.inputs.ranges import Range
from nadi.pipeline.spec import AppSpec
from nadi.pipeline.statelog.lines import Line

SPLIT = 20_000  # messages; smaller pieces are not worth a task of their own

_PACK = msgspec.msgpack.Encoder().encode


@dataclass(frozen=True, slots=True)
class Work:
    """A cut that a group is to take: the one it stands at, the next one, and where its buckets stand in the state log.

    `told` is whether hosts are told all that one needs that knows nothing of the group: its description and the whole lines of its buckets. `seats` is where
    its buckets are on a cluster, as far as that is known. `brought` are messages of inputs that hosts cannot reach
    (`nadi.pipeline.inputs.brought`). `level` says what hosts are to measure of it (`nadi.metrics.levels`).
    `careful`: it is only tried, message by message, as hosts have died of it (`nadi.pipeline.executor.carefully`). `ask` tells this request from all others.
    """

    spec: AppSpec
    before: Cut
    cut: Cut
    lines: Mapping[int, Line]
    told: bool
    seats: Mapping[int, Seat] = field(default_factory=dict)
    brought: bytes = b""
    level: int = 0
    careful: bool = False
    ask: str = ""

    @property
    def host(self) -> int:
        """The host that does all of it, in one stage."""
        return self.spec.host_of(0)

    def head(self, ranges: Sequence[Range]) -> dict[str, Any]:
        """The group in a request, with what is to be read."""
        spec, cut = self.spec, self.cut
        return {
            "app": spec.id,
            "epoch": spec.epoch,
            "spec": spec.to_json() if self.told else None,
            "n": cut.n,
            "clock": cut.clock,
            "started": cut.started,
            "ranges": [r.plain() for r in ranges],
            "at": {bucket: self._at(bucket) for bucket in range(spec.buckets)},
            **({"brought": self.brought} if self.brought else {}),
            **({"level": int(self.level)} if self.level else {}),
            **({"careful": True} if self.careful else {}),
            **({"ask": self.ask} if self.ask else {}),
            **({"aside": cut.set_aside} if cut.aside else {}),
        }

    def place(self, bucket: int) -> str:
        """The executor that has a bucket; "" for any."""
        seat = self.seats.get(bucket)
        return "" if seat is None else seat.place

    def owner(self, bucket: int, host: int) -> str:
        """The door of the host that has a bucket, if that has the number at which it is to be now; "" where whoever gets it is to take it."""
        seat = self.seats.get(bucket)
        return "" if seat is None or seat.host != host else seat.address

    def _at(self, bucket: int) -> list[Any]:
        line = self.lines.get(bucket, Line())
        return [line.tip, _PACK(line) if self.told or not line.tip else None]


def ranges_of(before: Cut, cut: Cut, inputs: Collection[int] = ()) -> list[Range]:
    """What a cut takes of each partition. `inputs` are the numbers of the inputs that the app has (empty: all that the cut has); a restore may have let go of
    others."""
    return [
        Range(
            ordinal,
            partition,
            begin,
            stop,
            0,
            cut.highs.get((ordinal, partition)),
            tuple(p for p in cut.aside.get((ordinal, partition), ()) if begin <= p < stop),
        )
        for (ordinal, partition), stop in sorted(cut.ends.items())
        if (begin := cut.start_of((ordinal, partition), before)) < stop and (not inputs or ordinal in inputs)
    ]


def split_ranges(ranges: Sequence[Range], hosts: int, parted: Collection[int] = ()) -> dict[int, list[Range]]:
    """Which host reads what of a large cut; host 0 reads all of a small one, and there is always one that brings the clock.

    `parted` are the inputs of which hosts may read parts side by side. Any other partition is always read by the same host, which goes on where it stopped: a
    Kafka consumer that is set to another place throws away what it has fetched, and begins anew within 20 ms to a second.
    """
    if sum(r.end - r.start for r in ranges) < 2 * SPLIT:
        return {0: list(ranges)}
    homes: dict[int, list[Range]] = {}
    for r in ranges:
        for host, piece in _pieces(r, hosts, hosts if r.ordinal in parted else 1):
            homes.setdefault(host, []).append(piece)
    return dict(sorted(homes.items()))


def _pieces(whole: Range, hosts: int, most: int) -> Iterator[tuple[int, Range]]:
    """A range cut into at most so many pieces for several hosts where it is large."""
    size = whole.end - whole.start
    count = min(most, max(1, size // SPLIT))
    home = whole.ordinal + whole.partition
    for i in range(count):
        start, end = whole.start + size * i // count, whole.start + size * (i + 1) // count
        yield (home + i) % hosts, replace(whole, start=start, end=end, split=i)


def one_stage(works: Sequence[Work], deadline: float | None, wake: str) -> list[Partition]:
    """A task for each host that has work. After `deadline` (s, None: as long as it takes) the host answers without the groups that are not done, and rings at
    `wake` (the coordinator's socket, or its door) when they are.

    On a cluster each executor has hosts of these numbers; the task of a group prefers the one that has it. Groups that none has yet have a task each, so that
    Spark spreads them.
    """
    by_host: dict[tuple[int, str, str], list[Work]] = {}
    for work in works:
        place = work.place(0)
        by_host.setdefault((work.host, place, work.spec.id if work.spec.cluster and not place else ""), []).append(work)
    return [
        Partition(host, place, _PACK({**_run(mine, deadline, wake), "groups": [_whole(work) for work in mine]}))
        for (host, place, _), mine in sorted(by_host.items())
    ]


def _run(works: Sequence[Work], deadline: float | None, wake: str) -> dict[str, Any]:
    asked = {"k": "run", "deadline": deadline, "wake": wake}
    return {**asked, "token": works[0].spec.token} if works[0].spec.cluster else asked


def _whole(work: Work) -> dict[str, Any]:
    head = work.head(ranges_of(work.before, work.cut, work.spec.inputs.values()))
    return {**head, "owner": work.owner(0, work.host)} if work.spec.cluster else head


def no_work(hosts: int) -> list[Partition]:
    """A task for each host in which there is nothing to do: what carries a batch has begun to run when they are done."""
    nothing = _PACK({"k": "run", "deadline": None, "wake": "", "groups": []})
    return [Partition(host, "", nothing) for host in range(hosts)]


def two_stages(work: Work) -> list[Partition]:
    """A task for each host that reads a part of the cut; on a cluster best where a bucket is: inputs stay open there."""
    spec = work.spec
    ranges = ranges_of(work.before, work.cut, spec.inputs.values())
    homes = split_ranges(ranges, spec.hosts, spec.parted)
    owners = {bucket: work.owner(bucket, spec.host_of(bucket)) for bucket in range(spec.buckets)}
    more = {"token": spec.token, "owners": owners} if spec.cluster else {}
    return [
        Partition(
            spec.host_of(home),
            work.place(home % spec.buckets),
            _PACK(
                {"k": "read", "host": spec.host_of(home), "tasks": len(homes), "task": task, **more, **work.head(mine)}
            ),
        )
        for task, (home, mine) in enumerate(homes.items())
    ]
