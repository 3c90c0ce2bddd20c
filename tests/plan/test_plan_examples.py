"""Where the queries of the examples run."""

from __future__ import annotations

from pathlib import Path

from nadi.functions.registry import default_registry
from nadi.plan import plan_app
from nadi.plan.columns.islands import islands

FLIGHTS = Path(__file__).resolve().parents[2] / "examples/flights/delays.siddhi"


def test_all_queries_of_the_demo_run_on_columns() -> None:
    text = FLIGHTS.read_text(encoding="utf-8")
    for variable in ("FLIGHTS", "WEATHER", "ALERTS"):
        text = text.replace(f"${{{variable}}}", "a file")
    plan = plan_app(text, default_registry())
    found = islands(plan)
    assert {query.name: found.queries[query.id].why for query in plan.queries if query.id not in found.order} == {}
    assert found.tables == ("Sky",)
