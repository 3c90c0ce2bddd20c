"""The commit record of an execution group: which cut is done, and which pieces of the state log have the state after it. It alone decides where the group
goes on.

On one node it is in the folder of the cut log, written under its lock and by its epoch:

    commits-<n of file>.jsonl    one record per line: `["<check>", record]`

A file's first record is all that is known after one commit (`Recovered`), each further one a commit (`Commit`). The check is the BLAKE2b of the file's records
up to this one: what was changed, lost or put in another order is found. When the commits of a file have grown larger than its first record the next commit
begins a new file, written beside it and renamed: recovery reads the newest only. One older file stays.

A last line without an end was never acknowledged to anyone; the next append removes it.

Where nodes share it, it is in a database: `nadi.pipeline.cutting.committable`.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import msgspec

from nadi.errors import NadiError, error
from nadi.io import durablefiles
from nadi.pipeline.cutting.cutlog import current_epoch, locked, whole_length
from nadi.pipeline.statelog.lines import Base, Line, Piece, after_base, after_delta, kept, let_go, objects_of
from nadi.pipeline.statelog.names import Named, is_name, named
from nadi.pipeline.statelog.store import ObjectStore
from nadi.received import read_json

GROWN = 1024 * 1024  # bytes that the commits of a file may always have
KEPT = 2  # files
_CHECK = 8  # bytes


class Commit(msgspec.Struct, frozen=True):
    """Cut `n` is done. `due` is when the next timer is due (ms, None: none waits); `highs` are [ordinal, partition, running maximum of log times (ms)].

    `deltas` are the pieces of this cut by bucket; a bucket whose state did not change has none. `bases` count from this record on, besides all deltas: only
    the first piece of a bucket may be a base without one. `receipts` are [sink, bucket, cut, content], of what JSON has.
    """

    n: int
    epoch: int
    due: int | None = None
    highs: tuple[tuple[int, int, int], ...] = ()
    deltas: tuple[tuple[int, Piece], ...] = ()
    bases: tuple[tuple[int, Base], ...] = ()
    receipts: tuple[tuple[Any, ...], ...] = ()


class Recovered(msgspec.Struct, frozen=True):
    """What is known after the last commit, with that commit's receipts. `lines` has every bucket that has a state."""

    n: int
    epoch: int
    due: int | None = None
    highs: tuple[tuple[int, int, int], ...] = ()
    lines: dict[int, Line] = {}
    receipts: tuple[tuple[Any, ...], ...] = ()


class Commits(Protocol):
    """The record as one run sees it, with the epoch that it was opened for; readers open it for epoch 0."""

    def recovered(self) -> Recovered | None:
        """What is known after the last commit; None before the first. Errors: COMMIT_LOG_DAMAGED, CONNECTION_UNAVAILABLE."""
        ...

    def lines(self) -> Mapping[int, Line]:
        """How the state of each bucket is read."""
        ...

    def objects(self) -> frozenset[str]:
        """The objects of the state log that are needed."""
        ...

    def append(self, commit: Commit) -> None:
        """Make a commit durable; what it binds must be so already.

        Errors: CUT_FENCED, also for pieces of another epoch; COMMIT_LOG_MISMATCH for a cut that is not after the last one, or pieces of another;
        DISK_FULL, STATE_LOG_FAILED, CONNECTION_UNAVAILABLE. Then nothing is bound, or nobody knows: a later append, of any run, settles it.
        """
        ...

    def released(self) -> frozenset[str]:
        """The objects that appends since the last call have let go of. The run whose epoch it is may delete them."""
        ...

    def clear(self, first: Commit | None = None) -> None:
        """Begin anew, with this commit or with none, in one step: a restore. Nothing of before is needed any more. Errors: those of `append`."""
        ...


def after_commit(before: Recovered | None, commit: Commit) -> Recovered:
    """What is known after a further commit.

    >>> after_commit(None, Commit(3, 1, deltas=((0, Piece("d-00000001-000000000003-0-c0ffee00", 0, 9, "")),))).lines[0].tip
    'd-00000001-000000000003-0-c0ffee00@0'
    """
    lines = {} if before is None else dict(before.lines)
    for bucket, piece in commit.deltas:
        lines[bucket] = after_delta(lines.get(bucket, Line()), piece)
    for bucket, base in commit.bases:
        lines[bucket] = after_base(lines.get(bucket, Line()), base)
    return Recovered(commit.n, commit.epoch, commit.due, commit.highs, lines, commit.receipts)


