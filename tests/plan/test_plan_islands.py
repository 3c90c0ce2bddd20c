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
from tests.generate.chains import PATTERNS
from tests.generate.choices import SCHEMA
from tests.generate.feeding import planned
from tests.generate.mixed import mixed
from tests.kernel.columns.comparing import accepted

CHOSEN = Examples(GENERATED, seconds=1.0)

ON_BOTH = Generated(
    f"""define stream S ({SCHEMA}); define stream R ({SCHEMA});
        partition with (k of S, k of R) begin
        from S[v > 0] select k, v insert into #In;
        from every e1=#In -> e2=#In[str:concat(k, 'x') == str:concat(e1.k, 'x')] select e1.k as k insert into Out1;
        from every e1=R[v > 1] -> e2=R select e1.k as k insert into Out2;
        from every e1=S -> e2=R select e1.k as k insert into Out3;
        end;""",
    ("Out1", "Out2", "Out3"),
    (),
)
"""The second query has no operator, and with it goes the first one. The third one does not read what that reads; the last one reads what both read."""


@CHOSEN
@given(made=st.one_of(mixed(), st.sampled_from(sorted(FAMILIES)).flatmap(apps)))
def test_what_rows_ran_they_run_again_and_nothing_else(made: Generated) -> None:
    plan = accepted(made)
    found = islands(plan)
    on_rows = [query.id for query in plan.queries if query.id not in found.order]
    assert islands(plan, on_rows).order == found.order


FEW = st.sets(st.integers(0, 9), max_size=4)


@CHOSEN
@given(made=st.one_of(mixed(), *PATTERNS.values()), written=FEW, others=FEW)
def test_the_less_rows_have_written_the_more_is_on_columns(
    made: Generated, written: set[int], others: set[int]
) -> None:
    plan = accepted(made)
    ids = [query.id for query in plan.queries]
    kept = {ids[i % len(ids)] for i in written}
    most = islands(plan, {ids[i % len(ids)] for i in others} | kept)
    more = islands(plan, kept)
    assert set(most.owners) <= set(more.owners) <= set(islands(plan).owners)
    gone_to_rows = [id_ for id_ in ids if id_ not in most.order]
    left = [id_ for n, id_ in enumerate(gone_to_rows) if n in others]  # the others keep nothing any more
    assert set(most.owners) <= set(islands(plan, left).owners)


def test_a_query_that_rows_keep_brings_none_of_its_partition_to_columns() -> None:
    plan = planned(ON_BOTH)
    assert islands(plan).order == ()
    for query in plan.queries:
        assert islands(plan, [query.id]).order == ()
