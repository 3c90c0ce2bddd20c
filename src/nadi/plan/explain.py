"""What will run and why: groups, inputs and keys, buckets, queries, timers, state, and what each sink promises."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nadi.lang.tree import Annotation
from nadi.plan.annotations import found
from nadi.plan.columns.islands import Island, islands
from nadi.plan.connectortraits import AT_LEAST_ONCE, ConnectorDescriptions, SinkTraits, SourceTraits
from nadi.plan.elements import Stateful, fingerprints, of_element, of_query, stateful
from nadi.plan.nodes import App, Call, Partition, Query, Sharding, Stream, Table
from nadi.plan.orderdependence import interleaved
from nadi.plan.render import written
from nadi.plan.sharding import groups, shard
from nadi.plan.streams import input_streams, producers, queries_of
from nadi.plan.walk import inside, read, searched

KEY_GROUPS = 128

_IMPURE = {"UUID"}
_ON_ERROR = {
    "": "stops the app",
    "LOG": "is dropped, with a warning in the log",
    "WAIT": "is tried again until it is taken",
    "STORE": "goes to the error store",
}

_How = tuple[Island, tuple[str, ...]]
"""Where a query runs, and the streams with several data centres on whose order it depends."""

BUCKETS = {
    "single": "one bucket",
    "partition": "as many buckets as there are input partitions",
    "key": f"up to {KEY_GROUPS} buckets",
}


def explanation(app: App, types: ConnectorDescriptions) -> dict[str, Any]:
    """The plan as plain data, for `nadi explain --json`; `types` knows the sources and sinks (`nadi.io.registry`).

    Keys: app, compat, playback, groups (name, buckets, sharding, reasons, keys, inputs, elements), state (element id → what, timed,
    fingerprint), stores (table, type, cache, why), sources (stream, type, map, reading, options, defaults), sinks (stream, type, map, delivery,
    why, refused, options, defaults). Options have no secrets.
    """
    marks = fingerprints(app)
    order = interleaved(app, types)
    where = {name: (island, order.get(name, ())) for name, island in islands(app).queries.items()}
    return {
        "app": app.name,
        "compat": app.compat,
        "playback": app.playback is not None,
        "groups": [_group(app, name, elements, where) for name, elements in groups(app).items()],
        "state": {
            e.id: {"owner": e.owner, "what": e.what, "timed": e.timed, "fingerprint": marks[e.id]}
            for e in stateful(app)
        },
        "stores": [_store(t) for t in app.tables.values() if t.storage is not None],
        "sources": [s for stream in app.streams.values() for s in _sources(app, stream, types)],
        "sinks": [s for stream in app.streams.values() for s in _sinks(app, stream, types)],
    }


def _group(app: App, name: str, elements: tuple[Query | Partition, ...], where: Mapping[str, _How]) -> dict[str, Any]:
    found_sharding = shard(app, elements)
    return {
        "name": name,
        "sharding": found_sharding.kind,
        "buckets": BUCKETS[found_sharding.kind],
        "reasons": list(found_sharding.reasons),
        "keys": {stream: written(key) for stream, key in found_sharding.keys},
        "inputs": [_input(app, key, found_sharding) for key in _inputs(app, elements)],
        "elements": [_element(app, e, where) for e in elements],
    }


# ---- inputs --------------------------------------------------------------------------------------------------------


def _inputs(app: App, elements: tuple[Query | Partition, ...]) -> list[str]:
    """What is fed from outside, and the triggers and fault streams that are read."""
    known = {s for q in queries_of(elements) for s in read(q).values()}
    special = [s for s in app.streams if s in known and (s in app.triggers or s.startswith("!"))]
    return [*input_streams(app, elements), *special]


def _input(app: App, key: str, sharding: Sharding) -> dict[str, Any]:
    sources = [a.get("type") or "?" for a in found(app.streams[key].annotations, "source")]
    split = dict(sharding.keys).get(key)
    if key in app.triggers:
        origin = "trigger"
    elif key.startswith("!"):
        origin = f"events of '{key[1:]}' that failed"
    elif not sources and (feeding := _feeding_groups(app, key)):
        origin = "group " + ", ".join(feeding)
    else:
        origin = ", ".join(sources) or "no source: fed by the host"
    return {"stream": key, "from": origin, "key": written(split) if split is not None else None}


def _feeding_groups(app: App, key: str) -> list[str]:
    """The groups whose queries insert into a stream."""
    return [name or "(default)" for name, elements in groups(app).items() if key in producers(elements)]


# ---- queries -------------------------------------------------------------------------------------------------------


def _element(app: App, element: Query | Partition, where: Mapping[str, _How]) -> dict[str, Any]:
    if isinstance(element, Query):
        return _query(element, tuple(of_query(app, element)), where[element.id])
    kept = {e.id: e for e in of_element(app, element)}
    return {
        "partition": element.id,
        "keys": {k.stream: written(k.value) if hasattr(k, "value") else "ranges" for k in element.keys},
        "queries": [_query(q, tuple(kept[e.id] for e in of_query(app, q)), where[q.id]) for q in element.queries],
    }


def _query(query: Query, kept: tuple[Stateful, ...], how: _How) -> dict[str, Any]:
    island, order = how
    return {
        "query": query.name,
        "id": query.id,
        "reads": list(dict.fromkeys(read(query).values())),
        "writes": getattr(query.output, "target", ""),
        "runs_on": island.runs_on,
        "why": island.why,
        "timers": [e.id for e in kept if e.timed],
        "state": [e.id for e in kept],
        "interleaving": list(order),
        "impure": sorted({c.function for c in inside(query) if isinstance(c, Call) and c.function in _IMPURE}),
    }


# ---- sources -------------------------------------------------------------------------------------------------------


def _sources(app: App, stream: Stream, types: ConnectorDescriptions) -> list[dict[str, Any]]:
    told = []
    for source in found(stream.annotations, "source"):
        kind = source.get("type") or "?"
        reading = _reading(types.source_traits(kind.lower()))
        told.append(
            {"stream": stream.key, "type": kind, "reading": reading, **_said(app, stream, "source", source, types)}
        )
    return told


def _reading(traits: SourceTraits | None) -> str:
    """Why no message of a source is lost, and none counts twice."""
    if traits is None:
        return "nothing is known of it"
    if traits.journal:
        return "exactly once from the journal, which has a message before it is acknowledged"
    return "exactly once: a batch that is repeated reads the same messages of the log"


def _said(app: App, stream: Stream, kind: str, given: Annotation, types: ConnectorDescriptions) -> dict[str, Any]:
    """Mapper and options of a source or sink."""
    said = types.shown(kind, given)
    usual = {name: text.replace("{app}", app.name).replace("{stream}", stream.key) for name, text in said.defaults}
    return {"map": said.mapper, "options": dict(said.options), "defaults": usual}


# ---- sinks ---------------------------------------------------------------------------------------------------------


def _sinks(app: App, stream: Stream, types: ConnectorDescriptions) -> list[dict[str, Any]]:
    unrepeatable = foreign_reads(app).get(stream.key)
    told = []
    for sink in found(stream.annotations, "sink"):
        kind = sink.get("type") or "?"
        traits = types.sink_traits(kind.lower())
        said = _said(app, stream, "sink", sink, types)
        refused = _refused(app, stream, sink, traits)
        told.append({"stream": stream.key, "type": kind, **_delivery(traits), "refused": refused, **said})
    if unrepeatable:
        read_from = " and ".join(f"'{table}'" for table in unrepeatable)
        why = f"its rows depend on reads of {read_from} in a store, which a replay may find changed"
        told = [{**sink, "delivery": AT_LEAST_ONCE.value, "why": why} for sink in told]
    return told


def _delivery(traits: SinkTraits | None) -> dict[str, str]:
    """What a sink promises (`delivery`) and why it is so (`why`); of a type that is not known it can be no more than what every sink does."""
    if traits is None:
        why = "nothing is known of the target that would let it drop a repeated row"
        return {"delivery": AT_LEAST_ONCE.value, "why": why}
    return {"delivery": traits.guarantee.value, "why": traits.why}


def _refused(app: App, stream: Stream, sink: Annotation, traits: SinkTraits | None) -> str:
    """What becomes of what the target of a sink refuses; "" where it refuses nothing."""
    if traits is None or not traits.refuses:
        return ""
    action = (sink.get("on.error") or "").upper()
    fault = f"!{stream.key}"
    if action == "STREAM":
        without = f"goes to the error store: '{stream.key}' has no @OnError(action='STREAM')"
        back = f"comes back as an event of {fault}" if fault in app.streams else without
        return f"{traits.refuses} {back}"
    return f"{traits.refuses} {_ON_ERROR.get(action, _ON_ERROR[''])}"


# ---- stores --------------------------------------------------------------------------------------------------------


def _store(table: Table) -> dict[str, Any]:
    storage = table.storage
    assert storage is not None  # the caller asks for tables that have one
    cache = None if storage.cache is None else f"{storage.cache.policy}, {storage.cache.size} rows"
    retried = "does not write again" if storage.once else "writes again"
    why = f"the rows are not state of the app: reads of them cannot be repeated, and a batch that is retried {retried}"
    return {"table": table.name, "type": storage.type, "cache": cache, "why": why}


def foreign_reads(app: App) -> dict[str, tuple[str, ...]]:
    """The tables in stores that the rows of a stream, window or table depend on, by its key: read by the queries that make them, however far back."""
    stored = {t.name for t in app.tables.values() if t.storage is not None}
    if not stored:
        return {}
    behind: dict[str, set[str]] = {name: {name} for name in stored}
    queries = queries_of(app.elements)
    grew = True
    while grew:
        grew = False
        for query in queries:
            target = getattr(query.output, "target", "")
            given = {*read(query).values(), *searched(query)}
            reached = behind.setdefault(target, set())
            before = len(reached)
            reached.update(*(behind.get(key, ()) for key in given))
            grew = grew or len(reached) > before
            for key in read(query).values():  # what fails in a query goes to the fault stream of what it reads
                behind.setdefault(f"!{key}", set()).update(reached)
        for aggregation in app.aggregations.values():
            behind[aggregation.name] = behind.get(aggregation.input.source, set())
    return {key: tuple(sorted(tables)) for key, tables in behind.items() if tables}


# ---- text ----------------------------------------------------------------------------------------------------------


def explained(app: App, types: ConnectorDescriptions) -> str:
    """The plan as a person reads it: `nadi explain app.siddhi`. `types` as for `explanation`."""
    told = explanation(app, types)
    clock = ", playback clock" if told["playback"] else ""
    lines = [f"app {told['app']} (rules of Siddhi {told['compat']}.x{clock})"]
    for group in told["groups"]:
        lines += _group_lines(group)
    lines += ["", "state"] if told["state"] else ["", "state: none"]
    for element, s in told["state"].items():
        timed = ", woken by timers" if s["timed"] else ""
        lines.append(f"  {element}  {s['what']}{timed}  [{s['fingerprint']}]")
    lines += ["", "stores"] if told["stores"] else []
    for s in told["stores"]:
        cached = f", cache {s['cache']}" if s["cache"] else ""
        lines.append(f"  {s['table']} → {s['type']}{cached}: {s['why']}")
    lines += ["", "sources"] if told["sources"] else []
    for s in told["sources"]:
        lines.append(f"  {s['stream']} ← {s['type']}, map {s['map']}: {s['reading']}")
        lines += _option_lines(s)
    lines += ["", "sinks"] if told["sinks"] else ["", "sinks: none"]
    for s in told["sinks"]:
        lines.append(f"  {s['stream']} → {s['type']}, map {s['map']}: {s['delivery']}: {s['why']}")
        lines += [f"    refused: {s['refused']}"] if s["refused"] else []
        lines += _option_lines(s)
    return "\n".join(lines) + "\n"


def _option_lines(said: dict[str, Any]) -> list[str]:
    """The options of a source or sink, those that are given first."""
    named = [("options", said["options"]), ("by default", said["defaults"])]
    parts = (f"{what}: {', '.join(f'{name} = {value}' for name, value in of.items())}" for what, of in named if of)
    line = "; ".join(parts)
    return [f"    {line}"] if line else []


def _group_lines(group: dict[str, Any]) -> list[str]:
    name = f"group {group['name']}" if group["name"] else "group (default)"
    lines = ["", f"{name}: {group['buckets']}, split by {_SPLIT[group['sharding']]}"]
    lines += [f"  because {reason}" for reason in group["reasons"]]
    for i in group["inputs"]:
        key = f", key {i['key']}" if i["key"] else ""
        lines.append(f"  input {i['stream']} ({i['from']}{key})")
    for element in group["elements"]:
        if "partition" in element:
            keys = ", ".join(f"{key} of {stream}" for stream, key in element["keys"].items())
            lines.append(f"  partition {element['partition']} with ({keys})")
            lines += [f"  {line}" for q in element["queries"] for line in _query_lines(q)]
        else:
            lines += _query_lines(element)
    return lines


_SPLIT = {"single": "nothing", "partition": "input partition", "key": "key"}


def _query_lines(query: dict[str, Any]) -> list[str]:
    lines = [f"  query {query['query']}: {', '.join(query['reads'])} → {query['writes']}"]
    lines.append(f"    runs on {query['runs_on']}: {query['why']}")
    lines.append(f"    state: {', '.join(query['state']) or 'none'}")
    lines.append(f"    timers: {', '.join(query['timers']) or 'none'}")
    if query["interleaving"]:
        streams = " and ".join(query["interleaving"])
        lines.append(
            f"    interleaving: its results depend on the order in which the data centres of {streams} bring their messages"
        )
    if query["impure"]:
        lines.append(f"    pinned: {', '.join(query['impure'])} is a hash of element, order key and call")
    return lines
