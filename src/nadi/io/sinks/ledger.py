"""Small files in which a sink keeps what must survive it, shared by all processes of the node: `<state>/sinks/<ordinal>/*.json`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

from nadi.io.contract import Connector, Place
from nadi.io.staging import sync_folder


def folder(connector: Connector, place: Place) -> Path:
    """Where a sink keeps its files."""
    return place.state / "sinks" / str(connector.ordinal)


def run(place_of_files: Path) -> str:
    """The name of the sink's run: random, made once per state folder. A new state folder numbers its rows and cuts from 0 again."""
    return str(once(place_of_files / "run.json", lambda: os.urandom(8).hex()))


def read(path: Path) -> object:
    """The value in a file, None where there is none."""
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


def replace(path: Path, value: object) -> None:
    """Put a value into a file; it is on the disk on return, and readers see the old one or the new one."""
    _written(path, value).replace(path)
    sync_folder(path.parent)


def _written(path: Path, value: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}-{os.getpid()}-{os.urandom(4).hex()}")
    with temporary.open("w") as f:
        json.dump(value, f)
        f.flush()
        os.fsync(f.fileno())
    return temporary
