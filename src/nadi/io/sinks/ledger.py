"""Small files in which a sink keeps what must survive it, shared by all processes of the node: `<state>/sinks/<ordinal>/*.json`.

Where hosts are on other machines and have no folder in common, they are objects of the same names (`nadi.io.sinks.notes`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

from nadi.config.ownership import own_file
from nadi.io.contract import Connector, Place
from nadi.io.remotefiles import is_remote
from nadi.io.sinks.notes import Note, NoteFolder
from nadi.io.staging import make_folder, sync_folder


def folder(connector: Connector, place: Place) -> Path:
    """Where a sink keeps its files that no other machine needs."""
    return place.state / "sinks" / str(connector.ordinal)


def shared(connector: Connector, place: Place) -> Path | NoteFolder:
    """Where a sink keeps what every process that writes to it must see."""
    if is_remote(place.notes):
        return NoteFolder(place.notes, str(connector.ordinal))
    if place.notes:
        return Path(place.notes.removeprefix("file://")) / str(connector.ordinal)
    return folder(connector, place)


def run(place_of_files: Path | NoteFolder) -> str:
    """The name of the sink's run: random, made once per state folder. A new state folder numbers its rows and cuts from 0 again.

    Where there is no folder in common the node has put it there (`give_run`). Errors: STATE_LOG_FAILED.
    """
    if isinstance(place_of_files, NoteFolder):
        return str((place_of_files / "run.json").read())
    return str(once(place_of_files / "run.json", lambda: os.urandom(8).hex()))


def give_run(connector: Connector, place: Place) -> None:
    """Put the name of the run, which the node's folder has, where hosts on other machines find it. Errors: STATE_LOG_FAILED."""
    note, mine = shared(connector, place) / "run.json", run(folder(connector, place))
    if read(note) != mine:
        replace(note, mine)


def read(path: Path | Note) -> object:
    """The value in a file, None where there is none."""
    if isinstance(path, Note):
        return path.read()
    return json.loads(path.read_text()) if path.exists() else None


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
    return json.loads(path.read_text())


def replace(path: Path | Note, value: object) -> None:
    """Put a value into a file; it is on the disk on return, and readers see the old one or the new one."""
    if isinstance(path, Note):
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
