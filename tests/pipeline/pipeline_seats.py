"""Executors of a cluster in this process: hosts with doors, between which a test sends tasks about; and a store that counts what is read of it."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from pipeline_work import PACK, Rig, Told, Within, groups_of

from nadi.pipeline.executor.cutwork import CutWork
from nadi.pipeline.executor.owners import Owned
from nadi.pipeline.hosting.lane import RECEIPT, Row
from nadi.pipeline.hosting.seats import Seat
from nadi.pipeline.statelog.folder import FolderStore

TOKEN = "a token of these tests"


class Executor:
    """A host of an executor, as Java sees it."""

    def __init__(self, scratch: Path, number: int) -> None:
        self.within = Within(scratch / f"executor-{number}")
        self.place = f"executor_127.0.0.1_{number}"
        self._owned = Owned(CutWork(self.within.apps), self.place, 0)

    def read(self, request: bytes) -> list[Row]:
        return list(self._owned.read(request))

    def write(self, bodies: Sequence[bytes]) -> bytes:
        return self._owned.write(bodies)

    def die(self) -> None:
        """Nobody is behind its door any more, and nothing is left of what it held."""
        self._owned.close()
        self.within.close()


class Counting(FolderStore):
    """A folder that counts the reads of bases (`b`) and of deltas (`d`), and the bytes of all."""

    gets: ClassVar[Counter[str]] = Counter()

    def get(self, name: str, offset: int, length: int) -> bytes:
        found = super().get(name, offset, length)
        self.gets.update({name[0]: 1, "bytes": len(found)})
        return found


class Cluster:
    """An app on some executors: each task goes to any of them. Seats are noted as `Group` does."""

    def __init__(self, rig: Rig, executors: Sequence[Executor], seed: int = 7) -> None:
        self.rig = rig
        self.executors = list(executors)
        self.seats: dict[int, Seat] = {}
        self._random = random.Random(seed)
        self._told = True

    def step(self, stages: int) -> None:
        """The next cut; who lacks something is told all, in another batch."""
        for _ in range(5):
            told = self._one() if stages == 1 else self._two()
            for each in told:
                self._note(each)
            states = {each["state"] for each in told}
            if states == {"done"}:
                self._told = False
                self.rig.commit(*told)
                return
            assert states <= {"done", "need"}, told
            self._told = True
        raise AssertionError("nobody takes the cut")

    def _any(self) -> Executor:
        return self._random.choice(self.executors)

    def _owner(self, bucket: int) -> str:
        return self.seats[bucket].address if bucket in self.seats else ""

    def _group(self) -> Told:
        return self.rig.group(self.rig.at + 1, all_told=self._told, spec=self._told)

    def _one(self) -> list[Told]:
        group = {**self._group(), "owner": self._owner(0)}
        asked = {"k": "run", "deadline": None, "wake": "", "token": TOKEN, "groups": [group]}
        (row,) = self._any().read(PACK(asked))
        return groups_of(row.body)

    def _two(self) -> list[Told]:
        owners = {bucket: self._owner(bucket) for bucket in self.rig.lines}
        more = {"k": "read", "host": 0, "tasks": 1, "task": 0, "token": TOKEN, "owners": owners}
        rows = self._any().read(PACK({**more, **self._group()}))
        told = [each for row in rows if row.host == RECEIPT for each in groups_of(row.body)]
        by_label: dict[int, list[bytes]] = {}
        for row in rows:
            if row.host != RECEIPT:
                by_label.setdefault(row.bk, []).append(bytes(row.body))
        for bodies in by_label.values():  # a task of Spark for each bucket
            told += groups_of(self._any().write(bodies))
        return told

    def _note(self, told: Told) -> None:
        if told["state"] == "done":
            seat = Seat(*told["seat"])
            self.seats.update({b["bucket"]: seat for b in told["buckets"]})
