"""Runs the language conformance cases, where they are at hand, and holds the number that pass."""

from __future__ import annotations

import importlib
import json
import sys
import tomllib
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

FLOOR = Path(__file__).with_name("floor.toml")


def _passed(engine: str) -> int:
    from tests.conformance import engine as adapters

    place = adapters.folder()
    if place is None or not (place / "cases.jsonl").exists():
        pytest.skip("no conformance cases: set NADI_CONFORMANCE to their folder")
    sys.path.insert(0, str(place))
    check, run = importlib.import_module("check"), importlib.import_module("run")
    lines = (place / "recorded.jsonl").read_text(encoding="utf-8").split("\n")
    records = {r["id"]: r for r in (json.loads(line) for line in lines if line)}
    cases = check.load_cases(str(place / "cases.jsonl"))
    made = getattr(adapters, engine)
    return sum(run.judge(case, records.get(case["id"]), made, 20)[0] == "pass" for case in cases)


@pytest.mark.parametrize("engine", ["Engine", "Restarting"])
def test_no_fewer_conformance_cases_pass_than_before(engine: str) -> None:
    """`Restarting` gives every app a new kernel after each step: the same cases must pass."""
    passed = _passed(engine)
    floor = tomllib.loads(FLOOR.read_text(encoding="utf-8"))["passed"]
    assert passed >= floor, f"{passed} cases pass, {floor} did before: see the runner's table"
