"""What hosts do for the batches of a thin pipeline: requests → rows and receipts.

    run     all of it: read, decode, spread, kernels, state log, sinks; for several groups ──► one receipt
    read    the first half for a part of one group's cut ──► fat rows for the hosts of its buckets
    W       the second half: the rows of buckets ──► a receipt

A receipt tells of each group by itself: `done`, `pending` (it takes longer than the deadline), `left` (the host before this one died with this very
request), `need` (the spec, or the lines of its buckets), `fenced` (a
later run or cut of it has been here) or `failed`. Whatever becomes of one, the others of the request are not affected.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
import pyarrow as pa
import structlog

from nadi.errors import NadiError
from nadi.pipeline.executor.exchange import Order, read_at
from nadi.pipeline.executor.hosted import Apps
from nadi.pipeline.executor.jobs import Job, Jobs, Receipt
from nadi.pipeline.executor.liveapp import LiveApp
from nadi.pipeline.hosting.lane import RECEIPT, Row
from nadi.pipeline.hosting.protocol import Part
from nadi.pipeline.inputs.fatrows import Body, FatRow, Gathered, gather, to_ipc
from nadi.pipeline.spec import AppSpec

_PACK = msgspec.msgpack.Encoder().encode
_REQUEST = msgspec.msgpack.Decoder(dict[str, Any])
_ROW = msgspec.msgpack.Decoder(tuple[str, int, int, dict[str, Any], memoryview])
_READING = ("n", "clock", "started", "ranges", "brought", "level", "careful", "aside", "ask")

Rows = list[tuple[dict[str, Any], Body]]
"""Fat rows of one bucket: (head, body)."""


@dataclass(frozen=True, slots=True)
class Begun:
    """A group of a request: what it is told already, or the job that it waits for."""

    order: Order
    told: Receipt | None = None
    jobs: Jobs | None = None
    job: Job | None = None


class CutWork:
    """Answers requests for all apps of a host."""

    def __init__(self, apps: Apps) -> None:
        self._apps = apps

    def read(self, request: Part) -> Iterator[Row]:
        """The rows of a source task: fat rows, or a receipt."""
        asked = _REQUEST.decode(request)
        if asked["k"] == "run":
            yield Row(0, RECEIPT, self._run(asked))
        else:
            yield from self._read(asked)

    # ---- one stage

    def _run(self, asked: Mapping[str, Any]) -> bytes:
        seconds = asked["deadline"]
        until = None if seconds is None else time.monotonic() + seconds
        groups = asked["groups"]
        begun = [self._begin(group, until is not None or len(groups) > 1) for group in groups]
        return receipt_of(_told(each, until, asked.get("wake") or "") for each in begun)

    def _begin(self, group: Mapping[str, Any], beside: bool) -> Begun:
        at = {int(bucket): told for bucket, told in group["at"].items()}
        order = _order(group["app"], group["epoch"], group, at)
        if self._apps.is_fatal(order.ask):
            return Begun(order, order.receipt("left"))
        known = self._known(order, group["spec"])
        if not isinstance(known, AppSpec):
            return Begun(order, known)
        jobs = self._apps.jobs(known)
        job = jobs.begin((order.epoch, order.n), partial(self._cut, known, order, group), beside)
        return Begun(order, order.receipt("pending") if job is None else None, jobs, job)

    def _cut(self, spec: AppSpec, order: Order, group: Mapping[str, Any]) -> Receipt:
        """What a job does: a cut of an app, which is planned and opened where it is not, in the job's time."""
        app = self._live(spec, order)
        if not isinstance(app, LiveApp):
            return app
        head = {name: group[name] for name in _READING if name in group}
        with _logged(spec, order):
            return app.exchanges.take(order, partial(_gathered, app, head))

    def _known(self, order: Order, spec: str | None) -> AppSpec | Receipt:
        """The app that an order is for, or what is told of it without one."""
        try:
            found = self._apps.enter(order.app, order.epoch, spec)
        except Exception as reason:
            return _refused(order, reason)
        return order.receipt("need", need=["spec"]) if found is None else found

    def _live(self, spec: AppSpec, order: Order) -> LiveApp | Receipt:
        try:
            return self._apps.live(spec, order.epoch)
        except Exception as reason:
            return _refused(order, reason)

    def _entered(self, order: Order, spec: str | None) -> LiveApp | Receipt:
        """The open app that an order is for, or what is told of it without one."""
        known = self._known(order, spec)
        return self._live(known, order) if isinstance(known, AppSpec) else known

    # ---- two stages

    def _read(self, asked: Mapping[str, Any]) -> Iterator[Row]:
        order = Order(asked["app"], asked["epoch"], asked["n"], {})
        app = self._entered(order, asked["spec"])
        if not isinstance(app, LiveApp):
            yield Row(0, RECEIPT, receipt_of([app]))
            return
        head = {name: asked[name] for name in _READING if name in asked}
        if app.spec.handover >= 0:
            head["task"] = asked["task"]  # the kernels are near: rows may name events that stay here
        try:
            rows = app.handover.rows(head)
            for row in rows if app.watch is None else app.watch.each("read", rows):
                yield _row(app.spec, asked, row)
        except Exception as reason:
            yield Row(0, RECEIPT, receipt_of([order.failed(reason)]))

    def write(self, bodies: Iterable[Part]) -> bytes:
        """The receipt of a sink task for the rows of its buckets."""
        groups: dict[tuple[str, int], dict[int, Rows]] = {}
        for packed in bodies:
            app, epoch, bucket, head, body = _ROW.decode(packed)
            groups.setdefault((app, epoch), {}).setdefault(bucket, []).append((head, body))
        told = [self._written(app, epoch, buckets) for (app, epoch), buckets in groups.items()]
        return receipt_of(each for each in told if each is not None)

    def _written(self, id_: str, epoch: int, buckets: Mapping[int, Rows]) -> Receipt | None:
        """What is told of a group; None where no bucket has all its rows: whoever failed to read them has told of it."""
        whole = {bucket: clock for bucket, rows in buckets.items() if (clock := _whole(rows)) is not None}
        if not whole:
            return None
        clock = next(iter(whole.values()))
        order = _order(id_, epoch, clock, {bucket: each["at"] for bucket, each in whole.items()})
        if self._apps.is_fatal(order.ask):
            return order.receipt("left")
        app = self._entered(order, clock.get("spec"))
        if not isinstance(app, LiveApp):
            return app
        with _logged(app.spec, order):
            return app.exchanges.take(order, lambda: {bucket: _taken(app, buckets[bucket]) for bucket in whole})


