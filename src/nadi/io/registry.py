"""Which sources, sinks and mappers there are, and how an app's annotations become connectors.

The code of a new one is one file in `io/sources`, `io/sinks` or `io/mappers` and one line in a table here. The file holds a `KIND` (`SourceKind`, `SinkKind`
or `MapperKind`); it is imported when an app first names its type, so that no client library is loaded for nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from pathlib import Path

from nadi.errors import NOWHERE, NadiError, Span, did_you_mean, error, placed
from nadi.errors.redaction import redacted
from nadi.io.contract import Address, Connector, Ingress, Log, Place, ReadBack, Sink, SinkMapper, SourceMapper
from nadi.io.loops import Loops
from nadi.io.mappers.columns import with_event_time
from nadi.io.mappers.unreadable import Unreadable
from nadi.io.reach import Reach, Reached
from nadi.io.turn import TurnCentre
from nadi.lang.tree import Annotation, Type
from nadi.plan.connectortraits import Shown, SinkTraits, SourceTraits
from nadi.plan.nodes import App, Stream
from nadi.plan.options import Option, wrong_options

SOURCES: dict[str, str] = {
    "file": "nadi.io.sources.file",
    "nats": "nadi.io.sources.nats",
    "kafka": "nadi.io.sources.kafka",
    "kafkamultidc": "nadi.io.sources.kafkamultidc",
    "natsmultidc": "nadi.io.sources.natsmultidc",
    "http": "nadi.io.sources.http",
    "mqtt": "nadi.io.sources.mqtt",
    "inmemory": "nadi.io.sources.inmemory",
    "channel": "nadi.channels.source",
}

SINKS: dict[str, str] = {
    "file": "nadi.io.sinks.file",
    "log": "nadi.io.sinks.log",
    "nats": "nadi.io.sinks.nats",
    "kafka": "nadi.io.sinks.kafka",
    "kafkamultidc": "nadi.io.sinks.kafkamultidc",
    "natsmultidc": "nadi.io.sinks.natsmultidc",
    "http": "nadi.io.sinks.http",
    "mqtt": "nadi.io.sinks.mqtt",
    "inmemory": "nadi.io.sinks.inmemory",
    "rdbms": "nadi.io.sinks.rdbms",
    "channel": "nadi.channels.sink",
}

MAPPERS: dict[str, str] = {
    "json": "nadi.io.mappers.json",
    "csv": "nadi.io.mappers.csv",
    "text": "nadi.io.mappers.text",
    "xml": "nadi.io.mappers.xml",
    "passthrough": "nadi.io.mappers.passthrough",
    "arrow": "nadi.io.mappers.arrow",
    "parquet": "nadi.io.mappers.arrow",
}

SHOWN = 80  # characters of an option's value that `shown` has

_UNKNOWN = ("EXTENSION_NOT_FOUND", "CLIENT_MISSING")
"""What is said of a type that cannot be had: then nothing else can be said of it."""

Before = Sequence[tuple[Connector, Place]]
"""Sources of instances before, each with where it kept things."""

Check = Callable[[Connector, Span], None]
"""Says one thing that is wrong with well-formed options, where nothing is open yet. Errors: NadiError."""

# Options that every source, every sink has whatever its type.
SOURCE_OPTIONS = (Option("event.time", doc="the `long` attribute that is the event's own timestamp, in ms"),)
SINK_OPTIONS = (
    Option(
        "on.error",
        choices=("LOG", "WAIT", "STREAM", "STORE"),
        doc=(
            "what becomes of a message that the target [refuses](faults.md#a-target-refuses): `LOG`, "
            "`WAIT`, `STORE` or `STREAM`. Without it, the app stops. nadi always tries a target that is "
            "away again, whatever this option says"
        ),
    ),
)


@dataclass(frozen=True, slots=True)
class SourceKind:
    """A type of source: its options beside the common ones, how to open its log, and its ingress where it needs one.

    `identity` names the options that say which log it is: with another value it is another input (`nadi.io.identity`). `begins` says where a new one begins,
    as its options have it. `checks` say what is wrong with its options beyond their form, each for itself. `mapper` is what makes events of its
    messages where these are never mapped (None: its @map says it). `address` is where it listens, if it does. `take_over` has it keep what sources of the same
    log have noted for it in the instances of an app before (`nadi.pipeline.revision.inheritance`). `reaches` are the files, folders and databases that its
    options name: the node's operator says which ones it may (`nadi.io.reach`). `reads` looks into certificates and keys among them before it
    opens. `traits`: what else is asked of it. `loops`: those that it reads messages in.
    """

    options: tuple[Option, ...]
    open: Callable[[Connector, Place], Log]
    ingress: Callable[[Connector, Place], Ingress] | None = None
    identity: tuple[str, ...] = ()
    begins: Callable[[Connector], str] = lambda _source: "with its oldest message"
    checks: tuple[Check, ...] = ()
    mapper: Callable[[Connector], SourceMapper] | None = None
    address: Callable[[Connector, Place], Address] | None = None
    take_over: Callable[[Connector, Place, Before], None] = lambda _source, _place, _before: None
    reaches: Callable[[Connector], Iterable[Reached]] = lambda _source: ()
    reads: Callable[[Connector], object] = lambda _source: None
    traits: SourceTraits = field(kw_only=True)
    loops: tuple[Loops, ...] = field(kw_only=True)

    def check(self, connector: Connector, span: Span) -> None:
        """Errors: the first that one of the `checks` has."""
        for one in self.checks:
            one(connector, span)


@dataclass(frozen=True, slots=True)
class SinkKind:
    """A type of sink: its options beside the common ones, how to open it, and what no two sinks of an app may share (None for nothing). `checks`, `mapper`,
    `reaches`, `reads`, `traits` and `loops` as of a source. `turns` are the brokers of a sink that publishes only while it is its cluster's turn. `ask` asks
    the target whether it would take rows, and changes nothing there: its errors are those of `Sink.write`. `read_back` compares what was written with a replay,
    None where that cannot be read again."""

    options: tuple[Option, ...]
    open: Callable[[Connector, Place], Sink]
    sole: Callable[[Connector], str] | None = None
    checks: tuple[Check, ...] = ()
    mapper: Callable[[Connector], SinkMapper] | None = None
    turns: Callable[[Connector], Sequence[TurnCentre]] = lambda _sink: ()
    ask: Callable[[Connector], None] = lambda _sink: None
    read_back: Callable[[Connector, Place], ReadBack] | None = None
    reaches: Callable[[Connector], Iterable[Reached]] = lambda _sink: ()
    reads: Callable[[Connector], object] = lambda _sink: None
    traits: SinkTraits = field(kw_only=True)
    loops: tuple[Loops, ...] = field(kw_only=True)

    def check(self, connector: Connector, span: Span) -> None:
        """Errors: the first that one of the `checks` has."""
        for one in self.checks:
            one(connector, span)


@dataclass(frozen=True, slots=True)
class MapperKind:
    """A type of mapper in both directions; None where a direction does not exist. Factories check the mapping (paths, templates).

    `content_type` is the media type of its messages. `loops`: those that it reads and writes them in.
    """

    source_options: tuple[Option, ...] = ()
    sink_options: tuple[Option, ...] = ()
    source: Callable[[Connector], SourceMapper] | None = None
    sink: Callable[[Connector], SinkMapper] | None = None
    content_type: str = field(kw_only=True)
    loops: tuple[Loops, ...] = field(kw_only=True)


@cache
def _load(path: str) -> object:
    return import_module(path).KIND


def _kind(what: str, table: dict[str, str], name: str) -> object:
    """What the table has for a name; that it has something is known without importing it."""
    if name not in table:
        raise error("EXTENSION_NOT_FOUND", name=name, what=what, hint=did_you_mean(name, table))
    try:
        return _load(table[name])
    except ModuleNotFoundError as reason:
        missing = reason.name or ""
        if missing.partition(".")[0] in ("", "nadi"):
            raise  # a defect of ours
        raise error("CLIENT_MISSING", what=what, name=name, module=missing) from reason


def source_kind(name: str) -> SourceKind:
    """The kind of source of this (lower-case) type. Errors: EXTENSION_NOT_FOUND, CLIENT_MISSING."""
    kind = _kind("source", SOURCES, name)
    assert isinstance(kind, SourceKind)
    return kind


def sink_kind(name: str) -> SinkKind:
    """The kind of sink of this (lower-case) type. Errors: EXTENSION_NOT_FOUND, CLIENT_MISSING."""
    kind = _kind("sink", SINKS, name)
    assert isinstance(kind, SinkKind)
    return kind


def _known(kind: str, name: str) -> SourceKind | SinkKind | None:
    """The kind of "source" or "sink" of a (lower-case) type; None where the type is not known here. Errors: CLIENT_MISSING."""
    if kind == "source":
        return source_kind(name) if name in SOURCES else None
    return sink_kind(name) if name in SINKS else None


def source_traits(name: str) -> SourceTraits | None:
    """What is asked of a (lower-case) type of source; None where the type is not known here. Errors: CLIENT_MISSING."""
    return source_kind(name).traits if name in SOURCES else None


def sink_traits(name: str) -> SinkTraits | None:
    """What is asked of a (lower-case) type of sink; None where the type is not known here. Errors: CLIENT_MISSING."""
    return sink_kind(name).traits if name in SINKS else None


def shown(kind: str, connector: Annotation) -> Shown:
    """What an @source or @sink says, for people; of a type that is not known here, which options it has. Errors: CLIENT_MISSING."""
    name, maps = (connector.get("type") or "").lower(), connector.all("map")
    known: tuple[Option, ...] = SOURCE_OPTIONS if kind == "source" else SINK_OPTIONS
    if (found := _known(kind, name)) is not None:
        known += found.options
    given = {e.key.lower(): e.value for e in connector.elements if e.key.lower() != "type"}
    usual = ((o.name, o.default) for o in known if o.default and o.name not in given and o.other not in given)
    mapper = (maps[0].get("type") if maps else None) or "passThrough"
    return Shown(
        mapper, tuple((option, _public(option, value, known)) for option, value in given.items()), tuple(usual)
    )


def _public(name: str, value: str, known: Sequence[Option]) -> str:
    option = next((o for o in known if o.matches(name)), None)
    if option is None or option.secret:  # of what is not known, nobody knows whether it is a secret
        return "***"
    text = redacted(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def mapper_kind(name: str) -> MapperKind:
    """The kind of mapper of this (lower-case) type. Errors: EXTENSION_NOT_FOUND, CLIENT_MISSING."""
    kind = _kind("mapper", MAPPERS, name)
    assert isinstance(kind, MapperKind)
    return kind


def open_log(connector: Connector, place: Place) -> Log:
    """The log of a source."""
    kind = source_kind(connector.type)
    _check_reached(connector, "source", kind.reaches(connector), place.reach)
    return kind.open(connector, place)


def open_sink(connector: Connector, place: Place) -> Sink:
    """The target of a sink."""
    kind = sink_kind(connector.type)
    _check_reached(connector, "sink", kind.reaches(connector), place.reach)
    return kind.open(connector, place)


def check_reach(connector: Connector, kind: str, reach: Reach) -> None:
    """Whether a connector of one kind ("source" or "sink") names nothing outside that it may not reach; types that are not known here name nothing.

    Where the operator's folder of certificates and keys is on this machine, those that it names are looked into. Errors: PATH_NOT_ALLOWED, FILE_NOT_ALLOWED,
    DATABASE_NOT_ALLOWED, HOST_NOT_ALLOWED, CERTIFICATE_UNUSABLE, KEY_STORE_OF_JAVA, with their places in the text.
    """
    if (found := _known(kind, connector.type)) is None:
        return
    _check_reached(connector, kind, found.reaches(connector), reach)
    if reach.files and os.path.isdir(reach.files):
        found.reads(connector)


def _check_reached(connector: Connector, kind: str, reached: Iterable[Reached], reach: Reach) -> None:
    for one in reached:
        try:
            reach.check(f"@{kind} of {connector.stream} ({connector.type})", one)
        except NadiError as refusal:
            raise placed(refusal, connector.place(one.option)) from None


def ask_sink(connector: Connector) -> None:
    """Ask the target of a sink whether it would take rows, where its type can do that without changing anything there. Errors: those of `Sink.write`."""
    sink_kind(connector.type).ask(connector)


def make_ingress(connector: Connector, place: Place) -> Ingress | None:
    """The ingress of a source, not yet started; None where the source is a log by itself."""
    kind = source_kind(connector.type)
    if kind.ingress is None:
        return None
    _check_reached(connector, "source", kind.reaches(connector), place.reach)
    return kind.ingress(connector, place)


def map_type(connector: Connector) -> str:
    """The lower-case type of the connector's @map."""
    return connector.map_type


