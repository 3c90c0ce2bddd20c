"""On which ports the instances of a topology listen: the sources to which events are sent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from nadi.cluster.sockets import Socket
from nadi.io.contract import Connector, Place
from nadi.io.registry import SOURCES, source_kind
from nadi.lang import parse, tree
from nadi.lang.tree import Annotation
from nadi.plan.distribution import Group, Instance
from nadi.plan.nodes import Schema


def http_sockets(group: Group, instance: Instance, connections: Mapping[str, str]) -> tuple[Socket, ...]:
    """The sockets of an instance. Errors: OPTION_INVALID, where the url of a source is none."""
    return tuple(_sockets(group, instance, parse(instance.text, connections=connections)))


def _sockets(group: Group, instance: Instance, app: tree.SiddhiApp) -> Iterator[Socket]:
    for definition in app.definitions:
        for source in definition.annotations:
            type_ = (source.get("type") or "").lower()
            address = source_kind(type_).address if source.name.lower() == "source" and type_ in SOURCES else None
            if address is not None:
                assert isinstance(definition, tree.StreamDefinition)  # nothing else has a source of a user's
                found = address(_connector(definition.source.name, type_, source), Place(instance.name, Path()))
                yield Socket(_of_user(group, definition.source.name), found.port, found.path, found.secure)


def _connector(stream: str, type_: str, source: Annotation) -> Connector:
    options = {e.key.lower(): e.value for e in source.elements}
    return Connector(stream, Schema(()), type_, options, Annotation("map"), 0)


def _of_user(group: Group, stream: str) -> str:
    """A receiver group has the source on a stream of its own."""
    given = [i.name for i in group.inputs if i.user_given]
    return given[0] if group.receiver else stream
