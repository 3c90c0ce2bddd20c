"""The language: text to syntax tree, and back.

Start with `apps.parse`, and with `printer.print_app` for the way back.
"""

from nadi.lang.apps import (
    parse,
    parse_aggregation_definition,
    parse_collecting,
    parse_definition,
    parse_expression,
    parse_function_definition,
    parse_on_demand,
    parse_partition,
    parse_query,
    parse_stream_definition,
    parse_table_definition,
    parse_time,
    parse_trigger_definition,
    parse_window_definition,
)
from nadi.lang.printer import print_app, print_node
from nadi.lang.substitution import settled, settled_collecting, substitute

__all__ = [
    "parse",
    "parse_aggregation_definition",
    "parse_collecting",
    "parse_definition",
    "parse_expression",
    "parse_function_definition",
    "parse_on_demand",
    "parse_partition",
    "parse_query",
    "parse_stream_definition",
    "parse_table_definition",
    "parse_time",
    "parse_trigger_definition",
    "parse_window_definition",
    "print_app",
    "print_node",
    "settled",
    "settled_collecting",
    "substitute",
]