def make_source_mapper(connector: Connector) -> SourceMapper:
    """The decoder of a source. Errors: EXTENSION_NOT_FOUND, NOT_SUPPORTED, OPTION_…, MAPPING_INVALID."""
    make = source_kind(connector.type).mapper or mapper_kind(map_type(connector)).source
    if make is None:
        raise error("EXTENSION_NOT_FOUND", name=map_type(connector), what="source mapper", hint="it maps sinks only")
    mapper: SourceMapper = Unreadable(make(connector), connector.schema)
    event_time = connector.options.get("event.time")
    return mapper if event_time is None else with_event_time(mapper, event_time)


def make_sink_mapper(connector: Connector) -> SinkMapper:
    """The encoder of a sink. Errors as for `make_source_mapper`."""
    make = sink_kind(connector.type).mapper or mapper_kind(map_type(connector)).sink
    if make is None:
        raise error("EXTENSION_NOT_FOUND", name=map_type(connector), what="sink mapper", hint="it maps sources only")
    return make(connector)


def connectors(app: App, kind: str) -> tuple[Connector, ...]:
    """All connectors of an app of one kind ("source" or "sink"), checked: types, options, mappings.

    They are numbered in the order of the streams, then of the annotations. Errors: EXTENSION_NOT_FOUND, CLIENT_MISSING, OPTION_UNKNOWN,
    OPTION_MISSING, OPTION_INVALID, MAPPING_INVALID, NOT_SUPPORTED, and what else a type says of its options: the first of `examined`.
    """
    found, wrong = examined(app, kind)
    if wrong:
        raise wrong[0]
    return found


