"""A folder that gets one file per bucket and cut, exactly once: parquet, Arrow, or lines.

A part is written under `.staged` in the folder and renamed to `part-<run>-<cut>-<bucket>.<ending>` by the commit; who reads the folder sees whole parts
only. The ledger keeps the last cut, so that a part which its reader has taken away does not come again.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from nadi.io import staging
from nadi.io.sinks import ledger


class Parts:
    """`folder` keeps the ledger and the name of the run, `target` is where the parts go."""

    def __init__(self, folder: Path, target: Path, ending: str) -> None:
        self._folder = folder
        self._target = target
        self._ending = ending
        self._path = folder / "parts.json"

    def stage(self, cut: int, bucket: int, data: bytes) -> dict[str, str | int]:
        """Keeps the part of a bucket for the commit. Errors: DISK_FULL."""
        staging.make_folder(self._target, staging.OUTPUT_FOLDER)
        staging.make_folder(self._target / ".staged")
        name = self._name(cut, bucket)
        staging.write_atomically(self._target / ".staged" / name, data, staging.OUTPUT_FILE)
        return {"name": name}

    def commit(self, cut: int, names: Sequence[str]) -> None:
        """Makes the parts of a cut visible. Errors: DISK_FULL."""
        done = msgspec.json.decode(self._path.read_bytes(), type=int) if self._path.exists() else -1
        staged = [self._target / ".staged" / name for name in names]
        if cut <= done:
            for path in staged:
                staging.remove(path)
            return
        with staging.room_for(self._target):
            for path in staged:
                if path.exists():  # if not, an earlier try of this commit has renamed it
                    staging.rename(path, self._target / path.name)
            staging.sync_folder(self._target)
            staging.make_folder(self._folder)
        staging.write_atomically(self._path, msgspec.json.encode(cut))

    def _name(self, cut: int, bucket: int) -> str:
        return f"part-{ledger.run(self._folder)}-{cut:010}-{bucket:05}.{self._ending}"
