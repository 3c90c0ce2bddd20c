"""Tables on columns give exactly what they give on rows: outputs, failures, and what they hold, for any split and restart.

`NADI_GENERATE=2000` runs so many examples instead of the few that every run can afford.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hypothesis import assume, event, given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from nadi.lang import parse_on_demand
from nadi.plan.islands import islands
from nadi.plan.on_demand import bind_on_demand
from tests.generate.apps import Generated
from tests.generate.feeding import Feeding
from tests.generate.inputs import Cut, Message, cuts, messages
from tests.generate.tabled import tabled
from tests.kernel.columns.test_columns_invariant import CHOSEN
from tests.kernel.columns.test_columns_mixed import MixedFeeding, _planned, _run


class Tabled(MixedFeeding):
    """A run that asks for the contents of tables as a node does."""

    def _content(self, store: str) -> list[str]:
        asked = bind_on_demand(parse_on_demand(f"from {store} select *"), self.plan, self.registry)
        kernel = self.kernels[0]
        return [str(row) for row in kernel.select(asked, kernel.find(asked))]


def _seen(run: Feeding) -> dict[str, Any]:
    seen = run.seen()
    del seen["next timer"]
    return seen


@CHOSEN
@given(made=tabled(), sent=messages, parts=cuts, every=st.sampled_from(("dump", "deltas")))
def test_tables_on_columns_are_as_on_rows_for_every_split_and_restart(
    made: Generated, sent: list[Message], parts: list[Cut], every: str
) -> None:
    plan = _planned(made)
    found = islands(plan)
    event(f"{len(found.tables)} tables on columns")
    assume(found.tables)
    rows = _seen(_run(Feeding, made, plan, sent, []))
    assert _seen(_run(Tabled, made, plan, sent, [])) == rows
    assert _seen(_run(Tabled, made, plan, sent, parts)) == rows
    everywhere = [Cut(i, 0, every) for i in range(len(sent))]
    assert _seen(_run(Tabled, made, plan, sent, everywhere)) == rows