def examined(app: App, kind: str) -> tuple[tuple[Connector, ...], tuple[NadiError, ...]]:
    """The connectors of an app of one kind that are right, and everything that is wrong with the others, each with its place in the text. Opens nothing and
    asks nobody."""
    pairs = [(s, a) for s in app.streams.values() if s.defined for a in s.annotations if a.name.lower() == kind]
    findings = _Findings()
    found = []
    for ordinal, (stream, annotation) in enumerate(pairs):
        findings.since = len(findings.wrong)
        connector = _connector(stream, annotation, kind, ordinal, findings)
        if connector is not None and len(findings.wrong) == findings.since:
            found.append((annotation, connector))
    _check_targets(found, findings) if kind == "sink" else _check_listeners(found, findings)
    return tuple(connector for _annotation, connector in found), tuple(findings.wrong)


@dataclass(slots=True)
class _Findings:
    """What is wrong with the connectors of an app; `since`: where that of the one at hand begins. `others`: by an option of its type another name of it."""

    wrong: list[NadiError] = field(default_factory=list)
    since: int = 0
    others: dict[str, str] = field(default_factory=dict)

    @contextmanager
    def about(self, *annotations: Annotation, key: str = "") -> Iterator[None]:
        """Note what goes wrong inside, at its place in the annotations."""
        try:
            yield
        except NadiError as problem:
            self.note(problem, *annotations, key=key)

    def note(self, problem: NadiError, *annotations: Annotation, key: str = "") -> None:
        """What is wrong with one option (the `key`, else the one that the error names) is so where that stands, all else, and what is missing, with the first
        annotation that is in the text. An error that knows a part of an annotation keeps that place."""
        written = [a for a in annotations if a.span != NOWHERE]
        wholes = [NOWHERE, *(a.span for a in written)]
        if problem.diagnostic.span not in wholes:
            self._add(problem)
            return
        missing = problem.condition == "OPTION_MISSING"
        name = key or ("" if missing else str(problem.parameters.get("name", "")))
        names = [one for one in (name, self.others.get(name, "")) if one]
        options = [span for one in names for a in written if (span := a.place(one)) != a.span]
        self._add(placed(problem, next(iter([*options, *wholes[1:]]), NOWHERE)))

    def _add(self, problem: NadiError) -> None:
        """What is wrong with an option is said once, by the first check that looks at it."""
        if all(_about(problem) != _about(other) for other in self.wrong[self.since :]):
            self.wrong.append(problem)


