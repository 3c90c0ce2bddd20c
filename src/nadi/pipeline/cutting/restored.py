"""A restored state in the folder of an app: what the next run begins with instead of nothing.

    <state>/restored/restored.json     the cut to begin after, the name of the revision, and, where they are known, the running maxima of log times
    <state>/restored/<bucket>.state    what the kernel of a bucket begins with, as `nadi.kernel.segments` has it
    <state>/restored/progress.json     what is shown until the first cut; only behind an upgrade
    <state>/restored/pipeline.json     the shape of the app from now on; moved to its place as the last step of the switch
    <state>/before/                    what was replaced, until the next restore: the state log with its record of commits, or an old checkpoint; the shape

The group begins after the cut, its kernels begin with these files. Once a cut has been committed they are not needed any more.

`put_in_place` is the switch: one rename. From it on `settle` finishes what is left, at this process or at the next start, as often as it takes.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from nadi.config.ownership import OWN_FILE, OWN_FOLDER
from nadi.errors.exceptions import ConnectionUnavailableException
from nadi.io import durablefiles
from nadi.kernel.segments import Part, parts_of, stream_of
from nadi.pipeline.cutting.cutlogs import cuts_folder, open_commit_log, take_over
from nadi.pipeline.cutting.cuts import Cut, Place
from nadi.pipeline.spec import AppSpec

FOLDER = "restored"
FRESH = "restored.new"
REPLACED = "restored.old"
BEFORE = "before"
ASIDE = "before.new"
LOG, CHECKPOINT = "log", "checkpoint"
"""What has the state: a state log, and in folders of the version before state logs a checkpoint of Spark."""


def last_batch(checkpoint: Path) -> int | None:
    """The number of the last batch that Spark has committed in a checkpoint of nadi 0.1's first pipeline; None before the first."""
    numbers = [int(f.name) for f in (checkpoint / "commits").glob("*") if f.name.isdecimal()]
    return max(numbers, default=None)


def fresh_folder(state: Path) -> Path:
    """An empty folder to make a restored state in. `put_in_place` gives it its name."""
    fresh = state / FRESH
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(OWN_FOLDER, parents=True)
    return fresh


def bucket_file(folder: Path, bucket: int) -> Path:
    """Where what the kernel of a bucket is to begin with lies."""
    return folder / f"{bucket}.state"


def write_bucket(folder: Path, bucket: int, parts: Iterator[Part]) -> None:
    """What the kernel of a bucket is to begin with. Errors: DISK_FULL, those of reading the parts."""
    path = bucket_file(folder, bucket)
    with durablefiles.room_for(path):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, OWN_FILE)
        try:
            for piece in stream_of(parts):
                durablefiles.write_all(descriptor, piece)
            durablefiles.sync(descriptor)
        finally:
            os.close(descriptor)


def write_note(folder: Path, revision: str, cut: Cut, highs: Iterable[tuple[int, int, int]] | None = None) -> None:
    """After which cut it begins, and what it comes from; `highs` are [ordinal, partition, running maximum of log times (ms)] after the cut."""
    told = {"revision": revision, "cut": cut.to_offset()}
    known = {} if highs is None else {"highs": [list(high) for high in highs]}
    durablefiles.write_atomically(folder / "restored.json", json.dumps({**told, **known}).encode())


def put_in_place(spec: AppSpec, shape: str) -> str:
    """From the rename on, the next start goes on from what `fresh_folder` has, with this shape; the folder to begin with."""
    state = spec.place.state
    durablefiles.write_atomically(state / FRESH / "pipeline.json", shape.encode())
    _bring_back(state)
    if (state / FOLDER).exists():  # of a restore that no cut was committed after: the only state that there is
        durablefiles.rename(state / FOLDER, state / REPLACED)
    durablefiles.rename(state / FRESH, state / FOLDER)
    durablefiles.sync_folder(state)
    return settle(spec)


