"""How far columns reach: apps as they are generated have operators, but for what is listed here.

The apps are the same in each run. With dice, an app that nobody has thought of could turn the run of a change red that has nothing to do with it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import given, seed, settings

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from nadi.plan.columns.islands import islands
from nadi.plan.nodes import App, Attr, Partition, ValueKey
from tests.generate.apps import Generated
from tests.generate.budget import GENERATED
from tests.generate.chains import PATTERNS
from tests.generate.columnar import columnar, keyed_rates, shown
from tests.generate.feeding import planned
from tests.generate.joins import joining

MADE = {
    "any query": columnar(),
    "rates in partitions": columnar(shapes=(keyed_rates,)),
    "snapshots of windows": columnar(shapes=(shown,)),
    "joins": joining(),
    **PATTERNS,
}

ON_ROWS = (
    "has no loop yet",
    "compares strings other than attributes and constants",
    "aggregators over matches in a partition have an operator only",
    "limit and offset of expired events",
    "compares the string of another event with a constant",
    "it begins to wait when a key comes",
    "an output snapshot of aggregators and constants has no operator where texts are made",
)
"""What keeps generated apps on rows: functions of texts where they are not computed ahead, and what is refused on purpose."""

THE_SAME = settings(GENERATED, max_examples=60, database=None)


@pytest.mark.parametrize("what", MADE)
def test_generated_apps_run_on_columns_but_for_what_is_listed(what: str) -> None:
    on_columns = []

    @seed(1)
    @THE_SAME
    @given(made=MADE[what])
    def holds(made: Generated) -> None:
        plan = planned(made)
        found = islands(plan)
        reasons = [found.why, *(found.queries[query.id].why for query in plan.queries)]
        assert found.columns or any(why in one for one in reasons for why in ON_ROWS) or _makes_keys(plan), found.why
        on_columns.append(found.columns)

    holds()
    assert sum(on_columns) > len(on_columns) / 2


def _makes_keys(plan: App) -> bool:
    """Whether a partition has keys that are no attributes, or inner streams."""
    keys = [key for e in plan.elements if isinstance(e, Partition) for key in e.keys]
    made = any(not (isinstance(key, ValueKey) and isinstance(key.value, Attr)) for key in keys)
    return made or any(stream.partition is not None for stream in plan.streams.values())
