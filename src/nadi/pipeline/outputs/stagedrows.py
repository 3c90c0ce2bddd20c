"""Error rows and faults on their way to the node, which keeps them when their cut is committed.

Where hosts have the node's state folder they are staged there. Else they travel with the receipt, and the node stages them before it commits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from nadi.io import errorstore, faultlog
from nadi.io.faultlog import Fault

Row = Mapping[str, object]
_ROWS = msgspec.json.Decoder(list[dict[str, Any]])
_FAULTS = msgspec.json.Decoder(list[Fault])


def stage(state: Path, cut: int, bucket: int, rows: Sequence[Row], faults: Sequence[Fault]) -> dict[str, int]:
    """Put them into the state folder; -> how many `errors` and `faults` there are. Once more replaces what was there. Errors: DISK_FULL."""
    return {
        "errors": errorstore.stage(state, cut, bucket, rows),
        "faults": faultlog.stage(state, cut, bucket, faults),
    }


def carried(rows: Sequence[Row], faults: Sequence[Fault]) -> dict[str, Any]:
    """How many there are, and themselves, for a receipt.

    >>> carried([], [])
    {'errors': 0, 'faults': 0}
    """
    told: dict[str, Any] = {"errors": len(rows), "faults": len(faults)}
    if rows or faults:
        told["carried"] = [msgspec.json.encode(rows), msgspec.json.encode(faults)]
    return told


def stage_carried(state: Path, cut: int, told: Mapping[str, Any]) -> None:
    """Stage what came with the receipt of a bucket, if anything did. Errors: DISK_FULL."""
    if "carried" in told:
        rows, faults = told["carried"]
        stage(state, cut, told["bucket"], _ROWS.decode(rows), _FAULTS.decode(faults))
