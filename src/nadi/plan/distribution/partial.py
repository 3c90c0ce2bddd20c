"""Partial apps: the syntax tree of what an instance of a group runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from nadi.lang import print_app, tree
from nadi.lang.tree import Annotation, Element
from nadi.plan.annotations import element, first
from nadi.plan.connectortraits import ConnectorCatalog
from nadi.plan.distribution.connectors import addressed, channel_sink, shared, sources_of
from nadi.plan.distribution.dist import without_dist
from nadi.plan.distribution.drafts import Draft
from nadi.plan.distribution.flows import STRAIGHT, Flow
from nadi.plan.distribution.interfaces import Interface
from nadi.plan.distribution.model import Input, instance_name
from nadi.plan.distribution.names import free, identifier
from nadi.plan.distribution.parts import Part
from nadi.plan.distribution.streamnames import mapped, named, renamed_inputs, renamed_source
from nadi.plan.nodes import App

_OF_THE_WHOLE = ("app:name", "app:spark", "app:transportchannelcreationenabled")
"""Annotations of the app that are for whoever cuts it."""


@dataclass(frozen=True, slots=True)
class Template:
    """Everything that the texts of a group are made of. `wide` has the instances of every group, by its name; `buckets` is how many each of this one has (0:
    its node decides); `entry` is the stream of a receiver's source."""

    app: tree.SiddhiApp
    types: ConnectorCatalog
    plan: App
    draft: Draft
    interface: Interface
    flows: Mapping[str, Flow]
    wide: Mapping[str, int]
    reads: frozenset[str]
    writes: frozenset[str]
    entry: str = ""
    servers: str = ""
    buckets: int = 0

    def text(self, number: int) -> str:
        """The text of an instance, `number` from 1."""
        definitions = tuple(d for d in _definitions(self, number) if d is not None)
        elements = tuple(_elements(self))
        name = instance_name(self.draft.name, number)
        return print_app(tree.SiddhiApp(_annotations(self.app, name, self.buckets), definitions, elements))


def template(
    app: tree.SiddhiApp,
    types: ConnectorCatalog,
    plan: App,
    draft: Draft,
    made: Interface,
    flows: Mapping[str, Flow],
    wide: Mapping[str, int],
    servers: str,
    buckets: int,
) -> Template:
    """What the texts of a group are made of; a receiver group gets the name of the stream on which its source stands."""
    taken = {*plan.streams, *plan.tables, *plan.windows, *plan.aggregations}
    entry = free(f"passthrough{draft.receives}", taken) if draft.receives else ""
    reads, writes = draft.reads(plan), draft.writes(plan)
    return Template(app, types, plan, draft, made, flows, wide, reads, writes, entry, servers, buckets)


def _annotations(app: tree.SiddhiApp, name: str, buckets: int) -> tuple[Annotation, ...]:
    kept = (a for a in app.annotations if a.name.lower() not in _OF_THE_WHOLE)
    return (Annotation("app:name", (Element("", name),)), *_on_spark(app, buckets), *without_dist(tuple(kept)))


def _on_spark(app: tree.SiddhiApp, buckets: int) -> tuple[Annotation, ...]:
    """How many buckets an instance has; several are a query of their own, unless the app says otherwise: one of a pool is not divided among executors."""
    given = first(app.annotations, "app:spark")
    pool = None if given is None else element(given, "pool")
    elements = () if pool is None else (pool,)
    if buckets:
        pinned = () if pool is not None or buckets == 1 else (Element("pool", "own"),)
        elements = (*elements, *pinned, Element("buckets", str(buckets)))
    return (Annotation("app:spark", elements),) if elements else ()


# ---- elements ------------------------------------------------------------------------------------------------------


def _elements(t: Template) -> Iterator[tree.ExecutionElement]:
    if t.entry:
        yield _forward(t.entry, t.draft.receives)
    for stream, name in sorted(t.interface.joined.items()):
        yield _forward(stream, name)
    for part in t.draft.parts:
        yield _element(t, part)


