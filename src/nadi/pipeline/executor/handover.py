"""Events that one host has read and another one, or the same, is to process: a fat row names them, instead of carrying them through Spark.

What a fat row carries is copied several times on its way: into Java, through the shuffle and back into a host. Where reader and kernel are on one machine
the events stay in the host that has read them, and the row says where (`at` in its head: `[host, cut, task, number, the request that read them]`). The
kernel's host takes them from there, as they are if it is the same one.

What is held is a cache: a host that no longer has it (it was killed in between) reads the range again. What a range gives is always the same, in
the same pieces.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from nadi.pipeline.hosting.hostclient import hosts
from nadi.pipeline.inputs.fatrows import Body, FatRow, from_ipc, to_ipc
from nadi.pipeline.spec import AppSpec

IDLE = 60.0  # seconds after which nobody is waited for who would take what is held

Reading = tuple[int, int]
"""Cut and task."""


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The hosts of the Java virtual machine `jvm` (a process id), and which of them this one is."""

    jvm: int
    index: int


class Handover:
    """What one app has read in this host for its kernels. `read` makes the fat rows of a request, always the same ones."""

    def __init__(
        self, spec: AppSpec, read: Callable[[dict[str, Any]], Iterable[FatRow]], near: Neighbours | None
    ) -> None:
        self._spec = spec
        self._read = read
        self._near = near
        self._held: dict[Reading, dict[int, pa.RecordBatch]] = {}
        self._lock = threading.Lock()
        self._used = 0.0

    # ---- reading

    def rows(self, head: dict[str, Any]) -> Iterator[FatRow]:
        """The fat rows of a request; where it has a `task`, which says that its kernels are near, the large ones are held here and only named."""
        if self._near is None or "task" not in head:
            yield from self._read(head)
            return
        reading = (head["n"], head["task"])
        for number, row in self._holding(head, reading):
            yield (
                row
                if number is None
                else replace(row, head={**row.head, "at": [*self._place(reading), number, head]}, body=b"")
            )

    def _place(self, reading: Reading) -> tuple[int, int, int]:
        assert self._near is not None
        return (self._near.index, *reading)

    def _holding(self, head: dict[str, Any], reading: Reading) -> Iterator[tuple[int | None, FatRow]]:
        with self._lock:
            for old in [each for each in self._held if each[0] < reading[0]]:
                del self._held[old]
            self._held.setdefault(reading, {})
        for number, row in enumerate(self._read(head)):
            if not isinstance(row.body, pa.RecordBatch) or row.body.nbytes < self._spec.handover:
                yield None, row
                continue
            with self._lock:
                self._held.setdefault(reading, {})[number] = row.body
                self._used = time.monotonic()
            yield number, row

    # ---- taking

    def taken(self, heads: Sequence[dict[str, Any]], bodies: Sequence[Body]) -> list[Body]:
        """The bodies of fat rows, with those that are only named. Errors: HOST_UNAVAILABLE; those of reading."""
        found = list(bodies)
        wanted: dict[tuple[int, int, int], list[int]] = {}
        for i, head in enumerate(heads):
            if "at" in head:
                wanted.setdefault(tuple(head["at"][:3]), []).append(i)
        for (host, cut, task), rows in wanted.items():
            numbers, request = [heads[i]["at"][3] for i in rows], heads[rows[0]]["at"][4]
            for i, batch in zip(rows, self._from(host, (cut, task), numbers, request), strict=True):
                found[i] = batch
        return found

    def _from(self, host: int, reading: Reading, numbers: list[int], request: dict[str, Any]) -> list[pa.RecordBatch]:
        assert self._near is not None, "only hosts with neighbours name what they hold"
        if host == self._near.index:
            return self.held(reading, numbers, request)
        head = {"op": "hand", "reading": list(reading), "numbers": numbers, "request": request}
        bucket = (host - self._spec.first) % self._spec.hosts  # one that this host serves, whatever the offset
        answer = hosts(self._spec.hosts, self._near.jvm).call_app(self._spec, bucket, head)
        return [from_ipc(part) for part in answer.parts]

    def held(self, reading: Reading, numbers: Sequence[int], request: dict[str, Any]) -> list[pa.RecordBatch]:
        """What is held of a reading; what is not is read again. Errors: those of reading."""
        with self._lock:
            mine = dict(self._held.get(reading, {}))
        if any(number not in mine for number in numbers):
            mine = {number: row.body for number, row in self._holding(request, reading) if number is not None}
        return [mine[number] for number in numbers]

    def handed(self, head: dict[str, Any]) -> list[bytes]:
        """The same for another host."""
        cut, task = head["reading"]
        return [to_ipc(batch) for batch in self.held((cut, task), head["numbers"], head["request"])]

    # ---- letting go

    def let_go_idle(self, now: float) -> None:
        """Drop what nobody has come for in a while."""
        if self._used < now - IDLE:
            self.close()

    def close(self) -> None:
        """Let go of all."""
        with self._lock:
            self._held.clear()
