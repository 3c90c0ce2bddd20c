"""A folder that gets one file per bucket and cut, exactly once: parquet, Arrow, or lines.

A part is written under `.staged` in the folder and renamed to `part-<run>-<cut>-<bucket>.<ending>` by the commit; who reads the folder sees whole parts
only. The ledger keeps the last cut, so that a part which its reader has taken away does not come again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from nadi.io import durablefiles
from nadi.io.sinks.ledger import Kept


class Parts:
    """`kept` has the ledger, `run` tells the name of the run, `target` is where the parts go."""

    def __init__(self, kept: Kept, run: Callable[[], str], target: Path, ending: str) -> None:
        self._kept = kept
        self._run = run
        self._target = target
        self._ending = ending

    def stage(self, cut: int, bucket: int, data: bytes) -> dict[str, str | int]:
        """Keeps the part of a bucket for the commit. Errors: DISK_FULL."""
        durablefiles.make_folder(self._target, durablefiles.OUTPUT_FOLDER)
        durablefiles.make_folder(self._target / ".staged")
        name = self._name(cut, bucket)
        durablefiles.write_atomically(self._target / ".staged" / name, data, durablefiles.OUTPUT_FILE)
        return {"name": name}

    def commit(self, cut: int, names: Sequence[str]) -> None:
        """Makes the parts of a cut visible. Errors: DISK_FULL; FENCED, where another node has begun a later run."""
        known = self._kept.held("parts")
        done = known if isinstance(known, int) else -1
        staged = [self._target / ".staged" / name for name in names]
        if cut <= done:
            for path in staged:
                durablefiles.remove(path)
            return
        with durablefiles.room_for(self._target):
            for path in staged:
                if path.exists():  # if not, an earlier try of this commit has renamed it
                    durablefiles.rename(path, self._target / path.name)
            durablefiles.sync_folder(self._target)
            self._kept.replace("parts", cut)

    def _name(self, cut: int, bucket: int) -> str:
        return f"part-{self._run()}-{cut:010}-{bucket:05}.{self._ending}"