def _element(t: Template, part: Part) -> tree.ExecutionElement:
    """An element that keeps its ids, and with them its state, whatever stands beside it."""
    names = {stream: name for (at, stream), name in t.interface.readers.items() if at == part.id}
    node = renamed_inputs(part.node, names)
    node = replace(node, annotations=named(without_dist(node.annotations), part.id))
    if isinstance(node, tree.Partition):
        queries = (replace(q, annotations=named(q.annotations, i)) for q, i in zip(node.queries, part.ids[1:]))
        node = replace(node, queries=tuple(queries))
    return node


def _forward(source: str, target: str) -> tree.Query:
    return tree.Query(
        tree.SingleInput(tree.Source(source)),
        tree.Selection(star=True),
        tree.InsertInto(tree.Source(target)),
        annotations=named((), f"{source}-to-{target}"),
    )


# ---- definitions ---------------------------------------------------------------------------------------------------


def _definitions(t: Template, number: int) -> Iterator[tree.Definition | None]:
    """Those of the text that the group needs, in their order, then those of streams that only queries define."""
    defined: set[str] = set()
    for definition in t.app.definitions:
        match definition:
            case tree.StreamDefinition(source, attributes):
                if source.name not in defined:
                    yield from _stream(t, number, source.name, attributes)
                defined.add(source.name)
            case tree.TriggerDefinition(name):
                yield from _trigger(t, number, definition, defined)
                defined.add(name)
            case tree.AggregationDefinition(name):
                yield from _aggregation(t, definition)
            case tree.FunctionDefinition(name):
                yield definition if name in _called(t) else None
            case tree.TableDefinition(source) | tree.WindowDefinition(source):
                yield definition if t.draft.touches(source.name) else None
    undefined = {s for s in t.reads | t.writes if s not in defined and not s.startswith("!")}
    for stream in sorted(undefined):
        if t.plan.streams[stream].partition is None:
            sources, sinks = _sources(t, number, stream), _sinks(t, stream)
            if sources or sinks or stream == t.draft.receives or _extra(t, stream):
                yield from _stream(t, number, stream, _attributes(t.plan, stream))


def _stream(
    t: Template, number: int, stream: str, attributes: tuple[tree.Attribute, ...]
) -> Iterator[tree.StreamDefinition]:
    """The definition of a stream with the sources and sinks that it has in this group, and those of what stands for it."""
    if not _used(t, stream):
        return
    other = _unconnected(t.plan.streams[stream].annotations)
    if stream == t.draft.receives:
        entry = (*other, *_received(t, number))
        yield tree.StreamDefinition(tree.Source(t.entry), attributes, entry)
    connected = (*_sources(t, number, stream), *_sinks(t, stream))
    yield tree.StreamDefinition(tree.Source(stream), attributes, (*connected, *other))
    yield from _read_beside(t, number, stream, attributes, other)


def _read_beside(
    t: Template, number: int, stream: str, attributes: tuple[tree.Attribute, ...], other: tuple[Annotation, ...]
) -> Iterator[tree.StreamDefinition]:
    """The streams that bring a stream under another name."""
    for given in _extra(t, stream):
        yield tree.StreamDefinition(
            tree.Source(given.read_as), attributes, (*_channel_sources(t, number, given), *other)
        )


def _unconnected(annotations: tuple[Annotation, ...]) -> tuple[Annotation, ...]:
    return tuple(a for a in annotations if a.name.lower() not in ("source", "sink"))


def _used(t: Template, stream: str) -> bool:
    return stream in t.reads or stream in t.writes or f"!{stream}" in t.reads


def _extra(t: Template, stream: str) -> list[Input]:
    """The inputs that come under another name than the stream's."""
    return [i for i in t.interface.inputs if i.name == stream and i.channel is not None and i.read_as != stream]


