"""XML messages → events.

- Without `@attributes` a message is `<events><event><a>…</a>…</event>…</events>`, all of it one chunk. Elements that are no attributes are ignored;
  of an element that stands twice the last counts. Namespaces are not looked at.
- With `@attributes(a='x/y', b='@k')` values are taken by path (`xml_paths`) from the root element; with `enclosing.element='//list'` from each
  child of the elements at this path, or with `enclosing.element.as.event='true'` from each of these; `trp:name` from the transport's properties.
- A missing attribute is a failure, or null with `fail.on.missing.attribute='false'`; so is an empty element where text is no value of the type. An element
  with `xsi:nil="true"` is null.
- A string takes an element with elements in it as its XML; another type wants a text. What does not fit its type is a failure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from xml.etree.ElementTree import Element

import pyarrow as pa

from nadi.errors import error
from nadi.io.contract import Connector, Decoded, Messages, Undecodable
from nadi.io.mappers.mapannotation import attribute_mapping, invalid, map_options
from nadi.io.mappers.stretch import Stretch
from nadi.io.mappers.transport import split_properties
from nadi.io.mappers.typed_rows import decode_typed
from nadi.io.mappers.values import from_text
from nadi.io.mappers.xml_document import document, elements, local, written
from nadi.io.mappers.xml_paths import Content, Place, content, namespaces_of, place_of
from nadi.lang.tree import Type
from nadi.plan.nodes import Column, Schema
from nadi.plan.options import flag

Find = Callable[[Element, Element], list[Content | None]]
"""(document, element of an event) → what stands there for each attribute."""

_TEXTS = (Type.STRING, Type.OBJECT)


class XmlSource:
    """The decoder of `@map(type='xml')`."""

    def __init__(self, connector: Connector) -> None:
        options = map_options(connector)
        mapping = attribute_mapping(connector)
        _check_supported(connector, options)
        self._schema = connector.schema
        self._strict = flag(options, "fail.on.missing.attribute", True)
        self._as_event = flag(options, "enclosing.element.as.event", False)
        self._properties, paths = split_properties(connector, mapping, self._strict)
        self._inner = Schema(tuple(c for c in connector.schema.columns if c.name not in self._properties.names))
        self._enclosing: Place | None = None
        self._custom = mapping is not None
        self._find: Find = _by_name(self._inner)
        try:
            namespaces = namespaces_of(options.get("namespaces", ""))
            if self._custom:
                self._find = _by_path([place_of(paths[c.name], namespaces) for c in self._inner.columns])
                if "enclosing.element" in options:
                    self._enclosing = place_of(options["enclosing.element"], namespaces)
        except ValueError as reason:
            raise invalid(connector, str(reason)) from None

    def decode(self, messages: Messages) -> Decoded:
        if isinstance(messages.payloads, pa.RecordBatch):
            return decode_typed(self._schema, messages, messages.payloads)
        found = Stretch(self._inner)
        for i, payload in enumerate(messages.payloads):
            position = int(messages.positions[i])
            try:
                around = document(payload)
                events = list(self._events(around))
            except ValueError as reason:
                found.fail(Undecodable(position, str(reason), bytes(payload)))
                continue
            for event in events:
                try:
                    found.add_row(i, self._row(around, event))
                except ValueError as reason:
                    shown = bytes(payload) if len(events) == 1 else written(event).encode()
                    found.fail(Undecodable(position, str(reason), shown))
        return self._properties.complete(self._schema, found.finish(), messages)

    def _events(self, around: Element) -> Iterator[Element]:
        (root,) = around
        if not self._custom:
            if local(root.tag) != "events":
                raise ValueError(f"the root element is '{local(root.tag)[:40]}', not 'events'")
            yield from elements(root, "event")
        elif self._enclosing is None:
            yield root
        else:
            enclosing = self._enclosing.all(around, root)
            if not enclosing:
                raise ValueError("there is no element at the path of enclosing.element")
            for element in enclosing:
                yield from (element,) if self._as_event else element

    def _row(self, around: Element, event: Element) -> tuple[object, ...]:
        found = self._find(around, event)
        return tuple(self._value(column, given) for column, given in zip(self._inner.columns, found))

    def _value(self, column: Column, given: Content | None) -> object:
        if given is None or (given.text is not None and column.type not in _TEXTS and not given.text.strip()):
            if self._strict:
                raise ValueError(f"the attribute '{column.name}' is {'missing' if given is None else 'empty'}")
            return None
        if given.text is None:
            return None
        if given.inner and column.type not in _TEXTS:
            raise ValueError(f"attribute '{column.name}': there are elements in it where {column.type} is wanted")
        try:
            return from_text(given.text, column.type)
        except ValueError as reason:
            raise ValueError(f"attribute '{column.name}': {reason}") from None


def _check_supported(connector: Connector, options: dict[str, str]) -> None:
    for name in ("enable.streaming.xml.content", "extract.leaf.node.data"):
        if flag(options, name, False):
            raise error(
                "NOT_SUPPORTED",
                connector.map.span,
                what=f"{name} of @map(type='xml')",
                alternative="send whole documents, and name each value in @attributes",
            )


def _by_name(schema: Schema) -> Find:
    names = schema.names

    def find(_around: Element, event: Element) -> list[Content | None]:
        children = {local(child.tag): child for child in event}
        return [None if (child := children.get(name)) is None else content(child) for name in names]

    return find


def _by_path(places: list[Place]) -> Find:
    def find(around: Element, event: Element) -> list[Content | None]:
        return [place.text(around, event) for place in places]

    return find
