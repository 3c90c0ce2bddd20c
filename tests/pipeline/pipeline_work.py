"""Cuts of one app without Spark: this process plays the coordinator and Java, hosts are in this process or processes of their own.

What is committed is compared with a replay of the cuts: the rows that the sink has, and the state that the state log leads to.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec
from pipeline_testlog import LineLog, open_sink

from nadi.io.contract import Receipt
from nadi.kernel.contract import Segment
from nadi.pipeline.cutting.cuts import Cut
from nadi.pipeline.executor.cutwork import CutWork
from nadi.pipeline.executor.hosted import Apps
from nadi.pipeline.history.replay import Emitted, Inputs, Replayer
from nadi.pipeline.hosting.hostclient import Hosts, hosts_folder
from nadi.pipeline.hosting.lane import RECEIPT, LaneClient, Op, Row, decode_rows, encode_bodies
from nadi.pipeline.spec import AppSpec
from nadi.pipeline.statelog.lines import Base, Line, Piece, after_base, after_delta, objects_of
from nadi.pipeline.statelog.recovery import parts
from nadi.pipeline.statelog.stores import open_store

PACK = msgspec.msgpack.encode
Told = dict[str, Any]


class Side(Protocol):
    """A host, as Java sees it."""

    def read(self, request: bytes) -> list[Row]: ...
    def write(self, bodies: Sequence[bytes]) -> bytes: ...


class Within:
    """A host in this process."""

    def __init__(self, scratch: Path) -> None:
        scratch.mkdir(exist_ok=True)
        self.rung: list[tuple[str, str]] = []
        self.apps = Apps(scratch, None, lambda address, app: self.rung.append((address, app)))
        self._work = CutWork(self.apps)

    def read(self, request: bytes) -> list[Row]:
        return list(self._work.read(request))

    def write(self, bodies: Sequence[bytes]) -> bytes:
        return self._work.write(bodies)

    def close(self) -> None:
        for id_ in list(self.apps._apps):
            self.apps.forget(id_)


class Process:
    """A host process, over its lane."""

    def __init__(self, hosts: Hosts, index: int) -> None:
        self._hosts, self._index = hosts, index

    def _client(self) -> LaneClient:
        self._hosts.call(self._index, {"op": "ping"})  # starts it where it is not there
        return LaneClient(hosts_folder(os.getpid()) / f"{self._index}.lane")

    def read(self, request: bytes) -> list[Row]:
        with self._client() as client:
            return [row for frame in client.frames(Op.READ, request) for row in decode_rows(frame)]

    def write(self, bodies: Sequence[bytes]) -> bytes:
        with self._client() as client:
            return client.ask(Op.WRITE, encode_bodies(bodies))


class Rig:
    """The coordinator of one app: its cuts, and what is committed of them."""

    def __init__(self, spec: AppSpec, cuts: Sequence[Cut]) -> None:
        self.spec = spec
        self.epoch = 1
        self.cuts = {cut.n: cut for cut in cuts}
        self.at = 0
        self.lines = {bucket: Line() for bucket in range(spec.buckets)}
        self.store = open_store(spec.place.state / "log")
        self.told: list[Told] = []
        self.committed: dict[tuple[int, int], list[dict[str, Any]]] = {}
        self._sink = open_sink(
            spec.load_connectors().connectors(spec.load_engine().plan_app(spec.text), "sink")[0], spec.place
        )

    # ---- what hosts are asked

    def group(self, n: int, all_told: bool = True, spec: bool = True, **more: Any) -> Told:
        """A group in a request."""
        before, cut = self.cuts[n - 1], self.cuts[n]
        ranges = [
            [o, p, begin, end, 0, cut.highs.get((o, p)), cut.aside.get((o, p), ())]
            for (o, p), end in sorted(cut.ends.items())
            if (begin := before.ends.get((o, p), 0)) < end
        ]
        at = {b: [line.tip, PACK(line) if all_told or not line.tip else None] for b, line in self.lines.items()}
        told = {"app": self.spec.id, "epoch": self.epoch, "spec": self.spec.to_json() if spec else None, "n": n}
        told |= {"aside": cut.set_aside} if cut.aside else {}
        return {**told, "clock": cut.clock, "started": cut.started, "ranges": ranges, "at": at, **more}

    def run(self, host: Side, n: int | None = None, **more: Any) -> Told:
        """What a host tells of a cut that it does in one stage: the next one, unless `n` is another one."""
        group = self.group(self.at + 1 if n is None else n, **more)
        (row,) = host.read(ask_run([group]))
        assert row.host == RECEIPT
        (told,) = groups_of(row.body)
        return told

    def both(self, readers: Sequence[Side], hosts: Mapping[int, Side], n: int | None = None, **more: Any) -> list[Told]:
        """What hosts tell of a cut that they do in two stages, each reader a part of it."""
        return self.processed(self.rows(readers, n, **more), hosts)

    def processed(self, rows: Sequence[Row], hosts: Mapping[int, Side]) -> list[Told]:
        """What hosts tell of the rows that readers gave, each of those that are its own."""
        told = [each for row in rows if row.host == RECEIPT for each in groups_of(row.body)]
        for host, mine in itertools.groupby(sorted((r for r in rows if r.host != RECEIPT), key=_host), _host):
            told += groups_of(hosts[host].write([bytes(row.body) for row in mine]))
        return told

    def rows(self, readers: Sequence[Side], n: int | None = None, **more: Any) -> list[Row]:
        """The rows that the readers give for the parts of a cut."""
        group = self.group(self.at + 1 if n is None else n, **more)
        rows: list[Row] = []
        for task, reader in enumerate(readers):
            asked = {**group, "ranges": [part_of(r, task, len(readers)) for r in group["ranges"]]}
            rows += reader.read(PACK({"k": "read", "host": 0, "tasks": len(readers), "task": task, **asked}))
        return rows

    # ---- what comes of it

    def commit(self, *told: Told) -> None:
        """Commit the next cut."""
        assert {t["state"] for t in told} == {"done"}, told
        buckets = [b for t in told for b in t["buckets"]]
        assert sorted(b["bucket"] for b in buckets) == list(self.lines)
        self.at += 1
        assert {b["cut"] for b in buckets} == {self.at}
        receipts = [Receipt(bucket, cut, content) for b in buckets for _, bucket, cut, content in b["receipts"]]
        self._sink.commit(self.at, receipts)
        for b in buckets:
            line = self.lines[b["bucket"]]
            if b["piece"] is not None:
                line = after_delta(line, Piece(*b["piece"]))
            if b["base"] is not None:
                line = after_base(line, msgspec.convert(b["base"], Base))
            assert line.tip == b["tip"]
            self.lines[b["bucket"]] = line
        self.told.append({b["bucket"]: b for b in buckets})

    def step(self, host: Side, **more: Any) -> Told:
        """The next cut, in one stage, and committed; a host that lacks something is told all."""
        told = self.run(host, **more)
        if told["state"] == "need":
            told = self.run(host)
        self.commit(told)
        return told

    # ---- what should have come of it

    def check(self) -> None:
        """Everything that is committed is what a replay gives: rows and states."""
        replayer = Replayer(self.spec)
        given: dict[tuple[int, int], list[dict[str, Any]]] = {}
        with Inputs(self.spec) as inputs:
            for n in range(1, self.at + 1):
                cut = self.cuts[n]
                for emitted in replayer.take(cut, inputs.read(self.cuts[n - 1], cut)):
                    if rows := _rows(emitted):
                        given[n, emitted.bucket] = rows
        assert self.delivered() == given
        for bucket, kernel in enumerate(replayer.kernels):
            assert self.state(bucket) == list(kernel.dump()), f"bucket {bucket} after cut {self.at}"

    def delivered(self) -> dict[tuple[int, int], list[dict[str, Any]]]:
        """What the sink has, by cut and bucket."""
        found = {}
        for path in sorted((Path(self.spec.state).parent / "out").glob("*.jsonl")):
            cut, bucket = map(int, path.stem.split("-"))
            found[cut, bucket] = [json.loads(line) for line in path.read_text().splitlines()]
        return found

    def state(self, bucket: int) -> list[Segment]:
        """What the state log leads to."""
        kernel = self.spec.load_engine().make_kernel(
            self.spec.load_engine().plan_app(self.spec.text), self.spec.outputs, bucket, self.spec.properties
        )
        kernel.load(parts(self.store, self.lines[bucket], bucket))
        return list(kernel.dump())


def _host(row: Row) -> int:
    return row.host


def _rows(emitted: Emitted) -> list[dict[str, Any]]:
    return [json.loads(json.dumps(row)) for batch in emitted.batches.values() for row in batch.to_pylist()]


def ask_run(groups: Sequence[Told], deadline: float | None = None, wake: str = "") -> bytes:
    """A request for one stage."""
    return PACK({"k": "run", "deadline": deadline, "wake": wake, "groups": list(groups)})


def groups_of(receipt: bytes | memoryview) -> list[Told]:
    """The groups that a receipt tells of."""
    found: list[Told] = msgspec.msgpack.decode(receipt)["groups"]
    for told in found:
        for name in ("worked", "computed", "wrote"):  # they differ each time
            told.pop(name, None)
    return found


def part_of(plain: list[Any], task: int, tasks: int) -> list[Any]:
    """The part of a range that one of some tasks reads."""
    ordinal, partition, start, end, _, *more = plain
    size = end - start
    return [ordinal, partition, start + size * task // tasks, start + size * (task + 1) // tasks, task, *more]


def cuts_of(path: Path, ends: Sequence[int], clock: int = 0) -> list[Cut]:
    """Cuts of a `LineLog` that end at these positions, each with the time of its last message, or `clock` (ms) more."""
    times = LineLog({"file": str(path)}).times(0, 0, 1 << 40)
    assert times is not None
    made = [Cut(0, 1, 0, 0, {(0, 0): 0})]
    for n, end in enumerate(ends, 1):
        start = made[-1].ends[0, 0]
        high = {(0, 0): int(times[start - 1])} if start else {}
        made.append(Cut(n, 1, int(times[end - 1]) + clock, int(times[0]), {(0, 0): end}, {}, high))
    return made


def spec_of(folder: Path, text: str, **more: Any) -> AppSpec:
    """An app in a folder, which its text calls `{folder}`."""
    folder.mkdir(exist_ok=True)
    (folder / "state").mkdir(exist_ok=True)
    text = text.format(folder=folder, endless="false")
    return AppSpec("Work", text, str(folder / "state"), outputs=("Out",), connectors="pipeline_testlog", **more)


def sides(scratch: Path, count: int) -> Iterator[list[Within]]:
    """For a fixture: hosts in this process."""
    made = [Within(scratch / f"host-{i}") for i in range(count)]
    yield made
    for each in made:
        each.close()


def sweep(rig: Rig) -> None:
    """What the owner of a group does when a new run begins: the objects that nothing committed needs go."""
    bound = objects_of(rig.lines.values())
    rig.store.delete([name for name in rig.store.list() if name not in bound])
