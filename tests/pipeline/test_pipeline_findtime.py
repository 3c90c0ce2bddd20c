"""Finding N5: an on-demand query that takes long is ended, and not the host that answers it."""

from __future__ import annotations

import itertools
from contextlib import suppress

import pytest

from nadi.errors import NadiError, error
from nadi.kernel.rows.engine import RowsKernel
from nadi.kernel.rows.finds import GOES_ON
from nadi.pipeline.engine import plan_app, plan_on_demand

APP = plan_app("define stream S (n int); define table T (n int); from S select n insert into T;")


def ended_after(rows: int, query: str) -> int:
    """How many rows are looked at until a find ends that may look at so many."""
    kernel = RowsKernel(APP, ())
    kernel.start(0)
    for n in range(10):
        kernel.ask(plan_on_demand(APP, f"select {n} as n insert into T"))
    question, seen = plan_on_demand(APP, query), itertools.count()
    looked = 0

    def goes_on() -> None:
        nonlocal looked
        looked = next(seen)
        if looked >= rows:
            raise error("QUERY_TOO_LONG", app="A", ms="10,000")

    before = GOES_ON.set(goes_on)
    try:
        with suppress(NadiError):
            kernel.select(question, kernel.find(question))
    finally:
        GOES_ON.reset(before)
    return looked


@pytest.mark.parametrize(
    "query",
    [
        "from T on n > 100 select n",
        "from T select n * 2 as m",
        "from T select n, count() as c group by n",
    ],
)
def test_a_find_that_may_not_go_on_ends_before_the_next_row(query: str):
    assert ended_after(3, query) == 3


def test_a_find_that_nobody_hurries_looks_at_all_rows():
    assert ended_after(1_000, "from T on n > 100 select n") == 9
