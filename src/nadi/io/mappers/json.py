"""`@map(type='json')`: see `json_source` and `json_sink` for the rules."""

from __future__ import annotations

from nadi.io.loops import Loops
from nadi.io.mappers.json_sink import JsonSink
from nadi.io.mappers.json_source import JsonSource
from nadi.io.options import Option
from nadi.io.registry import MapperKind

KIND = MapperKind(
    source_options=(Option("fail.on.missing.attribute", kind="bool"), Option("enclosing.element")),
    sink_options=(
        Option("enclosing.element"),
        Option("validate.json", kind="bool"),
        Option("event.grouping.enabled", kind="bool"),
    ),
    source=JsonSource,
    sink=JsonSink,
    content_type="application/json",
    loops=(Loops("json", "nadi.io.mappers.json_warmup", ("nadi.io.mappers.json_scan", "nadi.io.mappers.json_write")),),
)
