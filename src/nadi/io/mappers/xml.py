"""`@map(type='xml')`: see `xml_source` and `xml_sink` for the rules."""

from __future__ import annotations

from nadi.io.mappers.xml_sink import XmlSink
from nadi.io.mappers.xml_source import XmlSource
from nadi.io.options import Option
from nadi.io.registry import MapperKind

KIND = MapperKind(
    source_options=(
        Option("namespaces"),
        Option("enclosing.element"),
        Option("enclosing.element.as.event", kind="bool"),
        Option("fail.on.missing.attribute", kind="bool"),
        Option("enable.streaming.xml.content", kind="bool"),
        Option("extract.leaf.node.data", kind="bool"),
    ),
    sink_options=(
        Option("enclosing.element"),
        Option("validate.xml", kind="bool"),
    ),
    source=XmlSource,
    sink=XmlSink,
    content_type="application/xml",
    loops=(),
)
