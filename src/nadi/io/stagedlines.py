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

from nadi.io.sinks.appender import Appender


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
            self._appender().commit(cut, [(bucket, -1, 0) for bucket in buckets])

    def _appender(self) -> Appender:
        return Appender(self.folder, self.target)