def checked_commit(app: str, before: Recovered | None, commit: Commit, epoch: int) -> Commit:
    """The commit, if it may follow. Errors: CUT_FENCED, COMMIT_LOG_MISMATCH."""
    last = -1 if before is None else before.n

    def mismatch(what: str) -> NadiError:
        return error("COMMIT_LOG_MISMATCH", app=app, last=last, what=what)

    if commit.epoch != epoch:
        raise error("CUT_FENCED", app=app, current=epoch, epoch=commit.epoch)
    if commit.n <= last:
        raise mismatch(f"cut {commit.n}")
    for bound in (commit.deltas, commit.bases):
        if len({bucket for bucket, _ in bound}) < len(bound):
            raise mismatch(f"cut {commit.n} with a bucket twice")
    for piece in [piece for _, piece in commit.deltas] + [base.piece for _, base in commit.bases]:
        if named(piece.object).epoch != epoch:
            raise error("CUT_FENCED", app=app, current=epoch, epoch=named(piece.object).epoch)
    for _, piece in commit.deltas:
        if piece.cut != commit.n:
            raise mismatch(f"{piece.id} to cut {commit.n}")
    for _, base in commit.bases:
        if base.cut > commit.n or base.piece.cut != base.cut:
            raise mismatch(f"base {base.piece.id} of cut {base.cut} to cut {commit.n}")
    for bucket, base in commit.bases:
        there = frozenset[str]() if before is None else objects_of([before.lines.get(bucket, Line())])
        for name in base.others:
            if name not in there and (named(name).epoch, named(name).cut) != (epoch, base.cut):
                raise mismatch(f"base {base.piece.id}, which needs '{name}',")
    return commit


class Standing:
    """Where a record stands. It counts who needs each object of the state log, so that it is known which one nobody needs."""

    def __init__(self, found: Recovered | None = None) -> None:
        self.found = found
        self._count: Counter[str] = Counter()
        self._released: set[str] = set()
        for line in self.lines.values():
            self._count.update(kept(line))

    @property
    def lines(self) -> Mapping[int, Line]:
        return {} if self.found is None else self.found.lines

    def objects(self) -> frozenset[str]:
        return frozenset(self._count)

    def released(self) -> frozenset[str]:
        """What went since the last call."""
        released, self._released = frozenset(self._released), set()
        return released

    def follow(self, commit: Commit, after: Recovered) -> None:
        """Go on to what is known after a commit."""
        before, self.found = self.lines, after
        self._count.update(piece.object for _, piece in commit.deltas)
        self._count.update(name for _, base in commit.bases for name in base.objects)
        lines: dict[int, Line] = {}
        renewed = {bucket for bucket, _ in commit.bases}
        for bucket, piece in commit.deltas:
            line = before.get(bucket, Line())
            lines[bucket] = after_delta(line, piece) if bucket in renewed else after.lines[bucket]
            self._drop(let_go(line, lines[bucket]))
        for bucket, base in commit.bases:
            line, now = lines.get(bucket) or before.get(bucket, Line()), after.lines[bucket]
            self._drop(let_go(line, now))
            if now.base is not base:
                self._drop(base.objects)  # it is no newer than the one at hand

    def _drop(self, names: Iterable[str]) -> None:
        for name in names:
            self._count[name] -= 1
            if not self._count[name]:
                del self._count[name]
                self._released.add(name)


class RecordReader:
    """The readers of a record, wherever it is kept: what stands in `_standing`, which `_read` brings up to date."""

    _epoch: int
    _standing: Standing

    def _read(self) -> None:
        raise NotImplementedError

    def recovered(self) -> Recovered | None:
        return self._now().found

    def lines(self) -> Mapping[int, Line]:
        return self._now().lines

    def objects(self) -> frozenset[str]:
        return self._now().objects()

    def released(self) -> frozenset[str]:
        return self._standing.released()

    def _now(self) -> Standing:
        if not self._epoch:
            self._read()  # a reader's may have become old
        return self._standing


