"""Where the queries of an app run does not depend on how often that is asked: what ran on columns goes on there."""

from __future__ import annotations

import sys
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from nadi.plan.columns.islands import islands
from tests.generate.apps import FAMILIES, Generated, apps
from tests.generate.budget import GENERATED, Examples
from tests.generate.mixed import mixed
from tests.kernel.columns.comparing import accepted

CHOSEN = Examples(GENERATED, seconds=1.0)


@CHOSEN
@given(made=st.one_of(mixed(), st.sampled_from(sorted(FAMILIES)).flatmap(apps)))
def test_what_rows_ran_they_run_again_and_nothing_else(made: Generated) -> None:
    plan = accepted(made)
    found = islands(plan)
    on_rows = [query.id for query in plan.queries if query.id not in found.order]
    assert islands(plan, on_rows).order == found.order
