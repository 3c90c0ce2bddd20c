"""What tests of the state log and of the commit record share: a kernel that is a few lines, a history of cuts, and a disk whose power can be cut."""

from __future__ import annotations

import os
import stat
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest

from nadi.io import durablefiles
from nadi.kernel.contract import Segment
from nadi.pipeline.cutting.commitlog import Commit, Commits
from nadi.pipeline.statelog.chunks import Index, Place, write_base
from nadi.pipeline.statelog.lines import Base, Line, Piece
from nadi.pipeline.statelog.names import delta_name
from nadi.pipeline.statelog.objects import Delta, write_deltas
from nadi.pipeline.statelog.recovery import load
from nadi.pipeline.statelog.store import ObjectStore

State = dict[str, int]


class TinyKernel:
    """Keys with numbers. A delta has the keys that changed, a dump a segment per key; `noise` makes the bytes of two attempts differ, not their state."""

    def __init__(self) -> None:
        self.state: State = {}
        self._changed: set[str] = set()

    def put(self, key: str, value: int) -> None:
        if self.state.get(key) != value:
            self.state[key] = value
            self._changed.add(key)

    def delta(self, noise: str = "") -> bytes:
        found = {key: self.state[key] for key in sorted(self._changed)}
        self._changed.clear()
        return msgspec.msgpack.encode([noise, found]) if found or noise else b""

    def dump(self) -> Iterator[Segment]:
        for key, value in sorted(self.state.items()):
            yield Segment(key, 0, msgspec.msgpack.encode(value))

    def load(self, parts: Iterable[Segment | bytes]) -> None:
        self.state.clear()
        for part in parts:
            if isinstance(part, Segment):
                self.state[part.element] = msgspec.msgpack.decode(part.payload)
            else:
                self.state |= msgspec.msgpack.decode(part)[1]
        self._changed.clear()


def loaded(store: ObjectStore, line: Line, bucket: int) -> State:
    kernel = TinyKernel()
    assert load(store, line, bucket, kernel.load) is None
    return kernel.state


def put_delta(store: ObjectStore, line: Line, bucket: int, cut: int, content: bytes, epoch: int = 1) -> Piece:
    """An object with the delta of one bucket that goes on from a line."""
    given = {bucket: Delta(cut, epoch, line.check, content)}
    return write_deltas(store, delta_name(epoch, cut, 0), given)[bucket]


def put_base(
    store: ObjectStore, bucket: int, cut: int, kernel: TinyKernel, epoch: int = 1, before: Index | None = None
) -> Base:
    return write_base(store, Place(epoch, cut, bucket), kernel.dump(), before)


def shown(store: ObjectStore, commits: Commits, buckets: int) -> dict[int, State]:
    """The state of each bucket as the record leads to it."""
    lines = commits.lines()
    return {bucket: loaded(store, lines.get(bucket, Line()), bucket) for bucket in range(buckets)}


@dataclass
class Run:
    """One run of a group with some buckets, of which bucket 0 changes with every cut and the others now and then; every `renewed`-th cut has bases."""

    store: ObjectStore
    commits: Commits
    epoch: int = 1
    buckets: int = 2
    renewed: int = 3
    kernels: dict[int, TinyKernel] = field(default_factory=dict)
    done: dict[int, dict[int, State]] = field(default_factory=dict)
    """The states after each commit that returned."""

    def __post_init__(self) -> None:
        lines = self.commits.lines()
        for bucket in range(self.buckets):
            self.kernels[bucket] = TinyKernel()
            load(self.store, lines.get(bucket, Line()), bucket, self.kernels[bucket].load)

    def cut(self, n: int) -> None:
        """Process a cut, write its state, commit it, delete what nobody needs."""
        lines = self.commits.lines()
        deltas: dict[int, Delta] = {}
        for bucket, kernel in self.kernels.items():
            if n % (bucket + 1) == 0:
                kernel.put(f"k{n % 5}", n * 10 + bucket)
            deltas[bucket] = Delta(n, self.epoch, lines.get(bucket, Line()).check, kernel.delta())
        pieces = write_deltas(self.store, delta_name(self.epoch, n, 0), deltas)
        bases: dict[int, Base] = {}
        if n % self.renewed == 0:
            bases = {b: put_base(self.store, b, n, k, self.epoch) for b, k in self.kernels.items() if b in pieces}
        self.commits.append(Commit(n, self.epoch, deltas=tuple(pieces.items()), bases=tuple(bases.items())))
        self.done[n] = {bucket: dict(kernel.state) for bucket, kernel in self.kernels.items()}
        self.store.delete(sorted(self.commits.released()))


