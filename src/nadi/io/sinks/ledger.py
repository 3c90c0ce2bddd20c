"""Small files in which a sink keeps what must survive it, shared by all processes of the node: `<state>/sinks/<ordinal>/*.json`.

Where hosts are on other machines and have no folder in common, they are objects of the same names (`nadi.io.sinks.notes`). Where another node may go on with
the app, what a sink has done is in the database that has the cuts, too (`kept`); where that node has a copy of all that this one writes, these files are rows
of it as well, as objects that are copied are never replaced.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from nadi.config.ownership import own_file
from nadi.io.contract import Connector, Place
from nadi.io.durablefiles import make_folder, read_note, sync_folder
from nadi.io.remotefiles import is_remote
from nadi.io.sinks.notes import Note, NoteFolder
from nadi.lang.tree import Annotation
from nadi.plan.nodes import Schema
from nadi.replica.address import replica_of

STORES = Connector("", Schema(()), "store", {}, Annotation("map"), ordinal=-1)
"""Stands for all tables of an app that are in stores: their transactions are those of one run, as those of a sink are."""


def folder(connector: Connector, place: Place) -> Path:
    """Where a sink keeps its files that no other machine needs."""
    return place.state / "sinks" / str(connector.ordinal)


def shared(connector: Connector, place: Place) -> Path | NoteFolder | KeptFolder:
    """Where a sink keeps what every process that writes to it must see."""
    if replica_of(place.notes)[1] is not None:
        return KeptFolder(kept(connector, place))
    if is_remote(place.notes):
        return NoteFolder(place.notes, str(connector.ordinal))
    if place.notes:
        return Path(place.notes.removeprefix("file://")) / str(connector.ordinal)
    return folder(connector, place)


class KeptFolder:
    """Files of a sink that are no files, but what it keeps by their names."""

    def __init__(self, held: Kept) -> None:
        self._kept = held

    def __truediv__(self, name: str) -> KeptNote:
        return KeptNote(self._kept, name.removesuffix(".json"))


class KeptNote:
    """One of them."""

    def __init__(self, held: Kept, name: str) -> None:
        self._kept, self._name = held, name

    def read(self) -> object:
        return self._kept.read(self._name)

    def replace(self, value: object) -> None:
        self._kept.replace(self._name, value)


class Kept(Protocol):
    """What a sink keeps by names, for whoever goes on with the app. Errors of a database: CONNECTION_UNAVAILABLE, REFUSED."""

    def once(self, name: str, make: Callable[[], object]) -> object:
        """The value of a name; the first one who asks makes it."""
        ...

    def read(self, name: str) -> object:
        """The value of a name, None where there is none."""
        ...

    def held(self, name: str) -> object:
        """As `read`, for who goes on from there. Errors: FENCED, where another node has begun a later run."""
        ...

    def replace(self, name: str, value: object) -> None:
        """Put a value there, durable on return. Errors: FENCED, where another node has begun a later run."""
        ...


class FolderKept:
    """In a folder of the node."""

    def __init__(self, place_of_files: Path) -> None:
        self._folder = place_of_files

    def once(self, name: str, make: Callable[[], object]) -> object:
        return once(self._folder / f"{name}.json", make)

    def read(self, name: str) -> object:
        return read(self._folder / f"{name}.json")

    def held(self, name: str) -> object:
        return self.read(name)

    def replace(self, name: str, value: object) -> None:
        replace(self._folder / f"{name}.json", value)


class TableKept:
    """In the database that all nodes reach."""

    def __init__(self, connector: Connector, place: Place) -> None:
        from nadi.io.appnotes import AppNotes  # with it comes SQLAlchemy, which takes half a second

        self._notes = AppNotes(place.shared, place.identity, place.epoch)
        self._prefix = f"sink-{connector.ordinal}"

    def once(self, name: str, make: Callable[[], object]) -> object:
        return self._notes.once(f"{self._prefix}-{name}", make)

    def read(self, name: str) -> object:
        return self._notes.read(f"{self._prefix}-{name}")

    def held(self, name: str) -> object:
        return self._notes.held(f"{self._prefix}-{name}")

    def replace(self, name: str, value: object) -> None:
        self._notes.replace(f"{self._prefix}-{name}", value)


@dataclass(frozen=True, slots=True)
class PartKept:
    """What a part of a sink keeps, under names of its own."""

    whole: Kept
    part: str

    def once(self, name: str, make: Callable[[], object]) -> object:
        return self.whole.once(f"{self.part}-{name}", make)

    def read(self, name: str) -> object:
        return self.whole.read(f"{self.part}-{name}")

    def held(self, name: str) -> object:
        return self.whole.held(f"{self.part}-{name}")

    def replace(self, name: str, value: object) -> None:
        self.whole.replace(f"{self.part}-{name}", value)


def kept(connector: Connector, place: Place) -> Kept:
    """What a sink keeps of what it has done."""
    return TableKept(connector, place) if place.shared else FolderKept(folder(connector, place))


def run(place_of_files: Path | NoteFolder | KeptFolder) -> str:
    """The name of the sink's run: random, made once per state folder. A new state folder numbers its rows and cuts from 0 again.

    Where there is no folder in common the node has put it there (`give_run`). Errors: STATE_LOG_FAILED.
    """
    if not isinstance(place_of_files, Path):
        return str((place_of_files / "run.json").read())
    return str(once(place_of_files / "run.json", _new_run))


def give_run(connector: Connector, place: Place) -> None:
    """Put the name of the run where all who write find it: that which the node's folder has or, where other nodes may go on with the app, the first of them has
    made.

    Errors: STATE_LOG_FAILED; those of the database.
    """
    note = shared(connector, place) / "run.json"
    known = read(note)
    mine = (
        kept(connector, place).once("run", lambda: known or _new_run())
        if place.shared
        else run(folder(connector, place))
    )
    if known != mine and not isinstance(note, KeptNote):  # there it is the same one
        replace(note, mine)


def _new_run() -> str:
    return os.urandom(8).hex()


def read(path: Path | Note | KeptNote) -> object:
    """The value in a file, None where there is none."""
    if not isinstance(path, Path):
        return path.read()
    found: object = read_note(path) if path.exists() else None
    return found


def once(path: Path, make: Callable[[], object]) -> object:
    """The value in a file; the first one who asks makes it, whichever process it is."""
    if not path.exists():
        made = _written(path, make())
        try:
            os.link(made, path)  # unlike a rename, it fails where the file exists
            sync_folder(path.parent)
        except FileExistsError:
            pass  # another process was first: its value counts
        finally:
            made.unlink()
    kept: object = read_note(path)
    return kept


def replace(path: Path | Note | KeptNote, value: object) -> None:
    """Put a value into a file; it is on the disk on return, and readers see the old one or the new one."""
    if not isinstance(path, Path):
        path.replace(value)
        return
    _written(path, value).replace(path)
    sync_folder(path.parent)


def _written(path: Path, value: object) -> Path:
    make_folder(path.parent)
    temporary = path.with_name(f".{path.name}-{os.getpid()}-{os.urandom(4).hex()}")
    with open(temporary, "w", opener=own_file) as f:
        json.dump(value, f)
        f.flush()
        os.fsync(f.fileno())
    return temporary
