"""`@map(type='csv')`: see `csv_source` and `csv_sink` for the rules."""

from __future__ import annotations

from nadi.io.mappers.csv_sink import CsvSink
from nadi.io.mappers.csv_source import CsvSource
from nadi.io.options import Option
from nadi.io.registry import MapperKind

KIND = MapperKind(
    source_options=(
        Option("delimiter"),
        Option("header", kind="bool"),
        Option("quote"),
        Option("null.values"),
        Option("fail.on.unknown.attribute", kind="bool"),
        Option("event.grouping.enabled", kind="bool"),
    ),
    sink_options=(
        Option("delimiter"),
        Option("header", kind="bool"),
        Option("null.value"),
        Option("event.grouping.enabled", kind="bool"),
    ),
    source=CsvSource,
    sink=CsvSink,
    content_type="text/csv",
    loops=(),
)
