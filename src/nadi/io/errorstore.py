"""The error store of an app: what it could not take, one JSON object per line in `<state>/errors.jsonl`, exactly once.

    stage(state, cut, bucket, rows)     in the write stage: how many there are comes back
    commit(state, cut, buckets)         after all buckets have written
    read(path)                          the rows, oldest first

Rows have time (ms), app, origin ("source file of S", "query of S", "sink http of S"), stream, partition, position, reason, payload (text, or base64 with
"encoding": "base64"), cut. For a sink, partition and position are key-group and number of the first row that the payload has.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from nadi.io.stagedlines import StagedLines


def payload_fields(payload: bytes) -> dict[str, str]:
    """A payload as fields of a row: its text, or base64 where it is none."""
    try:
        return {"payload": payload.decode()}
    except UnicodeDecodeError:
        return {"payload": base64.b64encode(payload).decode(), "encoding": "base64"}


def payload_of(row: Mapping[str, object]) -> bytes:
    """The payload of a row as it came."""
    text = str(row["payload"])
    return base64.b64decode(text) if row.get("encoding") == "base64" else text.encode()


def stage(state: Path, cut: int, bucket: int, rows: Iterable[Mapping[str, object]]) -> int:
    """Keeps the rows of a bucket for the commit of the cut; returns how many. A second call replaces the first. Errors: DISK_FULL."""
    return _store(state).stage(cut, bucket, rows)


def commit(state: Path, cut: int, buckets: Sequence[int]) -> None:
    """Appends what these buckets (those that staged rows) have for the cut, once. Errors: DISK_FULL, STAGE_MISSING, TARGET_CHANGED."""
    _store(state).commit(cut, buckets)


def read(path: Path) -> Iterator[dict[str, object]]:
    """The rows of an error store; a torn last line (a commit is under way) is not there yet."""
    if not path.exists():
        return
    with path.open("rb") as f:
        for line in f:
            if not line.endswith(b"\n"):
                return
            yield msgspec.json.decode(line, type=dict[str, object])


def _store(state: Path) -> StagedLines:
    return StagedLines(state / "errors", state / "errors.jsonl")