def states_after(cuts: int, buckets: int = 2) -> dict[int, State]:
    """What a run of `cuts` cuts from number 1 on comes to, without any storage."""
    found: dict[int, State] = {bucket: {} for bucket in range(buckets)}
    for n in range(1, cuts + 1):
        for bucket in range(buckets):
            if n % (bucket + 1) == 0:
                found[bucket][f"k{n % 5}"] = n * 10 + bucket
    return found


class Crash(BaseException):
    """The process ends here."""


def _close_all(descriptors: list[int]) -> None:
    while descriptors:
        os.close(descriptors.pop())


STEPS = ("write", "sync", "rename", "truncate", "remove")


class Disk:
    """Stands between `nadi.io.durablefiles` and the disk: notes what is synced, fails at the step that is wanted, and cuts the power."""

    def __init__(self, patch: pytest.MonkeyPatch, *folders: Path) -> None:
        self.steps: list[str] = []
        self.fail: Callable[[int, str], None] = lambda _at, _step: None
        """Called before each step with its number and name; what it raises is what happens."""
        self._folders = folders
        self._content: dict[int, bytes] = {}  # by inode: what is on the disk
        self._names: dict[Path, dict[str, int]] = {}
        self._held: list[int] = []  # so that no inode is given again
        weakref.finalize(self, _close_all, self._held)
        for folder in folders:
            self._settle(folder)
        for step in STEPS:
            patch.setattr(durablefiles, step, self._wrapped(step, getattr(durablefiles, step)))

    def _settle(self, folder: Path) -> None:
        """All that is there now is on the disk."""
        for path in [folder, *folder.rglob("*")]:
            descriptor = os.open(path, os.O_RDONLY)
            self._sync(descriptor, path)

    def _wrapped(self, step: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*given: Any) -> Any:
            self.steps.append(step)
            self.fail(len(self.steps) - 1, step)
            if step != "sync":
                return real(*given)
            self._sync(os.dup(given[0]), Path(os.readlink(f"/proc/self/fd/{given[0]}")))  # noted is enough
            return None

        return wrapped

    def _sync(self, descriptor: int, path: Path) -> None:
        self._held.append(descriptor)
        found = os.fstat(descriptor)
        if stat.S_ISDIR(found.st_mode):
            self._names[path] = {entry.name: entry.inode() for entry in os.scandir(path)}
        else:
            self._content[found.st_ino] = Path(f"/proc/self/fd/{descriptor}").read_bytes()

    def cut(self, tail: Callable[[bytes, bytes], bytes] = lambda synced, _written: synced) -> None:
        """Leave what was synced: names by folder, contents by file. `tail` may leave more of a file that goes on after what was synced of it."""
        for folder in self._folders:
            for path in [folder, *(p for p in folder.rglob("*") if p.is_dir())]:
                self._leave(path, tail)
        _close_all(self._held)

    def _leave(self, folder: Path, tail: Callable[[bytes, bytes], bytes]) -> None:
        kept = self._names.get(folder, {})
        now = {path.stat().st_ino: path.read_bytes() for path in folder.iterdir() if path.is_file()}
        for path in [*folder.iterdir()]:
            if path.is_file():
                path.unlink()
        for name, inode in kept.items():
            path = folder / name
            if not path.is_dir():
                synced = self._content.get(inode, b"")
                written = now.get(inode, synced)
                path.write_bytes(tail(synced, written) if written.startswith(synced) else synced)
