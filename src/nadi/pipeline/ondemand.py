"""On-demand queries against an app that runs: finds are answered by its kernels, changes are records of its control input.

    found = ask(live, "from Stock select symbol, volume")
    ask(live, "delete Stock on Stock.symbol == 'IBM'", within=30)

A find reads what the kernels hold after their last batch, bucket by bucket (each by itself is a state that the app was in); grouping, order and limits
go over the union. A change is durable when its record is appended, and is done exactly once, in the batch whose cut takes the record.
"""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from nadi.errors import error
from nadi.io.errorstore import Wanted
from nadi.kernel.control import CONTROL
from nadi.pipeline.cutting.cutlogs import open_cut_log
from nadi.pipeline.hosting.hostclient import Hosts, hosts
from nadi.pipeline.live import Live
from nadi.pipeline.progress import read_progress
from nadi.pipeline.spec import AppSpec, planned
from nadi.plan.nodes import Aggregation, App, NamedWindow, OnDemand, Table

LOOK = 0.02  # seconds
_UNPACK = msgspec.msgpack.Decoder().decode


@dataclass(frozen=True, slots=True)
class Found:
    """The rows that a find gave, by column, with the names and Siddhi types (`int`, `string`, …) of the columns."""

    names: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    types: tuple[str, ...] = ()


def ask(live: Live, text: str, within: float = 30.0) -> Found | None:
    """Find, or change: None once the change is made.

    Errors: SiddhiParserException, OnDemandQueryCreationException; ANSWER_LATE where a kernel has not come up, or no batch has taken a change (it
    stands and will be made), `within` seconds; QUERY_ON_CLUSTER for a find there; CHANGE_FAILED where it met something in a value.
    """
    engine = live.spec.load_engine()
    app = planned(engine, live.spec.text, live.spec.variables)
    question = engine.plan_on_demand(app, text)
    if question.kind == "find":
        if live.spec.cluster:
            raise error("QUERY_ON_CLUSTER", app=live.spec.app)
        return _find(live, app, question, text, within)
    _change(live, app, text, within)
    return None


def _find(live: Live, app: App, question: OnDemand, text: str, within: float) -> Found:
    stores: dict[str, Table | NamedWindow | Aggregation] = {**app.tables, **app.windows, **app.aggregations}
    schema = question.selection.schema if question.selection.values else stores[question.store].schema
    types = tuple(kind.value for kind in schema.types)
    reached = hosts(live.spec.hosts, live.jvm)
    until = time.monotonic() + within
    woken = False
    while True:
        parts = [_asked(live, reached, bucket, text) for bucket in range(live.spec.buckets)]
        if all(part is not None for part in parts):
            rows = [row for part in parts if part is not None for row in part]
            selected = _asked(live, reached, 0, text, rows)
            if selected is not None:
                return Found(schema.names, [tuple(row) for row in selected], types)
        if time.monotonic() > until:
            raise error("ANSWER_LATE", app=live.spec.app, seconds=round(within), what="its kernels are not up")
        if not woken:  # after a restart kernels come up with the first batch
            live.spec.open_control().append(secrets.token_hex(8), "")
            woken = True
        time.sleep(LOOK)


def _asked(live: Live, reached: Hosts, bucket: int, text: str, rows: list[Any] | None = None) -> list[Any] | None:
    head = {"op": "find", "bucket": bucket, "text": text}
    answer = reached.call_app(live.spec, bucket, head, [] if rows is None else [msgspec.msgpack.encode(rows)])
    if answer.head.get("need") == "kernel":
        return None
    found: list[Any] = _UNPACK(answer.parts[0])
    return found


def _change(live: Live, app: App, text: str, within: float) -> None:
    """Append a change and wait until a batch has made it."""
    control = control_ordinal(live.spec, app)
    id_ = secrets.token_hex(8)
    position = live.spec.open_control().append(id_, text)
    wait_for(live, (control, position), within, "the change is noted and will be made")
    for row in live.spec.open_errors().rows(Wanted(kind="query", stream=CONTROL)):
        if msgspec.json.decode(str(row["payload"]))[0] == id_:
            raise error("CHANGE_FAILED", app=live.spec.app, reason=row["reason"])


def control_ordinal(spec: AppSpec, app: App) -> int:
    """Which of the inputs is the control input."""
    (found,) = (c.ordinal for c in spec.sources(app) if c.stream == CONTROL)
    return found


def wait_for(live: Live, record: tuple[int, int], within: float, otherwise: str) -> None:
    """Wait until a batch that is done has a record (ordinal of its input, position). Errors: ANSWER_LATE, which says `otherwise`."""
    state = Path(live.spec.state)
    until, seen = time.monotonic() + within, -1
    while True:
        progress = read_progress(state)
        if progress is not None and progress.n != seen:  # the cut log is read only where there is something new in it
            seen = progress.n
            if _taken(live, seen, *record):
                return
        if time.monotonic() > until:
            raise error("ANSWER_LATE", app=live.spec.app, seconds=round(within), what=otherwise)
        time.sleep(LOOK)


def _taken(live: Live, n: int, ordinal: int, position: int) -> bool:
    cut = open_cut_log(live.spec).at(n)
    return cut is not None and cut.ends[(ordinal, 0)] > position