def settle(spec: AppSpec) -> str:
    """Finish a restore that was interrupted, and forget one that a cut has been committed after; the folder to begin with, "" for none.

    The caller holds the lock of the node's folder. Errors: CONNECTION_UNAVAILABLE where a restore cannot be finished yet: the next call goes on with it.
    """
    state = spec.place.state
    _bring_back(state)
    folder = state / FOLDER
    if not folder.exists():
        return ""
    if is_interrupted(state):
        _finish(spec, folder)
    elif _is_over(spec):
        shutil.rmtree(folder)
        return ""
    return str(folder)


def is_interrupted(state: Path) -> bool:
    """Whether the state is still that of before a restore whose switch is done."""
    return (state / FOLDER / "pipeline.json").exists()


def _bring_back(state: Path) -> None:
    """The switch is two renames where a restored state is replaced that nothing was committed after: after the first one alone, nothing is done yet."""
    replaced = state / REPLACED
    if replaced.exists():
        if (state / FOLDER).exists():
            shutil.rmtree(replaced)
        else:
            durablefiles.rename(replaced, state / FOLDER)


def _finish(spec: AppSpec, folder: Path) -> None:
    """Each step may have been done before; the last one says that all are."""
    state = spec.place.state
    _set_aside(state)
    epoch = take_over(spec)
    if spec.travels:
        from nadi.pipeline.cutting.begins import share_begin  # with it comes SQLAlchemy, which takes half a second

        share_begin(spec, folder, epoch)
    open_commit_log(spec, epoch).clear()
    shown = folder / "progress.json"
    if shown.exists():
        durablefiles.write_atomically(state / "progress.json", shown.read_bytes())
    else:
        durablefiles.remove(state / "progress.json")
    durablefiles.rename(folder / "pipeline.json", state / "pipeline.json")
    durablefiles.sync_folder(folder)
    durablefiles.sync_folder(state)


def _is_over(spec: AppSpec) -> bool:
    """Whether something has been committed after a restore: by this version, or still by the one that had checkpoints."""
    if last_batch(spec.place.state / CHECKPOINT) is not None:
        return True
    try:
        return open_commit_log(spec).recovered() is not None
    except ConnectionUnavailableException:
        return False  # it is looked for at another start; a group that has a record begins with that anyway


def _set_aside(state: Path) -> None:
    """Keep what was there before the restore until the next one; where this was interrupted, the rest."""
    aside, before = state / ASIDE, state / BEFORE
    found = [state / name for name in (LOG, CHECKPOINT) if (state / name).exists()]
    if found:
        aside.mkdir(OWN_FOLDER, exist_ok=True)
        for note in (state / "pipeline.json", *cuts_folder(state).glob("commits-*.jsonl")):
            if note.exists():
                shutil.copyfile(note, aside / note.name)
        for path in found:
            shutil.rmtree(aside / path.name, ignore_errors=True)
            durablefiles.rename(path, aside / path.name)
    if aside.exists():
        shutil.rmtree(before, ignore_errors=True)
        shutil.rmtree(
            state / "checkpoint-before", ignore_errors=True
        )  # a restore of the version with checkpoints left it
        durablefiles.rename(aside, before)


def begin_cut(folder: str) -> Cut:
    """The cut that a restored app begins after."""
    return Cut.from_offset(durablefiles.read_note(Path(folder) / "restored.json")["cut"])


def begin_revision(folder: str) -> str:
    """The name of the revision that has all of the state, "" for none."""
    return str(durablefiles.read_note(Path(folder) / "restored.json").get("revision", ""))


def begin_highs(folder: str) -> dict[Place, int] | None:
    """The running maxima of log times after that cut, by input and partition; None where only its messages tell."""
    told = durablefiles.read_note(Path(folder) / "restored.json").get("highs")
    return None if told is None else {(ordinal, partition): high for ordinal, partition, high in told}


def begin_parts(folder: str, bucket: int) -> Iterator[Part]:
    """What the kernel of a bucket begins with."""
    with bucket_file(Path(folder), bucket).open("rb") as source:
        yield from parts_of(source.read)
