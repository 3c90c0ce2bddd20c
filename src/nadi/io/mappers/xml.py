"""`@map(type='xml')`: see `xml_source` and `xml_sink` for the rules."""

from __future__ import annotations

from nadi.io.mappers.xml_sink import XmlSink
from nadi.io.mappers.xml_source import XmlSource
from nadi.io.registry import MapperKind
from nadi.plan.options import Option

KIND = MapperKind(
    source_options=(
        Option("namespaces", doc="`prefix=address` with commas between them, for the prefixes in paths"),
        Option(
            "enclosing.element",
            doc="the path to the elements whose children are events, with `@attributes`",
        ),
        Option(
            "enclosing.element.as.event", kind="bool", doc="`true`: these elements are the events, not their children"
        ),
        Option(
            "fail.on.missing.attribute",
            kind="bool",
            doc=(
                "`false`: a missing attribute is null, and so is an empty element of another type than "
                "`string`; `true` by default"
            ),
        ),
        Option("enable.streaming.xml.content", kind="bool", doc="`false` only"),
        Option("extract.leaf.node.data", kind="bool", doc="`false` only"),
    ),
    sink_options=(
        Option(
            "enclosing.element",
            doc="a tag to put around, `<events>` by default without `@payload`",
        ),
        Option("validate.xml", kind="bool", doc="`true`: leave out what `@payload` made and is no XML, with a warning"),
    ),
    source=XmlSource,
    sink=XmlSink,
    content_type="application/xml",
    loops=(),
)
