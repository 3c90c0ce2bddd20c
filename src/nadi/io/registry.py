"""Which sources, sinks and mappers there are, and how an app's annotations become connectors.

A new one is one file in `io/sources`, `io/sinks` or `io/mappers` and one line in a table here. The file holds a `KIND` (`SourceKind`, `SinkKind`
or `MapperKind`); it is imported when an app first names its type, so that no client library is loaded for nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module

from nadi.errors import Span, did_you_mean, error
from nadi.io.contract import Connector, Ingress, Log, Place, Sink, SinkMapper, SourceMapper
from nadi.io.mappers.columns import with_event_time
from nadi.io.mappers.unreadable import Unreadable
from nadi.io.options import Option, check_options
from nadi.lang.tree import Annotation, Type
from nadi.plan.nodes import App, Stream

SOURCES: dict[str, str] = {
    "file": "nadi.io.sources.file",
    "nats": "nadi.io.sources.nats",
    "kafka": "nadi.io.sources.kafka",
    "http": "nadi.io.sources.http",
    "inmemory": "nadi.io.sources.inmemory",
}

SINKS: dict[str, str] = {
    "file": "nadi.io.sinks.file",
    "log": "nadi.io.sinks.log",
    "nats": "nadi.io.sinks.nats",
    "kafka": "nadi.io.sinks.kafka",
    "http": "nadi.io.sinks.http",
    "inmemory": "nadi.io.sinks.inmemory",
    "rdbms": "nadi.io.sinks.rdbms",
}

MAPPERS: dict[str, str] = {
    "json": "nadi.io.mappers.json",
    "csv": "nadi.io.mappers.csv",
    "text": "nadi.io.mappers.text",
    "passthrough": "nadi.io.mappers.passthrough",
    "arrow": "nadi.io.mappers.arrow",
    "parquet": "nadi.io.mappers.arrow",
}

# Options that every source, every sink has whatever its type.
SOURCE_OPTIONS = (Option("event.time"),)
SINK_OPTIONS = (Option("on.error", choices=("LOG", "WAIT", "STREAM", "STORE")),)


@dataclass(frozen=True, slots=True)
class SourceKind:
    """A type of source: its options beside the common ones, how to open its log, and its ingress where it needs one.

    `identity` names the options that say which log it is: with another value it is another input (`nadi.io.identity`). `begins` says where a new one begins,
    as its options have it. `parted`: its log can be entered anywhere at no cost, so that several hosts may read parts of a long stretch side by side. `local`:
    it needs files that all who read it share. `check` says what is wrong with its options beyond their form, where nothing is open yet.
    """

    options: tuple[Option, ...]
    open: Callable[[Connector, Place], Log]
    ingress: Callable[[Connector, Place], Ingress] | None = None
    identity: tuple[str, ...] = ()
    begins: Callable[[Connector], str] = lambda _source: "with its oldest message"
    parted: bool = False
    local: bool = False
    check: Callable[[Connector, Span], None] = lambda _source, _span: None


@dataclass(frozen=True, slots=True)
class SinkKind:
    """A type of sink: its options beside the common ones, how to open it, and what no two sinks of an app may share ("" for nothing). `local`: it needs files
    that all who write to it share. `check` as of a source."""

    options: tuple[Option, ...]
    open: Callable[[Connector, Place], Sink]
    sole: Callable[[Connector], str] | None = None
    local: bool = False
    check: Callable[[Connector, Span], None] = lambda _sink, _span: None


@dataclass(frozen=True, slots=True)
class MapperKind:
    """A type of mapper in both directions; None where a direction does not exist. Factories check the mapping (paths, templates)."""

    source_options: tuple[Option, ...] = ()
    sink_options: tuple[Option, ...] = ()
    source: Callable[[Connector], SourceMapper] | None = None
    sink: Callable[[Connector], SinkMapper] | None = None


@cache
def _load(path: str) -> object:
    return import_module(path).KIND


def source_kind(name: str) -> SourceKind:
    """The kind of source of this (lower-case) type. Errors: EXTENSION_NOT_FOUND."""
    kind = _load(_path("source", SOURCES, name))
    assert isinstance(kind, SourceKind)
    return kind


def is_parted(name: str) -> bool:
    """Whether hosts may read parts of a log of this type side by side; not where the type is not known here."""
    return name in SOURCES and source_kind(name).parted


def sink_kind(name: str) -> SinkKind:
    """The kind of sink of this (lower-case) type. Errors: EXTENSION_NOT_FOUND."""
    kind = _load(_path("sink", SINKS, name))
    assert isinstance(kind, SinkKind)
    return kind


def mapper_kind(name: str) -> MapperKind:
    """The kind of mapper of this (lower-case) type. Errors: EXTENSION_NOT_FOUND."""
    kind = _load(_path("mapper", MAPPERS, name))
    assert isinstance(kind, MapperKind)
    return kind


def _path(what: str, table: dict[str, str], name: str) -> str:
    if name not in table:
        raise error("EXTENSION_NOT_FOUND", name=name, what=what, hint=did_you_mean(name, table))
    return table[name]


def open_log(connector: Connector, place: Place) -> Log:
    """The log of a source."""
    return source_kind(connector.type).open(connector, place)


def open_sink(connector: Connector, place: Place) -> Sink:
    """The target of a sink."""
    return sink_kind(connector.type).open(connector, place)


def make_ingress(connector: Connector, place: Place) -> Ingress | None:
    """The ingress of a source, not yet started; None where the source is a log by itself."""
    make = source_kind(connector.type).ingress
    return None if make is None else make(connector, place)


def map_type(connector: Connector) -> str:
    """The lower-case type of the connector's @map."""
    return connector.map_type


