"""One growing file that gets the output of every cut exactly once.

What a bucket has travels with its receipt or, where it is large, is staged: put into a file of its own, under a name made of cut and bucket, so that a second
attempt replaces the first. `commit` appends the outputs of a cut to the target, in the order of the buckets, and then replaces the ledger,
`{"cut", "length"}`: what the target was after its last cut. The ledger is the commit: what the target holds beyond its length is the rest of a commit that was
cut short, and is cut off by the next one.

    append.json         the ledger
    stage/<cut>-<bucket>    output that waits for its cut

Where another node may go on with the app, the ledger is in the database that all nodes reach, and a run that was replaced is refused there before it touches
the target. What it does if it falls asleep behind that, and wakes up when the later run has written more, nobody can refuse.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import msgspec

from nadi.config.ownership import OWN_FILE, OWN_FOLDER
from nadi.errors import error
from nadi.io import durablefiles
from nadi.io.contract import Receipt

SWEEP = 100  # commits between two looks for what attempts that died have left


CARRIED = 16_384  # bytes of an output that is not staged, but travels with its receipt


@dataclass(frozen=True, slots=True)
class Output:
    """What a bucket has for a cut: the bytes, or a stage with this length and checksum (-1: as it is)."""

    bucket: int
    length: int = -1
    crc: int = 0
    data: bytes | None = None


class Ledger(msgspec.Struct, frozen=True):
    """The last cut in the target (-1: none) and the length of the target after it, in bytes."""

    cut: int
    length: int


class Notes(Protocol):
    """Where a ledger is kept that is not in a file beside the stages."""

    def held(self, name: str) -> object: ...
    def replace(self, name: str, value: object) -> None: ...


def extend(target: Path, length: int, data: Sequence[bytes], output: bool = False) -> int:
    """Lets a file have `length` bytes and then the pieces, whatever it had behind them; its length then. Durable after the call.
    A new one is private, unless it is `output` of users.

    Errors: DISK_FULL, TARGET_CHANGED where it is shorter.
    """
    with durablefiles.room_for(target):
        fresh = False
        try:
            descriptor = os.open(target, os.O_WRONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            if length:
                raise error("TARGET_CHANGED", path=target, found=0, expected=length) from None
            fresh = True
            file, folder = (durablefiles.OUTPUT_FILE, durablefiles.OUTPUT_FOLDER) if output else (OWN_FILE, OWN_FOLDER)
            durablefiles.make_folder(target.parent, folder)
            descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, file)
        try:
            found = os.fstat(descriptor).st_size
            if found < length:
                raise error("TARGET_CHANGED", path=target, found=found, expected=length)
            if found > length:
                durablefiles.truncate(descriptor, length)
            os.lseek(descriptor, length, os.SEEK_SET)
            for piece in data:
                durablefiles.write_all(descriptor, piece)
                length += len(piece)
            durablefiles.sync(descriptor)
        finally:
            os.close(descriptor)
        if fresh:
            durablefiles.sync_folder(target.parent)
    return length


class Stages:
    """What buckets have for cuts that are not committed, in `<folder>/stage`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "stage"
        self._made = False
        self._swept = -SWEEP  # the cut after which leftovers were looked for

    def make(self) -> None:
        """Their folder."""
        if not self._made:
            durablefiles.make_folder(self._folder)
            self._made = True

    def put(self, cut: int, bucket: int, data: bytes) -> None:
        """Keeps what a bucket has; a second one replaces the first. Errors: DISK_FULL."""
        self.make()
        durablefiles.write_atomically(self._path(cut, bucket), data)

    def get(self, cut: int, bucket: int, length: int = -1, crc: int = 0) -> bytes:
        """What a bucket has, with this length and checksum (-1: as it is). Errors: STAGE_MISSING."""
        path = self._path(cut, bucket)
        try:
            data = durablefiles.read_whole(path)
        except FileNotFoundError:
            raise error("STAGE_MISSING", path=path, cut=cut) from None
        if length >= 0 and (len(data), zlib.crc32(data)) != (length, crc):
            raise error("STAGE_MISSING", path=path, cut=cut)
        return data

    def remove(self, cut: int, buckets: Iterable[int], ledger: Path) -> None:
        """Removes the stages that buckets had for a cut which is committed; now and then all that `clear` does."""
        if cut - self._swept >= SWEEP:
            self.clear(cut, ledger)
            return
        for bucket in buckets:
            durablefiles.remove(self._path(cut, bucket))

    def clear(self, cut: int, ledger: Path) -> None:
        """Removes the stages up to a cut that is committed, and what attempts that died have left of them and of the ledger."""
        self._swept = cut
        for path in ledger.parent.glob(f".{ledger.name}-*"):
            durablefiles.remove(path)
        for path in self._folder.iterdir() if self._folder.is_dir() else ():
            number = path.name.lstrip(".").split("-")[0]
            if number.isdecimal() and int(number) <= cut:
                durablefiles.remove(path)

    def _path(self, cut: int, bucket: int) -> Path:
        return self._folder / f"{cut}-{bucket}"


