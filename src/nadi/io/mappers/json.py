"""`@map(type='json')`: see `json_source` and `json_sink` for the rules."""

from __future__ import annotations

from nadi.io.loops import Loops
from nadi.io.mappers.json_sink import JsonSink
from nadi.io.mappers.json_source import JsonSource
from nadi.io.registry import MapperKind
from nadi.plan.options import Option

KIND = MapperKind(
    source_options=(
        Option("fail.on.missing.attribute", kind="bool", doc="`false`: a missing attribute is null; `true` by default"),
        Option(
            "enclosing.element",
            doc="the path to the event or the array of events, with `@attributes`",
        ),
    ),
    sink_options=(
        Option(
            "enclosing.element",
            doc="names to put around",
        ),
        Option(
            "validate.json", kind="bool", doc="`true`: leave out what `@payload` made and is not JSON, with a warning"
        ),
        Option(
            "event.grouping.enabled",
            kind="bool",
            doc="`false`: a message per event even where a chunk has several; `true` by default",
        ),
    ),
    source=JsonSource,
    sink=JsonSink,
    content_type="application/json",
    loops=(Loops("json", "nadi.io.mappers.json_warmup", ("nadi.io.mappers.json_scan", "nadi.io.mappers.json_write")),),
)
