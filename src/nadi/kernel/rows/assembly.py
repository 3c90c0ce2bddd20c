"""Puts an app together: junctions, tables, named windows, queries, partitions, triggers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from nadi.errors import NOWHERE, error
from nadi.kernel.rows.aggregations import AggregationRuntime
from nadi.kernel.rows.flow import Flow
from nadi.kernel.rows.junctions import Delivery, Junction
from nadi.kernel.rows.namedwindows import NamedWindowRuntime
from nadi.kernel.rows.partitions import PartitionRuntime
from nadi.kernel.rows.queries import Begins, QueryRuntime, Wiring
from nadi.kernel.rows.state import Element, Value
from nadi.kernel.rows.stores import StoredTable, stored_table
from nadi.kernel.rows.tables import TableRuntime
from nadi.kernel.rows.triggers import TriggerRuntime
from nadi.plan.aggregations import partitioned
from nadi.plan.annotations import first
from nadi.plan.nodes import App, Partition, Query, Schema, Stream, Table

if TYPE_CHECKING:
    from nadi.functions.registry import Registry
    from nadi.kernel.rows.compile import Searchable


@dataclass(frozen=True, slots=True)
class Assembly:
    """The parts of an app. `begins` is what the start of the app begins, in order; `queries` those that can be listened to, by name."""

    wiring: Wiring
    schemas: Mapping[str, Schema]
    queries: Mapping[str, QueryRuntime]
    begins: tuple[Begins, ...]
    clock: Element


def assemble(app: App, registry: Registry, flow: Flow, properties: Mapping[str, str]) -> Assembly:
    """All runtimes of an app, wired in the order of its text. `properties` are those of the node: "aggTimeZone", "partitionById", "shardId"."""
    delivery = Delivery(flow)
    junctions = {key: Junction(key, delivery, stream.partition is not None) for key, stream in app.streams.items()}
    for key in (*app.windows, *app.triggers):
        junctions.setdefault(key, Junction(key, delivery))
    for key, stream in app.streams.items():
        if routes_faults(stream):
            junctions[key].fault = junctions.get(f"!{key}")
    tables = {name: _table(app, table, registry, flow) for name, table in app.tables.items()}
    stored = tuple(table for table in tables.values() if isinstance(table, StoredTable))
    searched: dict[str, Searchable] = dict(tables)
    windows = {n: NamedWindowRuntime(w, flow, searched, junctions[n]) for n, w in app.windows.items()}
    searched.update(windows)
    aggregations = _aggregations(app, registry, flow, searched, properties)
    searched.update(aggregations)
    for aggregation in aggregations.values():
        junctions[aggregation.source].subscribe(aggregation.process)
    wiring = Wiring(app, registry, flow, delivery, junctions, tables, windows, aggregations, searched)
    elements = tuple(_element(e, wiring) for e in app.elements)
    triggers = tuple(TriggerRuntime(t, flow, junctions[n]) for n, t in app.triggers.items())
    schemas = {key: stream.schema for key, stream in app.streams.items()}
    schemas |= {name: window.schema for name, window in app.windows.items()}
    return Assembly(
        wiring,
        schemas,
        {e.query.name: e for e in elements if isinstance(e, QueryRuntime)},
        (*stored, *windows.values(), *aggregations.values(), *elements, *triggers),
        flow.store.element("app/clock", {"now": Value}),
    )


def _table(app: App, table: Table, registry: Registry, flow: Flow) -> TableRuntime | StoredTable:
    return TableRuntime(table, flow) if table.storage is None else stored_table(app.name, table, registry, flow)


def _aggregations(
    app: App, registry: Registry, flow: Flow, searched: Mapping[str, Searchable], properties: Mapping[str, str]
) -> dict[str, AggregationRuntime]:
    everywhere = properties.get("partitionById", "false").lower() == "true"
    shared = {name for name, a in app.aggregations.items() if everywhere or partitioned(a)}
    if shared and not properties.get("shardId"):
        reason = "it needs the property shardId, which tells the nodes that share an aggregation apart"
        written = (first(a.annotations, "PartitionById") for a in app.aggregations.values())
        span = next((one.span for one in written if one is not None), NOWHERE)
        raise error("INVALID_ANNOTATION", span, name="PartitionById", reason=reason)
    name = properties.get("aggTimeZone", "GMT")
    try:
        zone = UTC if name in ("GMT", "UTC") else ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError) as problem:
        raise error("INVALID_TIME", text=name, reason="the property aggTimeZone names no time zone") from problem
    return {n: AggregationRuntime(a, flow, searched, registry, zone, n in shared) for n, a in app.aggregations.items()}


def _element(element: Query | Partition, wiring: Wiring) -> QueryRuntime | PartitionRuntime:
    if isinstance(element, Partition):
        return PartitionRuntime(element, wiring)
    runtime = QueryRuntime(element, wiring)
    for subscription in runtime.subscriptions:
        wiring.junctions[subscription.source].subscribe(subscription.receive)
    return runtime


def routes_faults(stream: Stream) -> bool:
    """Whether `@OnError(action='STREAM')` sends what fails to the fault stream."""
    found = next((a for a in stream.annotations if a.name.lower() == "onerror"), None)
    return found is not None and (found.get("action") or "LOG").upper() == "STREAM"