def _handed(receipt: Receipt) -> Output:
    content = receipt.content
    if "data" in content:
        data = content["data"]
        assert isinstance(data, bytes)
        return Output(receipt.bucket, data=data)
    return Output(receipt.bucket, int(content["length"]), int(content["crc"]))


class Appender:
    """`folder` keeps ledger and stages; `header` opens a target that is empty; a target longer than `limit` bytes begins again (0: never); `output`: the
    target is for users, and made with the mask of the process. With `notes` the ledger is there."""

    def __init__(
        self,
        folder: Path,
        target: Path,
        append: bool = True,
        header: bytes = b"",
        limit: int = 0,
        output: bool = False,
        notes: Notes | None = None,
    ) -> None:
        self._notes = notes
        self._stages = Stages(folder)
        self._ledger_path = folder / "append.json"
        self._target = target
        self._append = append
        self._header = header
        self._limit = limit
        self._output = output

    def stage(self, cut: int, bucket: int, data: bytes) -> None:
        """Keeps the output of a bucket for the commit. Errors: DISK_FULL."""
        self._stages.put(cut, bucket, data)

    def hand(self, cut: int, bucket: int, data: bytes) -> dict[str, str | int | bytes]:
        """The content of a receipt for the output of a bucket: itself, where it is small, or what is staged. Errors: DISK_FULL.

        A cut whose receipts are lost is worked on once more, so what they carry needs no place on the disk.
        """
        if len(data) <= CARRIED:
            return {"data": data}
        self._stages.put(cut, bucket, data)
        return {"length": len(data), "crc": zlib.crc32(data)}

    def take(self, cut: int, receipts: Iterable[Receipt]) -> range:
        """Appends what the receipts of a cut are for, unless it is in the target already; as `commit`."""
        return self.commit(cut, [_handed(receipt) for receipt in receipts])

    def commit(self, cut: int, outputs: Sequence[Output]) -> range:
        """Appends the outputs of a cut, unless it is in the target already; which bytes of the target are new.

        Errors: DISK_FULL, STAGE_MISSING, TARGET_CHANGED.
        """
        self._stages.make()
        ledger = self._ledger()
        if cut > ledger.cut:
            # All is read before anything is written: a stage that is not what its receipt says must not be half committed.
            data = [self._data(cut, output) for output in sorted(outputs, key=lambda o: o.bucket)]
            length = self._add(ledger.length, data)
            self._write_ledger(Ledger(cut, length))
            new = range(ledger.length, length)
            if 0 < self._limit < length:
                self._write_ledger(Ledger(cut, 0))
                new = range(self._add(0, []))
            self._stages.remove(cut, [o.bucket for o in outputs if o.data is None], self._ledger_path)
            return new
        self._stages.clear(ledger.cut, self._ledger_path)
        return range(ledger.length, ledger.length)

    def length(self) -> int:
        """The length of the target after its last cut: what it has beyond that may still change."""
        found = self._read_ledger()
        return 0 if found is None else found.length

    def replaced(self, length: int) -> None:
        """The target was replaced by another one of so many bytes, which has what is committed. Errors: DISK_FULL."""
        self._write_ledger(Ledger(self._ledger().cut, length))

    def staged(self, cut: int, bucket: int) -> bytes:
        """What a bucket has for a cut that is not committed. Errors: STAGE_MISSING."""
        return self._stages.get(cut, bucket)

    def clear(self, cut: int) -> None:
        """Remove the stages of this cut and those before it: they are kept elsewhere."""
        self._stages.clear(cut, self._ledger_path)

    def _data(self, cut: int, output: Output) -> bytes:
        return self._stages.get(cut, output.bucket, output.length, output.crc) if output.data is None else output.data

    def _add(self, length: int, data: Sequence[bytes]) -> int:
        opening = [self._header] if length == 0 and data else []
        return extend(self._target, length, (*opening, *data), self._output)

    def _ledger(self) -> Ledger:
        found = self._read_ledger()
        if found is None:
            # Before anything is appended it must be durable where that begins.
            there = self._target.stat().st_size if self._append and self._target.exists() else 0
            found = Ledger(-1, there)
            self._write_ledger(found)
        return found

    def _read_ledger(self) -> Ledger | None:
        if self._notes is not None:
            kept = self._notes.held("append")
            return None if kept is None else msgspec.convert(kept, Ledger)
        try:
            found: Ledger = durablefiles.read_note(self._ledger_path, Ledger)
        except FileNotFoundError:
            return None
        return found

    def _write_ledger(self, ledger: Ledger) -> None:
        if self._notes is not None:
            self._notes.replace("append", msgspec.to_builtins(ledger))
        else:
            durablefiles.write_atomically(self._ledger_path, msgspec.json.encode(ledger))
