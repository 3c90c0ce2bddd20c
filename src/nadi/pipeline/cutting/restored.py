"""A restored state in the folder of an app: what the next query begins with instead of nothing.

    <state>/restored/restored.json     the cut to begin after, and the name of the revision
    <state>/restored/<bucket>.state    what the kernel of a bucket begins with, as `nadi.kernel.segments` has it
    <state>/restored/pipeline.json     the shape of the app from now on; moved to its place when the old checkpoint is aside

The query that starts next is a new one for Spark, without a checkpoint: its first offset is the cut, its kernels begin with these files. Once a batch has
been committed they are not needed any more.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

from nadi.io.staging import sync_folder
from nadi.kernel.segments import Part, parts_of
from nadi.pipeline.cutting.cuts import Cut

FOLDER = "restored"


def last_batch(checkpoint: Path) -> int | None:
    """The number of the last batch that Spark has committed; None before the first."""
    numbers = [int(f.name) for f in (checkpoint / "commits").glob("*") if f.name.isdecimal()]
    return max(numbers, default=None)


def settle(state: Path) -> str:
    """Finish a restore that was interrupted, and forget one that a batch has been committed after; the folder to begin with, "" for none."""
    folder = state / FOLDER
    if not folder.exists():
        return ""
    shape = folder / "pipeline.json"
    if shape.exists():  # the checkpoint is still that of before
        aside = state / "checkpoint-before"
        shutil.rmtree(aside, ignore_errors=True)
        if (state / "checkpoint").exists():
            (state / "checkpoint").rename(aside)
        (state / "progress.json").unlink(missing_ok=True)
        shape.replace(state / "pipeline.json")
        sync_folder(state)
    elif last_batch(state / "checkpoint") is not None:
        shutil.rmtree(folder)
        return ""
    return str(folder)


def begin_cut(folder: str) -> Cut:
    """The cut that a restored app begins after."""
    return Cut.from_offset(json.loads((Path(folder) / "restored.json").read_text())["cut"])


def begin_parts(folder: str, bucket: int) -> Iterator[Part]:
    """What the kernel of a bucket begins with."""
    with (Path(folder) / f"{bucket}.state").open("rb") as source:
        yield from parts_of(source.read)
