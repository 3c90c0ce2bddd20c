"""What an app begins with after a restore or a change of its text (`nadi.pipeline.cutting.restored`), where other nodes may go on with it: they have nothing of
the folder, so its files are objects `r-<random>-<number>` beside the state log, and a note names them.

The note counts as long as nothing is committed: it is made before the record of commits is cleared, and after the first commit nobody looks at it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from nadi.errors import NadiError
from nadi.io import durablefiles
from nadi.pipeline.cutting.cutlogs import open_commit_log
from nadi.pipeline.spec import AppSpec
from nadi.pipeline.statelog.store import ObjectStore
from nadi.pipeline.statelog.stores import open_store

NOTE, PREFIX, SHAPE = "begin", "r-", "pipeline.json"
BLOCK = 4 * 1024 * 1024  # bytes that are read at once


class Begin(msgspec.Struct, frozen=True):
    """The files by their names, each with its object; the shape of the app."""

    files: dict[str, str]
    shape: str


def share_begin(spec: AppSpec, folder: Path, epoch: int) -> None:
    """Put what is in a folder, with the shape, where all nodes find it, for the run `epoch`.

    Errors: STATE_LOG_FAILED, DISK_FULL, FENCED; those of the database.
    """
    from nadi.io.appnotes import AppNotes  # with it comes SQLAlchemy, which takes half a second

    store, made = open_store(spec.seed_place), os.urandom(8).hex()
    files: dict[str, str] = {}
    for path in sorted(folder.iterdir()):
        if path.name != SHAPE:
            files[path.name] = f"{PREFIX}{made}-{len(files)}"
            store.put(files[path.name], _blocks(path))
    notes = AppNotes(spec.cuts, spec.app, epoch)
    notes.begin()
    notes.replace(NOTE, msgspec.to_builtins(Begin(files, (folder / SHAPE).read_text())))


def fetch_begin(spec: AppSpec, target: Path) -> str:
    """Have what an app begins with in the folder `target`, where nothing is committed and it is not there; -> the shape to begin with, "" where it begins with
    nothing, or goes on. Errors: STATE_LOG_FAILED, DISK_FULL; those of the database."""
    if target.exists():
        return ""
    store = open_store(spec.seed_place)
    if open_commit_log(spec).recovered() is not None:
        with suppress(NadiError):  # the next start tries again
            store.delete(store.list(PREFIX))
        return ""
    noted = spec.open_notes().read(NOTE)
    if noted is None:
        return ""
    begin = msgspec.convert(noted, Begin)
    fresh = target.with_name(f"{target.name}.fetched")
    durablefiles.make_folder(fresh)
    for name, stored in begin.files.items():
        with durablefiles.room_for(fresh), (fresh / name).open("wb") as file:
            for block in _parts(store, stored):
                file.write(block)
            file.flush()
            os.fsync(file.fileno())
    durablefiles.sync_folder(fresh)
    durablefiles.rename(fresh, target)
    durablefiles.sync_folder(target.parent)
    return begin.shape


def _parts(store: ObjectStore, name: str) -> Iterator[bytes]:
    offset = 0
    while block := store.get(name, offset, BLOCK):
        yield block
        offset += len(block)


def _blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as source:
        while block := source.read(BLOCK):
            yield block
