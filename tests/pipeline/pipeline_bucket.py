"""A bucket without Spark: a dict is its state store, the test's process plays the JVM."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from nadi.pipeline.executor.hosted import Apps
from nadi.pipeline.hosting.hostclient import Hosts, hosts_folder
from nadi.pipeline.hosting.protocol import Frame, Part
from nadi.pipeline.kernelstage import StoredState, ask_kernel
from nadi.pipeline.spec import AppSpec


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
    """Reads, processes and writes cuts of bucket 0 as Spark's tasks would."""

    def __init__(self, ask: Hosts | Within, spec: AppSpec, query: str = "q") -> None:
        self.ask, self.spec, self.query = ask, spec, query
        self.state = DictState()

    def read(self, n: int, start: int, end: int, high: int | None) -> tuple[list[bytes], list[bytes]]:
        head = {"op": "read", "n": n, "clock": end * 10, "started": 0, "ranges": [[0, 0, start, end, 0, high]]}
        frames = list(self.ask.stream_app(self.spec, 0, head))
        return [bytes(f.parts[0]) for f in frames], [bytes(f.parts[1]) for f in frames]

    def process(self, n: int, start: int, end: int, keep: bool = True) -> dict[str, Any]:
        heads, bodies = self.read(n, start, end, (start - 1) * 10 if start else None)
        stored = StoredState(self.state, 0)
        head = {"query": self.query, "bucket": 0, "heads": heads}
        answer, _seconds = ask_kernel(self.spec, self.ask, stored, head, bodies)
        told = answer.head
        if keep:
            stored.keep(told, answer.parts)
        return {**told, "query": self.query, "bucket": 0}

    def write(self, told: dict[str, Any]) -> None:
        place = {name: told[name] for name in ("query", "bucket", "cut", "token")}
        receipts = self.ask.call_app(self.spec, 0, {"op": "write", **place}).head["receipts"]
        commit = {"op": "commit", "sink": 0, "cut": told["cut"], "receipts": [r[1:] for r in receipts]}
        self.ask.call_app(self.spec, 0, commit)


class Within:
    """Hosts in this process, without a socket."""

    def __init__(self, scratch: Path) -> None:
        self.apps = Apps(scratch)

    def call_app(self, spec: AppSpec, index: int, head: dict[str, Any], parts: Sequence[Part] = ()) -> Frame:
        return list(self.stream_app(spec, index, head, parts))[-1]

    def stream_app(
        self, spec: AppSpec, index: int, head: dict[str, Any], parts: Sequence[Part] = ()
    ) -> Iterator[Frame]:
        self.apps.define(spec)
        frames = self.apps.answer({**head, "app": spec.id}, list(parts))
        return (frame for frame in frames if "end" not in frame.head)


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


def gone(pid: int) -> bool:
    """Whether a process has ended (waited for at most ten seconds, since a killed one takes a moment)."""
    until = time.monotonic() + 10
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
