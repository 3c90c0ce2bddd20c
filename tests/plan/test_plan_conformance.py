"""The apps of the conformance cases: those that must work make a plan, those that must fail fail with the class that Siddhi raises."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from nadi.errors import NadiError
from nadi.functions.registry import default_registry
from nadi.functions.stores import StoreKind
from nadi.kernel.rows.memorystore import MemoryStore
from nadi.lang import parse, parse_on_demand
from nadi.plan import bind, bind_on_demand

FOLDER = Path(os.environ.get("NADI_CONFORMANCE") or Path(__file__).parents[3] / "shared" / "conformance")
CASES = FOLDER / "cases.jsonl"

pytestmark = pytest.mark.skipif(not CASES.exists(), reason="no conformance cases here (NADI_CONFORMANCE)")

# what is not for the plan to decide: transports, configuration, functions that only Siddhi's own tests define
NODE = "core.aggregation.Aggregation2#incrementalStreamProcessorTest53"  # fails for want of a property of the node
STORES = ("teststorecontaininginmemorytable", "teststoredummyforcache")
OUTSIDE = {"config-manager", "extension", "sink", "source", "parser"}


def cases():
    with CASES.open(encoding="utf-8") as lines:
        yield from (json.loads(line) for line in lines)


def first_error(case, registry):
    """The first error of a case's apps and on-demand queries; None where there is none."""
    try:
        apps = [bind(parse(text), registry, text=text) for text in case["apps"]]
        for step in case["steps"]:
            if "query" in step:
                bind_on_demand(parse_on_demand(step["query"]), apps[step.get("rt", 0)], registry)
    except NadiError as error:
        return error
    return None


def verdict(case, registry):
    wanted = case["expect"].get("exception")
    error = first_error(case, registry)
    if wanted is None or error is None:
        return (wanted is None) == (error is None), error
    names = {kind.__name__ for kind in type(error).__mro__}
    return bool(names & set(wanted if isinstance(wanted, list) else [wanted])), error


def test_apps_make_plans_or_fail_as_siddhi_fails():
    registry = default_registry()
    registry.add(*(StoreKind(name, MemoryStore) for name in STORES))
    judged = {c["id"]: verdict(c, registry) for c in cases() if not OUTSIDE & set(c["tags"]) and c["id"] != NODE}
    wrong = {name: str(error) for name, (right, error) in judged.items() if not right}
    assert len(judged) > 600
    assert len(wrong) <= 2, "\n".join(f"{name}: {error}" for name, error in wrong.items())