class CommitLog(RecordReader):
    """A commit record in the folder of a cut log."""

    def __init__(self, folder: Path, epoch: int) -> None:
        """Errors: COMMIT_LOG_DAMAGED."""
        self._folder = folder
        self._epoch = epoch
        self._app = folder.parent.name
        self._standing = Standing()
        self._file: Path | None = None
        self._head = self._end = 0  # bytes: of the first record, of all that is whole
        self._check = _new_check()
        self._read()
        if epoch:
            self._settle()

    def append(self, commit: Commit) -> None:
        with self._changing():
            found = self._standing.found
            after = after_commit(found, checked_commit(self._app, found, commit, self._epoch))
            path = self._file
            if path is None or self._end - self._head > max(GROWN, self._head):
                self._begin(after)
            else:
                record = msgspec.json.encode(commit)
                check = self._check.copy()
                self._extend(path, _line(check, record))
                self._check = check
        self._standing.follow(commit, after)

    def clear(self, first: Commit | None = None) -> None:
        with self._changing():
            after = None if first is None else after_commit(None, checked_commit(self._app, None, first, self._epoch))
            self._begin(after)
            for path in self._files()[:-1]:
                durablefiles.remove(path)
        self._standing = Standing(after)

    def _settle(self) -> None:
        """Make durable what was read: who wrote it may have been killed before it did so."""
        if self._file is None:
            return
        descriptor = os.open(self._file, os.O_RDONLY | os.O_CLOEXEC)
        try:
            durablefiles.sync(descriptor)
        finally:
            os.close(descriptor)
        durablefiles.sync_folder(self._folder)

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Alone, and by the epoch that may. Turns what the system says into STATE_LOG_FAILED."""
        try:
            with locked(self._folder):
                self._fence()
                yield
        except OSError as reason:
            raise error("STATE_LOG_FAILED", store=self._folder, reason=reason) from reason

    def _fence(self) -> None:
        current = current_epoch(self._folder)
        if current != self._epoch:
            raise error("CUT_FENCED", app=self._app, current=current, epoch=self._epoch)

    def _begin(self, known: Recovered | None) -> None:
        """A new file, in one step, with what is known; older ones go, but for one."""
        self._file = None  # where this fails half-way the next append begins another file: this one may be there
        files = self._files()
        number = _number(files[-1]) + 1 if files else 0
        path, check = self._folder / f"commits-{number:012d}.jsonl", _new_check()
        line = _line(check, msgspec.json.encode(known))
        durablefiles.write_atomically(path, line)
        self._file, self._head, self._end, self._check = path, len(line), len(line), check
        for old in [*files, path][:-KEPT]:
            durablefiles.remove(old)

    def _extend(self, path: Path, line: bytes) -> None:
        """Add a line after what is known to be whole: what an append that failed has left is not."""
        with durablefiles.room_for(path):
            durablefiles.write_after(path, self._end, line)
        self._end += len(line)

    def _files(self) -> list[Path]:
        return sorted(self._folder.glob("commits-*.jsonl"))

    def _read(self) -> None:
        """What the newest file says."""
        files = self._files()
        self._file = files[-1] if files else None
        self._head = self._end = 0
        self._check = _new_check()
        found = None
        if self._file is not None:
            found = self._known(self._file, self._file.read_bytes()[: whole_length(self._file)])
        self._standing = Standing(found)

    def _known(self, path: Path, content: bytes) -> Recovered | None:
        """What is known after the records of a file."""
        found: Recovered | None = None
        lines = content.splitlines(keepends=True)
        if not lines:
            raise error("COMMIT_LOG_DAMAGED", path=path, line=1, reason="it has no first record")
        for number, line in enumerate(lines, 1):
            if number == len(lines) > 1 and b"\0" in line:
                break  # of an append that the power cut: blocks that never came to the disk
            try:
                record = _record(self._check, line)
                if number == 1:
                    found = read_json(record, Recovered | None)
                    self._head = len(line)
                else:
                    found = after_commit(found, read_json(record, Commit))
            except (ValueError, msgspec.MsgspecError) as reason:
                raise error("COMMIT_LOG_DAMAGED", path=path, line=number, reason=reason) from reason
            self._end += len(line)
        return found


def _number(path: Path) -> int:
    return int(path.stem.removeprefix("commits-"))


def _new_check() -> hashlib.blake2b:
    return hashlib.blake2b(digest_size=_CHECK)


def _line(check: hashlib.blake2b, record: bytes) -> bytes:
    check.update(record)
    return b'["%s",%s]\n' % (check.hexdigest().encode(), record)


def _record(check: hashlib.blake2b, line: bytes) -> bytes:
    """The record of a line, whose check must be that of the file up to it. Errors: ValueError."""
    start = 2 + 2 * _CHECK
    if not (line.startswith(b'["') and line[start : start + 2] == b'",' and line.endswith(b"]\n")):
        raise ValueError("it is no record")
    record = line[start + 2 : -2]
    check.update(record)
    if check.hexdigest().encode() != line[2:start]:
        raise ValueError("its check is another")
    return record


def sweep(store: ObjectStore, keep: frozenset[str], epoch: int, done: int = -1) -> list[str]:
    """Delete what older epochs have left in a state log that no line keeps, and what writers that died left beside it; -> what was deleted.

    Only for the run that has taken over with `epoch`, with what its record keeps (`Commits.objects`): no commit of an older epoch can come any more, and
    none of a newer one binds what this deletes. With `done`, its last commit, also the deltas of its own attempts up to this cut that were not bound.
    """
    store.sweep()
    names = [name for name in store.list() if name not in keep and is_name(name) and _is_over(named(name), epoch, done)]
    store.delete(names)
    return names


def _is_over(name: Named, epoch: int, done: int) -> bool:
    """Whether no commit can bind an object any more."""
    return name.epoch < epoch or (name.epoch == epoch and not name.base and name.cut <= done)