def make_source_mapper(connector: Connector) -> SourceMapper:
    """The decoder of a source. Errors: EXTENSION_NOT_FOUND, NOT_SUPPORTED, OPTION_…, MAPPING_INVALID."""
    make = mapper_kind(map_type(connector)).source
    if make is None:
        raise error("EXTENSION_NOT_FOUND", name=map_type(connector), what="source mapper", hint="it maps sinks only")
    mapper: SourceMapper = Unreadable(make(connector), connector.schema)
    event_time = connector.options.get("event.time")
    return mapper if event_time is None else with_event_time(mapper, event_time)


def make_sink_mapper(connector: Connector) -> SinkMapper:
    """The encoder of a sink. Errors as for `make_source_mapper`."""
    make = mapper_kind(map_type(connector)).sink
    if make is None:
        raise error("EXTENSION_NOT_FOUND", name=map_type(connector), what="sink mapper", hint="it maps sources only")
    return make(connector)


def connectors(app: App, kind: str) -> tuple[Connector, ...]:
    """All connectors of an app of one kind ("source" or "sink"), checked: types, options, mappings.

    They are numbered in the order of the streams, then of the annotations. Errors: EXTENSION_NOT_FOUND, OPTION_UNKNOWN, OPTION_MISSING,
    OPTION_INVALID, MAPPING_INVALID, NOT_SUPPORTED.
    """
    pairs = [(s, a) for s in app.streams.values() if s.defined for a in s.annotations if a.name.lower() == kind]
    found = tuple(_connector(stream, annotation, kind, i) for i, (stream, annotation) in enumerate(pairs))
    if kind == "sink":
        _check_targets(found)
    return found


def _check_targets(sinks: tuple[Connector, ...]) -> None:
    taken: dict[str, str] = {}
    for sink in sinks:
        sole = sink_kind(sink.type).sole
        target = sole(sink) if sole is not None else ""
        if target and target in taken:
            where = f"@sink of {sink.stream} ({sink.type})"
            wanted = f"a target of its own: the sink of {taken[target]} writes there"
            raise error("OPTION_INVALID", sink.map.span, where=where, name="target", value=target, wanted=wanted)
        taken[target] = sink.stream


def _connector(stream: Stream, annotation: Annotation, kind: str, ordinal: int) -> Connector:
    name = annotation.get("type")
    where = f"@{kind} of {stream.key}"
    if annotation.get("ref") is not None:
        raise error(
            "NOT_SUPPORTED",
            annotation.span,
            what=f"ref in {where}",
            alternative="name it in siddhi.refs of a deployment.yaml, or write the options in the app",
        )
    if name is None:
        raise error("OPTION_MISSING", annotation.span, where=where, name="type")
    if annotation.all("distribution"):
        raise error(
            "NOT_SUPPORTED", annotation.span, what=f"@distribution in {where}", alternative="write one @sink per target"
        )
    options = {e.key.lower(): e.value for e in annotation.elements if e.key.lower() != "type"}
    maps = annotation.all("map")
    chosen = maps[0] if maps else Annotation("map")
    connector = Connector(stream.key, stream.schema, name.lower(), options, chosen, ordinal)
    _check(connector, kind, f"{where} ({name})", annotation)
    return connector


def _check(connector: Connector, kind: str, where: str, annotation: Annotation) -> None:
    made = source_kind(connector.type) if kind == "source" else sink_kind(connector.type)
    common = SOURCE_OPTIONS if kind == "source" else SINK_OPTIONS
    check_options(where, connector.options, made.options + common, annotation.span)
    made.check(connector, annotation.span)
    mapper = mapper_kind(map_type(connector))
    given = {e.key.lower(): e.value for e in connector.map.elements if e.key.lower() != "type"}
    options = mapper.source_options if kind == "source" else mapper.sink_options
    check_options(f"@map of {where}", given, options, connector.map.span)
    if kind == "source":
        _check_event_time(connector, where, annotation)
        make_source_mapper(connector)
    else:
        make_sink_mapper(connector)


def _check_event_time(connector: Connector, where: str, annotation: Annotation) -> None:
    name = connector.options.get("event.time")
    column = next((c for c in connector.schema.columns if c.name == name), None)
    if name is not None and (column is None or column.type is not Type.LONG):
        wanted = "the name of a long attribute of the stream (ms)"
        raise error("OPTION_INVALID", annotation.span, where=where, name="event.time", value=name, wanted=wanted)
