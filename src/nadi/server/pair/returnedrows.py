"""Rows for the error store, of what only a node had that returned: pure functions.

A row has the place `<time in ms>-<input>-<number of the event>`, so that it is the same one whenever it is made. Times are far above the numbers of cuts, by
which all other rows are known.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from nadi.eventsync.contract import Surplus, SurplusKind
from nadi.io.contract import Connector
from nadi.io.controllog import Record
from nadi.io.errorstore import Place, Row, payload_fields, place_of
from nadi.io.journalrecords import CONTROL as CONTROL_PART
from nadi.io.mappers.unreadable import UNREADABLE
from nadi.io.seen import MARK
from nadi.kernel.control import CONTROL

WHY = "only the node that returned had this"
FIRST = 1_000_000_000_000
"""Above all numbers of cuts; times in ms since September 2001 are."""
NUMBERS = 1 << 31


def row_of(one: Surplus, app: str, sources: Mapping[str, Connector]) -> tuple[Place, Row] | None:
    """The row of something of an app, with its place; None where it is nothing that could be sent again: then it is for people to read. `sources` are those of
    the app, by the part of its journal."""
    if one.kind is SurplusKind.ERROR:
        return _error_row(one)
    if one.kind is not SurplusKind.EVENT:
        return None
    if one.stream == CONTROL_PART:
        return _change_row(one, app)
    source = sources.get(one.stream)
    return None if source is None else _event_row(one, app, source)


def _event_row(one: Surplus, app: str, source: Connector) -> tuple[Place, Row]:
    """An event of a source, as if it could not have been decoded: it goes to its stream when it is sent again."""
    row = _row("source", f"source {source.type} of {source.stream}", app, source.stream, one.time)
    row |= {"partition": 0, "position": one.position, "reason": f"{WHY} event", **payload_fields(one.payload)}
    properties = {name: value for name, value in one.properties.items() if name != MARK}
    if UNREADABLE in properties:
        row["final"] = f"it is no message: {properties[UNREADABLE]}"
    else:
        row["again"] = {"ordinal": source.ordinal, **({"properties": properties} if properties else {})}
    return _place(one.time, source.ordinal, one.position), row


def _change_row(one: Surplus, app: str) -> tuple[Place, Row] | None:
    """A change that an on-demand query made. What was sent again, or simulated, is no event that somebody waits for."""
    try:
        record = msgspec.json.decode(one.payload, type=Record)
    except msgspec.DecodeError:
        return None
    if record.again is not None or record.simulated is not None or not record.query:
        return None
    row = _row("query", f"query of {CONTROL}", app, CONTROL, record.time)
    row |= {"partition": None, "position": None, "reason": f"{WHY} change"}
    row |= {"payload": json.dumps([record.id, record.query]), "again": {"bucket": 0, "group": 0}}
    return _place(record.time, NUMBERS - 1, one.position), row


def _error_row(one: Surplus) -> tuple[Place, Row] | None:
    """A row that the node had in its error store."""
    row: Row = json.loads(one.payload)
    place = place_of(str(row.get("id", "")))
    if place is None:
        return None
    reason = str(row["reason"])
    row["reason"] = reason if reason.endswith(f"({WHY} row)") else f"{reason} ({WHY} row)"
    return _place(int(row["time"]), *place[1:]), row


def _row(kind: str, origin: str, app: str, stream: str, time: int) -> dict[str, Any]:
    return {"time": time, "app": app, "kind": kind, "origin": origin, "stream": stream}


def _place(time: int, bucket: int, number: int) -> Place:
    """
    >>> _place(1_764_000_000_000, 0, 7), _place(5, 0, 7)
    ((1764000000000, 0, 7), (1000000000005, 0, 7))
    """
    return (time if time >= FIRST else FIRST + max(time, 0)), bucket, number % NUMBERS
