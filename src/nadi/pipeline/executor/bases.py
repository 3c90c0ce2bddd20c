"""Bases of large states, made beside the cuts: a forked child writes the state after one cut into the state log while the host goes on (`forked`). Where a
child may not use the client of the store, it writes beside the host's sockets, and the host puts that into the store (`uploads`).

A base belongs to the unbroken past of one kernel in one run of its app. When that kernel goes, so does the child, and what it has written counts for nobody;
hosts delete nothing in a state log, its owner sweeps it. A child or host that is killed only means that another base is begun.
"""

from __future__ import annotations

import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec

from nadi.kernel.contract import Kernel
from nadi.pipeline.executor.forked import end_child, enough_memory, fork, turn
from nadi.pipeline.executor.uploads import Upload
from nadi.pipeline.hosting.hostclient import is_gone
from nadi.pipeline.statelog.chunks import Index, Place, write_base
from nadi.pipeline.statelog.folder import FolderStore
from nadi.pipeline.statelog.lines import Base
from nadi.pipeline.statelog.store import ObjectStore

RATE = 64 * 1024 * 1024  # bytes a second that a child writes at most: the deltas of all apps go to the same disk
_BASE = msgspec.msgpack.Decoder(Base)


class AnotherAtWork(Exception):
    """A child of another kernel is at work: the next one waits its turn."""


class BaseWork:
    """The base of one kernel's state after a cut, under way or whole. What the child tells is in the file `told`; `upload` begins to put what it wrote in the
    folder `aside` into the store (None: it wrote there)."""

    def __init__(
        self, pid: int, told: Path, aside: Path | None = None, upload: Callable[[], Upload] | None = None
    ) -> None:
        self._pid = pid
        self._told = told
        self._aside = aside
        self._begin_upload = upload
        self._upload: Upload | None = None
        self.failed = False

    @staticmethod
    def begin(
        kernel: Kernel,
        store: ObjectStore,
        scratch: Path,
        place: Place,
        at_hand: Callable[[], Index | None],
        rate: int = RATE,
    ) -> BaseWork | None:
        """Fork a child that writes the kernel as it is now, which is at `place`; chunks that the base at hand has are not written again. The caller holds the
        kernel's lock. `at_hand` is asked only where a child is made, as it reads from the store.

        None where there is no memory or process for one. Errors: AnotherAtWork, as there is one of this machine's executor at a time: one core of work, and
        the memory of one kernel.
        """
        if not enough_memory():
            return None
        lock = turn(scratch)
        if lock is None:
            raise AnotherAtWork
        told = scratch / f"base-{os.getpid()}-{secrets.token_hex(4)}"
        aside = None if store.forks else told.with_name(told.name.replace("base", "upload", 1))
        target = store if aside is None else FolderStore(aside)

        def paced_so(pieces: Iterable[bytes]) -> Iterator[bytes]:
            return paced(pieces, rate)

        def work() -> None:
            base = write_base(target, place, kernel.dump(), before, paced_so)
            told.write_bytes(msgspec.msgpack.encode(base))

        def upload() -> Upload:
            return Upload(aside or told, store, paced_so)

        try:
            before = at_hand()
            pid = fork(work, lock)
        except OSError:  # no process, no memory: a later cut asks again
            return None
        finally:
            os.close(lock)  # the child holds it now
        return BaseWork(pid, told, aside, None if aside is None else upload)

    def look(self) -> Base | None:
        """The base, once it is whole and in the store; it is told once. `failed` where the child has ended without one, or it cannot be put there."""
        if self._pid:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            if not pid:
                return None
            self._pid = 0
            if status != 0:
                self.failed = True
                return None
            if self._begin_upload is not None:
                self._upload = self._begin_upload()
        if self.failed or not self._told.exists() or (self._upload is not None and not self._upload.over):
            return None
        if self._upload is not None and self._upload.failed:
            self.failed = True
            return None
        found = _BASE.decode(self._told.read_bytes())
        self._told.unlink()
        return found

    def close(self) -> None:
        """End the child, and what the host does with what it wrote."""
        if self._pid:
            end_child(self._pid)
            self._pid = 0
        if self._upload is not None:
            self._upload.close()
        elif self._aside is not None:
            shutil.rmtree(self._aside, ignore_errors=True)
        self._told.unlink(missing_ok=True)


def paced(content: Iterable[bytes], rate: int) -> Iterator[bytes]:
    """The same bytes, not more than `rate` of them a second."""
    begin, given = time.monotonic(), 0
    for part in content:
        yield part
        given += len(part)
        ahead = given / rate - (time.monotonic() - begin)
        if ahead > 0:
            time.sleep(ahead)


def sweep(scratch: Path, alive: int) -> None:
    """Remove what children of hosts that are gone have told nobody; `alive` is the process whose own stay."""
    for told in (*scratch.glob("base-*-*"), *scratch.glob("upload-*-*")):
        owner = int(told.name.split("-")[1])
        if owner == alive or not is_gone(owner):
            continue
        if told.is_dir():
            shutil.rmtree(told, ignore_errors=True)
        else:
            told.unlink(missing_ok=True)
