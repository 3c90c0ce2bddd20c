"""Sending again what the error store of a running app has: each thing becomes a record of the app's control log, which is the mark that it was sent, too.

    sent = send_again(live, rows)

So a repeat is durable, takes its place among the events, is done once, and is done again by a replay of the logs, like any change from outside.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from nadi.errors import error
from nadi.io.controllog import Again, control_connector
from nadi.io.errorstore import Row, payload_of
from nadi.kernel.control import CONTROL
from nadi.pipeline.inputs.again import ControlTake, control_take
from nadi.pipeline.inputs.misfit import Misfit
from nadi.pipeline.live import Live
from nadi.pipeline.ondemand import control_ordinal, wait_for

OLDER = "it was kept by an older nadi, without what that needs"


@dataclass(frozen=True, slots=True)
class Sent:
    """How many were sent again; ids of those that were left out because they had been sent before; id → reason of those that cannot be sent."""

    count: int
    before: tuple[str, ...] = ()
    impossible: Mapping[str, str] | None = None


def send_again(
    live: Live,
    rows: Iterable[Row],
    *,
    repeat: bool = False,
    skip: bool = False,
    payload: bytes | None = None,
    within: float = 30.0,
) -> Sent:
    """Send rows again and wait until a batch has done it. `payload` stands in the place of theirs.

    With `repeat` what was sent before is sent once more; with `skip` what was sent before or cannot be sent is left out and told.
    Errors: ERROR_NOT_REPLAYABLE, ERROR_REPLAYED (then nothing is sent), DISK_FULL; ANSWER_LATE where no batch has taken it `within` seconds (it stands
    and will be done).
    """
    app = live.spec.plan()
    ordinal = control_ordinal(live.spec, app)
    take = control_take(live.spec, app, control_connector(ordinal))
    wanted: list[Again] = []
    impossible: dict[str, str] = {}
    for row in rows:
        try:
            wanted.append(_checked(take, row, payload))
        except Misfit as reason:
            if not skip:
                raise error("ERROR_NOT_REPLAYABLE", id=row["id"], reason=reason) from reason
            impossible[row["id"]] = str(reason)
    done = live.spec.open_control().append_again(wanted, repeat, skip)
    if done.last is not None:
        wait_for(live, (ordinal, done.last), within, "it is noted and will be sent again")
    return Sent(len(wanted) - len(done.before), done.before, impossible)


def _checked(take: ControlTake, row: Row, payload: bytes | None) -> Again:
    again = again_of(row, payload)
    take.check(again)
    return again


def again_of(row: Row, payload: bytes | None = None) -> Again:
    """What sends a row again. Raises Misfit where that cannot be."""
    needed: dict[str, Any] | None = row.get("again")
    if needed is None:
        raise Misfit(str(row.get("final", OLDER)))
    given = payload_of(row) if payload is None else payload
    kind = "control" if row["stream"] == CONTROL else row["kind"]
    if payload is not None and (kind == "control" or (kind == "sink" and row["origin"].startswith("sink rdbms "))):
        raise Misfit("it has no message that another one could stand for: it goes without --payload only")
    of = {name: value for name, value in needed.items() if name in ("ordinal", "bucket", "group", "properties")}
    header = tuple(needed.get("header", ()))
    rows = [(ts, values) for ts, values in needed.get("rows", ())]
    place = {"partition": row["partition"], "position": row["position"]} if kind == "source" else {}
    return Again(row["id"], kind, row["stream"], given, time=row["time"], header=header, rows=rows, **place, **of)
