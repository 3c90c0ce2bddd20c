"""On-demand queries against an app that runs: finds are answered by its kernels, changes are records of its control input.

    rows = find(live, "from Stock select symbol, volume")
    change(live, "delete Stock on Stock.symbol == 'IBM'", within=30)

A find reads what the kernels hold after their last batch, bucket by bucket (each by itself is a state that the app was in); grouping, order and limits
go over the union. A change is durable when its record is appended, and is done exactly once, in the batch whose cut takes the record.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from nadi.errors import error
from nadi.io import errorstore
from nadi.io.controllog import append, control_path
from nadi.kernel.control import CONTROL
from nadi.pipeline.cutlog import CutLog
from nadi.pipeline.hostclient import Hosts, hosts
from nadi.pipeline.live import Live
from nadi.pipeline.progress import read_progress
from nadi.plan.nodes import Aggregation, NamedWindow, OnDemand, Table

LOOK = 0.02  # seconds
_UNPACK = msgspec.msgpack.Decoder().decode


@dataclass(frozen=True, slots=True)
class Found:
    """The rows that a find gave, by column."""

    names: tuple[str, ...]
    rows: list[tuple[Any, ...]]


def planned(live: Live, text: str) -> OnDemand:
    """The query against the app as it runs. Errors: SiddhiParserException, OnDemandQueryCreationException."""
    engine = live.spec.load_engine()
    return engine.plan_on_demand(engine.plan_app(live.spec.text), text)


def find(live: Live, text: str, within: float = 30.0) -> Found:
    """Ask the kernels. Errors: those of the query, ANSWER_LATE where a kernel has not come up `within` seconds."""
    app = live.spec.load_engine().plan_app(live.spec.text)
    question = planned(live, text)
    stores: dict[str, Table | NamedWindow | Aggregation] = {**app.tables, **app.windows, **app.aggregations}
    names = question.selection.schema.names if question.selection.values else stores[question.store].schema.names
    ask = hosts(live.spec.hosts, live.jvm)
    until = time.monotonic() + within
    woken = False
    while True:
        parts = [_asked(live, ask, bucket, text) for bucket in range(live.spec.buckets)]
        if all(part is not None for part in parts):
            rows = [row for part in parts if part is not None for row in part]
            selected = _asked(live, ask, 0, text, rows)
            if selected is not None:
                return Found(names, [tuple(row) for row in selected])
        if time.monotonic() > until:
            raise error("ANSWER_LATE", app=live.spec.app, seconds=round(within), what="its kernels are not up")
        if not woken:  # after a restart kernels come up with the first batch
            append(control_path(Path(live.spec.state)), secrets.token_hex(8), "")
            woken = True
        time.sleep(LOOK)


def _asked(live: Live, ask: Hosts, bucket: int, text: str, rows: list[Any] | None = None) -> list[Any] | None:
    head = {"op": "find", "query": live.query, "bucket": bucket, "text": text}
    answer = ask.call_app(live.spec, bucket, head, [] if rows is None else [msgspec.msgpack.encode(rows)])
    if answer.head.get("need") == "kernel":
        return None
    found: list[Any] = _UNPACK(answer.parts[0])
    return found


def change(live: Live, text: str, within: float = 30.0) -> None:
    """Append a change and wait until a batch has made it.

    Errors: those of the query; CHANGE_FAILED where it met something in a value; ANSWER_LATE where no batch took it `within` seconds: it stands
    and will be done.
    """
    planned(live, text)
    state = Path(live.spec.state)
    id_ = secrets.token_hex(8)
    position = append(control_path(state), id_, text)
    if not _until(lambda: _taken(live, position), within):
        raise error(
            "ANSWER_LATE", app=live.spec.app, seconds=round(within), what="the change is noted and will be made"
        )
    for row in errorstore.read(state / "errors.jsonl"):
        if row["stream"] == CONTROL and msgspec.json.decode(str(row["payload"]))[0] == id_:
            raise error("CHANGE_FAILED", app=live.spec.app, reason=row["reason"])


def _taken(live: Live, position: int) -> bool:
    """Whether a batch that is done has the record at `position`."""
    state = Path(live.spec.state)
    progress = read_progress(state)
    cut = None if progress is None else CutLog(state / "cuts", 0).at(progress.n)
    if cut is None:
        return False
    ordinal = max(ordinal for ordinal, _ in cut.ends)  # the control input is the last one
    return cut.ends[(ordinal, 0)] > position


def _until(holds: Callable[[], bool], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(LOOK)
    return True