def _about(problem: NadiError) -> tuple[object, ...]:
    """What an error of a connector is about."""
    found = problem.diagnostic
    return found.condition, found.span, problem.parameters.get("name", found.message)


def _check_listeners(sources: Sequence[tuple[Annotation, Connector]], findings: _Findings) -> None:
    """Two sources cannot listen at one place. A port that the system chooses is none yet."""
    taken: dict[tuple[str, int, str], str] = {}
    secured: dict[tuple[str, int], bool] = {}
    for annotation, source in sources:
        findings.since = len(findings.wrong)
        of = source_kind(source.type)
        if of.address is None or of.traits.listens is None:
            continue
        at = of.address(source, Place("", Path()))
        place, port, option = (at.host, at.port, at.path), (at.host, at.port), of.traits.listens.option
        wanted = ""
        if at.port and place in taken:
            wanted = f"an address of its own: the source of {taken[place]} listens there"
        elif at.port and secured.get(port, at.secure) != at.secure:
            wanted = "http or https, as the other source on this port"
        if wanted:
            where = f"@source of {source.stream} ({source.type})"
            value = source.options.get(option, of.traits.listens.at("<app>", source.stream))
            findings.note(error("OPTION_INVALID", where=where, name=option, value=value, wanted=wanted), annotation)
        taken.setdefault(place, source.stream)
        secured.setdefault(port, at.secure)


