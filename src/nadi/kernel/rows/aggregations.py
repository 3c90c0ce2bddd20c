"""Incremental aggregations (semantics/aggregations.md): running values per time bucket and group, for several durations at once.

Every event is counted in its bucket of each duration, by its own time: an event out of order simply goes into an older bucket. Plain attributes keep what
the event with the latest time had.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, tzinfo
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from nadi.errors import error
from nadi.functions.arithmetic import told
from nadi.kernel.calendar import bucket_start, range_of, time_of_stamp
from nadi.kernel.rows.aggregation import Aggregation as Accumulators
from nadi.kernel.rows.code import BETWEEN
from nadi.kernel.rows.compile import ROW, compile_key, compile_row, compile_values
from nadi.kernel.rows.events import CURRENT, Chunk, Row
from nadi.kernel.rows.flow import Flow
from nadi.kernel.rows.javahash import DELIMITER, text_buckets
from nadi.kernel.rows.misfits import MISFITS, cast_failed
from nadi.kernel.rows.state import Map
from nadi.kernel.rows.steps import make_steps
from nadi.lang import parse_expression
from nadi.lang.tree import TimeConstant, Type
from nadi.plan.durations import duration_of
from nadi.plan.nodes import Aggregation, Const, Expr

if TYPE_CHECKING:
    from nadi.functions.registry import Registry
    from nadi.kernel.rows.compile import Searchable

Group = tuple[int, str]
"""Start of a bucket, and what is grouped by."""

_NULL = Const(None, Type.OBJECT)
_DAY = 86_400_000
_RETENTION = {"sec": 120_000, "min": _DAY, "hour": 30 * _DAY, "day": 365 * _DAY}
_PURGE_INTERVAL = 15 * 60_000


class AggregationRuntime:
    """One aggregation: takes the chunks of its stream, gives the rows of a range. `zone` is where its days, months and years begin.

    `shared` (`@PartitionById`) is whether nodes share it: the rows of this one are then all that there are, in the order in which Siddhi puts
    the nodes' rows together.
    """

    def __init__(
        self,
        plan: Aggregation,
        flow: Flow,
        tables: Mapping[str, Searchable],
        registry: Registry,
        zone: tzinfo = UTC,
        shared: bool = False,
    ) -> None:
        self.plan = plan
        self._mixed = shared or plan.timestamp is not None
        self._flow = flow
        self._zone = zone
        selection = plan.selection
        self._steps = make_steps(plan.input.steps, plan.input.schema, flow, tables, registry, self._take)
        self._time = None if plan.timestamp is None else compile_row(plan.timestamp, flow, tables)
        self._key = compile_key(selection.group_by, flow, tables, ROW)
        arguments: list[Expr] = [a.args[0] if a.args else _NULL for a in selection.aggregates]
        self._arguments = compile_values(arguments, flow, tables, ROW)
        self._values = compile_values(selection.values, flow, tables, ROW)
        self._series = {
            duration: _Series(
                Accumulators(f"{plan.id}/{duration}", selection.aggregates, False, flow), plan, duration, flow
            )
            for duration in plan.durations
        }
        self._retention, self._interval = _purging(plan)
        self._timer = flow.arrivals.timer(f"{plan.id}/purge", self._purge)

    @property
    def source(self) -> str:
        return self.plan.input.source

    def process(self, chunk: Chunk) -> None:
        """Events of the stream."""
        self._steps.process(chunk)

    def begin(self) -> None:
        """At the start of the app: the purging."""
        if self._interval is not None:
            self._timer.at(self._flow.arrival_now + self._interval)

    def _take(self, chunk: Chunk) -> None:
        for kind, ts, row in chunk:
            if kind != CURRENT:
                continue
            moment = self._flow.now if self._time is None else self._moment(self._time(row, ts))
            key, values = self._key(row, ts), self._arguments(row, ts, (), ())
            starts = [bucket_start(moment, duration, self._zone) for duration in self._series]
            try:
                for start, series in zip(starts, self._series.values(), strict=True):
                    series.add((start, key), moment, row, values)
            except MISFITS as problem:
                raise cast_failed("an aggregator", problem) from None

    def _moment(self, value: object) -> int:
        """The time of an event."""
        if isinstance(value, str):
            return time_of_stamp(value)
        if value is None:
            raise error("NULL_VALUE", where=f"'aggregate by' of {self.plan.name}")
        if type(value) is not int:
            where = f"'aggregate by' of {self.plan.name}"
            raise error("CLASS_CAST", where=where, reason=f"{told(value)} is no long and no text")
        return value

    # ---- reading

    def rows(self) -> Iterable[Row]:
        """The rows of all buckets of the finest duration."""
        return self._read(self.plan.durations[0], lambda _bucket: True)

    def between(self, within: tuple[object, ...], per: object) -> list[Row]:
        """The rows of the buckets of a duration that start in a range: AGG_TIMESTAMP, then what is selected.

        Raises:
            SiddhiAppRuntimeException: INVALID_TIME, DURATION_NOT_KEPT.
        """
        duration = duration_of(per) if isinstance(per, str) else None
        if duration is None or duration not in self._series:
            kept = ", ".join(self.plan.durations)
            raise error("DURATION_NOT_KEPT", aggregation=self.plan.name, kept=kept, per=per)
        start, end = range_of(within)
        return self._read(duration, lambda bucket: start <= bucket < end)

    def _read(self, duration: str, wanted: Callable[[int], bool]) -> list[Row]:
        found = [(group, held) for group, held in self._series[duration].items() if wanted(group[0])]
        places = self._places([group for group, _held in found], duration)
        return [
            (bucket, *self._values(row, moment, aggregates, ()))
            for _place, ((bucket, _key), (moment, row, aggregates)) in sorted(
                zip(places, found, strict=True), key=itemgetter(0)
            )
        ]

    def _places(self, groups: list[Group], duration: str) -> list[tuple[bool, int]]:
        """Where Siddhi's rows stand, which come out of hash maps: with `aggregate by` out of one by bucket and group; without it the finished
        buckets come first, from their table, then the running one, by group and bucket."""
        if self._mixed:
            places = text_buckets([f"{bucket}{DELIMITER}{_siddhis(key)}" for bucket, key in groups])
            return [(False, place) for place in places]
        running = bucket_start(self._flow.now, duration, self._zone)
        late = [bucket >= running for bucket, _key in groups]
        finished = iter(
            text_buckets(
                [f"{b}{DELIMITER}{_siddhis(k)}" for (b, k), after in zip(groups, late, strict=True) if not after]
            )
        )
        current = iter(
            text_buckets([f"{_siddhis(k)}-{b}" for (b, k), after in zip(groups, late, strict=True) if after])
        )
        return [(after, next(current if after else finished)) for after in late]

    # ---- purging

    def _purge(self, due: int) -> None:
        interval, now = self._interval or _PURGE_INTERVAL, self._flow.arrival_now
        missed = max(0, (now - due) // interval)
        self._timer.at(due + (missed + 1) * interval)
        for duration, kept in self._retention.items():
            self._series[duration].forget_before(now - kept)


def _siddhis(key: str) -> str:
    """A group key as Siddhi writes it: each value followed by the delimiter."""
    return key.replace(BETWEEN, DELIMITER) + DELIMITER if key else ""


class _Series:
    """The buckets of one duration. Cells: `latest` (bucket, group) → [time, row, aggregates] of the latest event and after the last one."""

    def __init__(self, accumulators: Accumulators, plan: Aggregation, duration: str, flow: Flow) -> None:
        self._accumulators = accumulators
        self._state = flow.store.element(f"{plan.id}/{duration}/latest", {"latest": Map})

    def _latest(self) -> Map:
        latest: Map = self._state.at("")["latest"]
        return latest

    def add(self, group: Group, moment: int, row: Row, values: tuple[Any, ...]) -> None:
        self._accumulators.bind()
        aggregates = self._accumulators.add(group, values)
        latest = self._latest()
        before = latest.get(group)
        if before is not None and before[0] > moment:
            moment, row = before[0], before[1]
        latest.set(group, (moment, row, aggregates))

    def items(self) -> Iterable[tuple[Group, tuple[int, Row, list[Any]]]]:
        return self._latest().items()

    def forget_before(self, start: int) -> None:
        latest = self._latest()
        self._accumulators.bind()
        for group in [g for g in latest if g[0] < start]:
            latest.pop(group)
            self._accumulators.forget(group)


def _purging(plan: Aggregation) -> tuple[dict[str, int], int | None]:
    """How long the buckets of each duration are kept, and how often that is looked after; None where never.

    Buckets go when a coarser duration has what was in them: where there is only one duration, none do.
    """
    kept: dict[str, int] = {d: t for d, t in _RETENTION.items() if d in plan.durations}
    purge = next((a for a in plan.annotations if a.name.lower() == "purge"), None)
    if len(plan.durations) == 1:
        return {}, None
    if purge is None:
        return kept, _PURGE_INTERVAL
    if (purge.get("enable") or "true").lower() == "false":
        return {}, None
    for period in purge.all("retentionPeriod"):
        for element in period.elements:
            duration = duration_of(element.key)
            if duration in plan.durations and duration is not None:
                kept.pop(duration, None)
                if element.value.strip().lower() != "all":
                    kept[duration] = _milliseconds(element.value)
    interval = purge.get("interval")
    return kept, _PURGE_INTERVAL if interval is None else _milliseconds(interval)


def _milliseconds(text: str) -> int:
    found = parse_expression(text)
    if not isinstance(found, TimeConstant):
        raise error("INVALID_ANNOTATION", name="purge", reason=f"'{text}' is not a time such as '10 sec'")
    return found.milliseconds