def _order(app: str, epoch: int, told: Mapping[str, Any], at: Mapping[int, Sequence[Any]]) -> Order:
    """What is asked for buckets, as a request or a clock row of it tells; `at` is where they stand."""
    stand = {bucket: read_at(each) for bucket, each in at.items()}
    return Order(app, epoch, told["n"], stand, told.get("aside", 0), told.get("ask", ""))


def _logged(spec: AppSpec, order: Order) -> AbstractContextManager[object]:
    """While this lasts, what is logged says what it is about."""
    return structlog.contextvars.bound_contextvars(app=spec.app, group=spec.group or spec.app, batch=order.n)


def receipt_of(told: Iterable[Receipt]) -> bytes:
    """A receipt as it travels."""
    return _PACK({"groups": list(told)})


def _told(each: Begun, until: float | None, wake: str) -> Receipt:
    if each.told is not None:
        return each.told
    assert each.jobs is not None
    assert each.job is not None
    left = None if until is None else max(0.0, until - time.monotonic())
    try:
        told = each.jobs.wait(each.job, left, wake)
    except Exception as reason:
        return each.order.failed(reason)
    return each.order.receipt("pending") if told is None else told


def _refused(order: Order, reason: Exception) -> Receipt:
    """What is told where an app cannot be opened."""
    fenced = isinstance(reason, NadiError) and reason.condition == "CUT_FENCED"
    return order.receipt("fenced") if fenced else order.failed(reason)


def _gathered(app: LiveApp, head: dict[str, Any]) -> dict[int, Gathered]:
    """What each bucket is given, read here."""
    rows: dict[int, Rows] = {}
    found = app.read(head)
    for row in found if app.watch is None else app.watch.each("read", found):
        rows.setdefault(row.bucket, []).append((row.head, row.body))
    return {bucket: gather(of, app.streams) for bucket, of in rows.items()}


def _row(spec: AppSpec, asked: Mapping[str, Any], row: FatRow) -> Row:
    """A fat row on its way to the host of its bucket; what that must know of the cut is in the clock rows."""
    head = row.head
    if head["k"] == "clock":
        more = {name: asked[name] for name in ("task", "tasks", "spec")}
        head = {**head, **more, "at": asked["at"][row.bucket]}
        if "owners" in asked:  # on a cluster
            head = {**head, "owner": asked["owners"][row.bucket], "token": asked["token"]}
    body = to_ipc(row.body) if isinstance(row.body, pa.RecordBatch) else row.body
    packed = _PACK([spec.id, asked["epoch"], row.bucket, head, body])
    return Row(spec.labels[row.bucket], spec.host_of(row.bucket), packed)


def _whole(rows: Sequence[tuple[dict[str, Any], Body]]) -> dict[str, Any] | None:
    """A clock row of a bucket that every task has read its part for; None where some has not."""
    clocks = {head["task"]: head for head, _ in rows if head["k"] == "clock"}
    some = next(iter(clocks.values()), None)
    return some if some is not None and len(clocks) == some["tasks"] else None


def _taken(app: LiveApp, rows: Rows) -> Gathered:
    """What a bucket is given, with the events that stayed in the hosts that read them."""
    heads, bodies = [head for head, _ in rows], [body for _, body in rows]
    named = [i for i, head in enumerate(heads) if head["k"] == "events" and "at" in head]
    found = app.handover.taken([heads[i] for i in named], [bodies[i] for i in named])
    for i, body in zip(named, found, strict=True):
        bodies[i] = body
    return gather(list(zip(heads, bodies, strict=True)), app.streams)
