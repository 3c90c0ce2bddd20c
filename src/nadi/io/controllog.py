"""The control log of an app: one growing file `<state>/control.jsonl`, a line per record, read as the last input of the app.

It is read as a `nadi.io.linelog.LineLog`. Whoever appends holds the file's lock, drops what a crash left of a line before it, and syncs: a record that
`append` has returned for is there for good, and no other one will ever stand in its place.
"""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa

from nadi.errors import error
from nadi.io.contract import Connector, Decoded, Messages
from nadi.io.staging import sync_folder
from nadi.kernel.control import CONTROL, CONTROL_SCHEMA
from nadi.lang.tree import Annotation

TYPE = "control"


class Record(msgspec.Struct, frozen=True):
    """`time` (ms) is when it was appended; it never goes back within a log."""

    time: int
    id: str
    query: str


def control_path(state: Path) -> Path:
    """The control log in the state folder of an app."""
    return state / "control.jsonl"


def control_connector(ordinal: int) -> Connector:
    """The control input as the last one of an app's inputs."""
    return Connector(CONTROL, CONTROL_SCHEMA, TYPE, {}, Annotation("map"), ordinal)


def append(path: Path, id_: str, query: str, now: int | None = None) -> int:
    """Add a record; -> its position, once it is on the disk. `now` is the time, ms. Errors: DISK_FULL."""
    wall = time.time_ns() // 1_000_000 if now is None else now
    try:
        with path.open("a+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            content = file.read()
            lines = content[: content.rfind(b"\n") + 1].splitlines(keepends=True)
            before = msgspec.json.decode(lines[-1], type=Record).time if lines else 0
            file.truncate(sum(map(len, lines)))
            file.write(msgspec.json.encode(Record(max(wall, before), id_, query)) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        sync_folder(path.parent)
    except OSError as reason:
        raise error("DISK_FULL", path=f"{path} ({reason.strerror})") from reason
    return len(lines)


class ControlMapper:
    """Lines of the log → rows of the control input."""

    def decode(self, messages: Messages) -> Decoded:
        assert not isinstance(messages.payloads, pa.RecordBatch)
        records = [msgspec.json.decode(line, type=Record) for line in messages.payloads]
        columns = [pa.array([r.id for r in records], pa.string()), pa.array([r.query for r in records], pa.string())]
        batch = pa.RecordBatch.from_arrays(columns, names=list(CONTROL_SCHEMA.names))
        return Decoded(batch, np.arange(len(records)))
