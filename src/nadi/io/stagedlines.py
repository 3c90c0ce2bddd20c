"""A growing file of JSON lines that gets the rows of every cut exactly once, whoever writes a cut how often.

    stage(cut, bucket, rows)    in the write stage: how many there are comes back
    commit(cut, buckets)        after all buckets have written; the first commit of a cut counts

Stages and ledger are in `folder` (see `nadi.io.sinks.appender`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from nadi.io.sinks.appender import Appender, Output


@dataclass(frozen=True, slots=True)
class StagedLines:
    """`target` is the file."""

    folder: Path
    target: Path

    def stage(self, cut: int, bucket: int, rows: Iterable[object]) -> int:
        """Keeps the rows of a bucket for the commit of the cut; returns how many. A second call replaces the first. Errors: DISK_FULL."""
        lines = [msgspec.json.encode(row) for row in rows]
        if lines:
            self._appender().stage(cut, bucket, b"\n".join(lines) + b"\n")
        return len(lines)

    def commit(self, cut: int, buckets: Sequence[int]) -> None:
        """Appends what these buckets (those that staged rows) have for the cut, once. Errors: DISK_FULL, STAGE_MISSING, TARGET_CHANGED."""
        if buckets:
            self._appender().commit(cut, [Output(bucket) for bucket in buckets])

    def staged(self, cut: int, bucket: int) -> bytes:
        """What a bucket has staged for a cut. Errors: STAGE_MISSING."""
        return self._appender().staged(cut, bucket)

    def clear(self, cut: int) -> None:
        """Forget what was staged for this cut and those before it: it is kept elsewhere."""
        self._appender().clear(cut)

    def replaced(self, length: int) -> None:
        """Another file stands in the place of the target: it has what is committed, in so many bytes."""
        self._appender().replaced(length)

    def committed(self) -> int:
        """How many bytes of the file are there for good."""
        return self._appender().length()

    def _appender(self) -> Appender:
        return Appender(self.folder, self.target)
