"""Hosts without Spark, and a bucket of a query over DataFrames: a dict is its state store, the test's process plays the JVM."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from nadi.kernel.contract import TS
from nadi.pipeline import dataframes
from nadi.pipeline.executor.hosted import Apps
from nadi.pipeline.hosting.hostclient import Hosts, hosts_folder
from nadi.pipeline.hosting.protocol import Frame, Part
from nadi.pipeline.inputs.fatrows import from_ipc
from nadi.pipeline.kernelstage import StoredState, ask_kernel
from nadi.pipeline.spec import AppSpec

Kept = tuple[dict[tuple[int], tuple[bytes]], list[tuple[str, int, int]]]
"""The state store and the rows of a bucket after a batch."""


class DictState:
    """A MapState."""

    def __init__(self) -> None:
        self.values: dict[tuple[int], tuple[bytes]] = {}

    def getValue(self, key: tuple[int]) -> tuple[bytes] | None:  # noqa: N802
        return self.values.get(key)

    def updateValue(self, key: tuple[int], value: tuple[bytes]) -> None:  # noqa: N802
        self.values[key] = value

    def removeKey(self, key: tuple[int]) -> None:  # noqa: N802
        self.values.pop(key, None)


class Bucket:
    """Takes batches of an app with the input `In (k string, n long)` and the output `Out (k string, s long)` through its kernel, as tasks of Spark would.

    `events` are the rows of `In`; event i has the time 10·i ms. What batches gave is in `found`, where they were kept.
    """

    def __init__(self, ask: Hosts | Within, spec: AppSpec, events: Sequence[tuple[str, int]], query: str = "q") -> None:
        self.ask, self.spec, self.query = ask, spec, query
        self.state = DictState()
        self.found: list[tuple[str, int, int]] = []
        self._events = events
        self._schema = spec.load_engine().plan_app(spec.text).streams["In"].schema

    def fat_rows(self, start: int, end: int) -> tuple[list[bytes], list[bytes]]:
        """Heads and bodies, as DataFrames are encoded."""
        keys, numbers = zip(*self._events[start:end], strict=True)
        times = pa.array([10 * i for i in range(start, end)], pa.int64())
        batch = pa.RecordBatch.from_arrays([pa.array(keys), pa.array(numbers, pa.int64()), times], ["k", "n", "t"])
        encode = dataframes._encoder(self.spec, 0, "In", self._schema, self.spec.labels, "t")
        rows = [row for made in encode(iter([batch])) for row in made.to_pylist()]
        return [row["head"] for row in rows], [row["body"] for row in rows]

    def process(self, start: int, end: int) -> dict[str, Any]:
        """One batch: what the host told."""
        heads, bodies = self.fat_rows(start, end)
        stored = StoredState(self.state, 0)
        head = {"query": self.query, "bucket": 0, "heads": heads, "streams": {"0": "In"}, "want": ["Out"]}
        answer = ask_kernel(self.spec, self.ask, stored, head, bodies)
        stored.keep(answer.head, answer.parts)
        for body in answer.parts[answer.head["frames"] :]:
            self.found += [(row["k"], row["s"], row[TS]) for row in from_ipc(body).to_pylist()]
        return answer.head

    def now(self) -> Kept:
        """What would be there if the next batches were lost before they were kept; `lose` goes back there."""
        return dict(self.state.values), list(self.found)

    def lose(self, kept: Kept) -> None:
        self.state.values, self.found = dict(kept[0]), list(kept[1])


class Within:
    """Hosts in this process, without a socket."""

    def __init__(self, scratch: Path) -> None:
        self.apps = Apps(scratch)

    def call_app(self, spec: AppSpec, index: int, head: dict[str, Any], parts: Sequence[Part] = ()) -> Frame:
        self.apps.define(spec)
        return self.apps.answer({**head, "app": spec.id}, list(parts))


def close(ask: Hosts) -> None:
    ask.close()
    for process in ask._started:
        process.wait()


def host_pid(ask: Hosts, index: int) -> int | None:
    """The process that holds the lock file of a host."""
    path = hosts_folder(ask.jvm) / f"{index}.alive"
    inode = path.stat().st_ino if path.exists() else -1
    for line in Path("/proc/locks").read_text().splitlines():
        fields = line.split()
        if fields[1] == "FLOCK" and fields[5].endswith(f":{inode}"):
            return int(fields[4])
    return None


def kill(ask: Hosts, index: int) -> None:
    """kill -9 of a host."""
    pid = host_pid(ask, index)
    if pid is not None:
        os.kill(pid, signal.SIGKILL)


def child(ask: Hosts, index: int) -> int | None:
    """The child that a host has."""
    for thread in Path(f"/proc/{host_pid(ask, index)}/task").glob("*"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that has ended meanwhile
            if found := (thread / "children").read_text().split():
                return int(found[0])
    return None


def at_rest(ask: Hosts, index: int) -> bool:
    """Whether a host has no child that is at work; one that is is waited for. Batches do not wait for it: on a busy machine a test has none left before."""
    found = child(ask, index)
    return found is None or gone(found)


def gone(pid: int) -> bool:
    """Whether a process has ended (waited for at most two minutes: a killed one takes a moment, and a busy machine may let one stand still)."""
    until = time.monotonic() + 120
    while time.monotonic() < until:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.01)
    return False


def hosts_of_this_process(count: int) -> Iterator[Hosts]:
    """For a fixture: hosts that are gone, with their folder, afterwards."""
    made = Hosts(os.getpid(), count)
    yield made
    for index in range(count):
        kill(made, index)
    close(made)
    shutil.rmtree(hosts_folder(os.getpid()))
