"""`@map(type='csv')`: see `csv_source` and `csv_sink` for the rules."""

from __future__ import annotations

from nadi.io.mappers.csv_sink import CsvSink
from nadi.io.mappers.csv_source import CsvSource
from nadi.io.registry import MapperKind
from nadi.plan.options import Option

_LINES = (
    Option("delimiter", doc="one or more characters, `,`; `\\t` for a tab. One ASCII character is read fastest"),
    Option("header", kind="bool", doc="`true`: the first line has the names; for `file` only"),
)

KIND = MapperKind(
    source_options=(
        *_LINES,
        Option("quote", doc='one ASCII character, `"`'),
        Option(
            "null.values",
            doc="further texts that mean null, with commas between them: `NA,-`; not where they are quoted",
        ),
        Option(
            "fail.on.unknown.attribute",
            kind="bool",
            doc="`false`: what is missing or does not fit is null; `true` by default: it is a failure",
        ),
        Option(
            "event.grouping.enabled",
            kind="bool",
            doc="several lines in a message are one chunk anyway",
        ),
    ),
    sink_options=(
        *_LINES,
        Option("null.value", doc="what null is written as; empty by default, Siddhi writes `null`"),
        Option(
            "event.grouping.enabled",
            kind="bool",
            doc="`true` makes one message of a chunk",
        ),
    ),
    source=CsvSource,
    sink=CsvSink,
    content_type="text/csv",
    loops=(),
)