def _received(t: Template, number: int) -> tuple[Annotation, ...]:
    source = t.draft.source
    if source is None:
        inputs = (i for i in t.interface.inputs if i.name == t.draft.receives)
        return tuple(s for i in inputs for s in _channel_sources(t, number, i))
    (mine,) = without_dist((source,))
    return (
        addressed(shared(mine, t.draft.divided, t.wide[t.draft.name], number), t.types, t.plan.name, t.draft.receives),
    )


def _sources(t: Template, number: int, stream: str) -> tuple[Annotation, ...]:
    inputs = [i for i in t.interface.inputs if i.name == stream and i.read_as == stream and stream != t.draft.receives]
    given = t.plan.streams[stream].annotations if any(i.user_given for i in inputs) else ()
    own = tuple(addressed(a, t.types, t.plan.name, stream) for a in without_dist(given) if a.name.lower() == "source")
    return (*own, *(s for i in inputs if i.channel is not None for s in _channel_sources(t, number, i)))


def _channel_sources(t: Template, number: int, given: Input) -> tuple[Annotation, ...]:
    producers = tuple(instance_name(p, i) for p in given.producers for i in range(1, t.wide[p] + 1))
    return sources_of(given, t.draft.name, t.wide[t.draft.name], number, producers, t.servers)


def _sinks(t: Template, stream: str) -> tuple[Annotation, ...]:
    """The app's own where the group makes the events or they come straight into it, and those of channels."""
    flow = t.flows.get(stream)
    straight = flow is not None and flow.origin in STRAIGHT and stream in t.reads
    given = t.plan.streams[stream].annotations if straight or stream in t.writes else ()
    own = tuple(a for a in without_dist(given) if a.name.lower() == "sink")
    channels = (c for o in t.interface.outputs if o.name == stream for c in o.channels)
    return (*own, *(channel_sink(c, t.draft.name, t.servers) for c in channels))


def _trigger(
    t: Template, number: int, definition: tree.TriggerDefinition, defined: set[str]
) -> Iterator[tree.Definition]:
    """The trigger where it fires; elsewhere the stream that brings it."""
    name = definition.name
    if name not in t.draft.hosts:
        if name not in defined:
            yield from _stream(t, number, name, _attributes(t.plan, name))
        return
    other = _unconnected(definition.annotations)
    connected = () if name in defined else (*_sources(t, number, name), *_sinks(t, name))
    yield replace(definition, annotations=(*connected, *other))
    if name not in defined:
        yield from _read_beside(t, number, name, _attributes(t.plan, name), other)


def _aggregation(t: Template, definition: tree.AggregationDefinition) -> Iterator[tree.Definition]:
    """The aggregation where it is fed; where it is joined only, over a stream that nobody feeds: its rows are in its store."""
    name, source = definition.name, definition.input.source.name
    definition = replace(definition, annotations=without_dist(definition.annotations))
    if name in t.draft.fed:
        read_as = next((i.read_as for i in t.interface.inputs if i.name == source and i.read_as), source)
        yield definition if read_as == source else replace(definition, input=renamed_source(definition.input, read_as))
    elif t.draft.touches(name):
        unfed = f"{source}_{identifier(t.draft.name)}"
        yield tree.StreamDefinition(tree.Source(unfed), _attributes(t.plan, source))
        handlers = tuple(h for h in definition.input.handlers if not isinstance(h, tree.Filter))  # nothing to keep away
        bare = replace(definition.input, handlers=handlers)
        yield replace(definition, input=renamed_source(bare, unfed))


def _attributes(plan: App, stream: str) -> tuple[tree.Attribute, ...]:
    return tuple(tree.Attribute(c.name, c.type) for c in plan.streams[stream].schema.columns)


def _called(t: Template) -> set[str]:
    """The functions that the group's elements call."""
    names: set[str] = set()

    def note(node: Any) -> Any:
        if isinstance(node, tree.FunctionCall) and not node.namespace:
            names.add(node.name)
        return node

    mapped(tuple(p.node for p in t.draft.parts), note)
    for definition in t.app.definitions:
        if isinstance(definition, (tree.AggregationDefinition, tree.WindowDefinition)):
            mapped(definition, note)
    return names