def _check_targets(sinks: Sequence[tuple[Annotation, Connector]], findings: _Findings) -> None:
    taken: dict[str, str] = {}
    for annotation, sink in sinks:
        findings.since = len(findings.wrong)
        sole = sink_kind(sink.type).sole
        target = ""
        with findings.about(annotation):
            target = sole(sink) if sole is not None else ""
        if target and target in taken:
            where = f"@sink of {sink.stream} ({sink.type})"
            wanted = f"a target of its own: the sink of {taken[target]} writes there"
            findings.note(error("OPTION_INVALID", where=where, name="target", value=target, wanted=wanted), annotation)
        taken[target] = sink.stream


def _connector(
    stream: Stream, annotation: Annotation, kind: str, ordinal: int, findings: _Findings
) -> Connector | None:
    """The connector of an annotation, None where it does not say what it is; what is wrong with it is among the findings."""
    name = annotation.get("type")
    where = f"@{kind} of {stream.key}"
    if annotation.get("ref") is not None:
        alternative = "name it in siddhi.refs of a deployment.yaml, or write the options in the app"
        problem = error("NOT_SUPPORTED", what=f"ref in {where}", alternative=alternative)
        findings.note(problem, annotation, key="ref")
        return None
    if name is None:
        findings.note(error("OPTION_MISSING", where=where, name="type"), annotation)
        return None
    for nested in annotation.all("distribution"):
        what = f"@distribution in {where}"
        findings.note(error("NOT_SUPPORTED", what=what, alternative="write one @sink per target"), nested, annotation)
    options = {e.key.lower(): e.value for e in annotation.elements if e.key.lower() != "type"}
    maps = annotation.all("map")
    chosen = maps[0] if maps else Annotation("map")
    places = {e.key.lower(): e.span for e in annotation.elements}
    connector = Connector(stream.key, stream.schema, name.lower(), options, chosen, ordinal, places)
    right = _right_options(connector, kind, f"{where} ({name})", annotation, findings)
    known = not any(problem.condition in _UNKNOWN for problem in findings.wrong[findings.since :])
    if _right_map(connector, kind, f"@map of {where} ({name})", annotation, findings) and known:
        mapped = connector if right else replace(connector, options={})
        with findings.about(chosen, annotation):
            make_source_mapper(mapped) if kind == "source" else make_sink_mapper(mapped)
    return connector


def _right_options(connector: Connector, kind: str, where: str, annotation: Annotation, findings: _Findings) -> bool:
    """Whether the type of a connector exists and takes its options."""
    before = len(findings.wrong)
    with findings.about(annotation, key="type"):
        made = source_kind(connector.type) if kind == "source" else sink_kind(connector.type)
        common = SOURCE_OPTIONS if kind == "source" else SINK_OPTIONS
        findings.others = {option.name: option.other for option in made.options}
        for problem in wrong_options(where, connector.options, made.options + common, annotation.span):
            findings.note(problem, annotation)
        checks = (*made.checks, _check_event_time) if kind == "source" else made.checks
        for check in checks if len(findings.wrong) == before else ():
            with findings.about(annotation):
                check(connector, annotation.span)
    return len(findings.wrong) == before


def _right_map(connector: Connector, kind: str, where: str, annotation: Annotation, findings: _Findings) -> bool:
    """Whether the type of a connector's mapper exists and takes its options."""
    before = len(findings.wrong)
    given = {e.key.lower(): e.value for e in connector.map.elements if e.key.lower() != "type"}
    with findings.about(connector.map, annotation, key="type"):
        mapper = mapper_kind(map_type(connector))
        options = mapper.source_options if kind == "source" else mapper.sink_options
        for problem in wrong_options(where, given, options, connector.map.span):
            findings.note(problem, connector.map, annotation)
    return len(findings.wrong) == before


def _check_event_time(source: Connector, _span: Span) -> None:
    name = source.options.get("event.time")
    column = next((c for c in source.schema.columns if c.name == name), None)
    if name is not None and (column is None or column.type is not Type.LONG):
        where, wanted = f"@source of {source.stream} ({source.type})", "the name of a long attribute of the stream (ms)"
        raise error("OPTION_INVALID", where=where, name="event.time", value=name, wanted=wanted)
