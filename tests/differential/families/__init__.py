"""Families of random apps that are harder than the comparison's own: each a function of a source of random numbers."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from families.aggregations import aggregated
from families.flows import cycles, faults, several, triggered
from families.functions import aggregators, functions, stream_functions
from families.inputs import Made
from families.jumps import jumps, patterns_that_jump
from families.partitions import inner, purged, rated
from families.patterns import nested, nested_sequences
from families.tables import tables_asked, tables_written, windows_asked

__all__ = ["FAMILIES", "Made"]

FAMILIES: dict[str, Callable[[Random], Made]] = {
    family.__name__: family
    for family in (
        functions,
        aggregators,
        stream_functions,
        tables_written,
        tables_asked,
        windows_asked,
        several,
        cycles,
        faults,
        triggered,
        jumps,
        patterns_that_jump,
        rated,
        inner,
        purged,
        nested,
        nested_sequences,
        aggregated,
    )
}
