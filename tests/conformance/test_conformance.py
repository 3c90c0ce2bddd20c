"""Runs the language conformance cases, where they are at hand, and holds the list of those that do not pass (`gaps.toml`) to the letter."""

from __future__ import annotations

import importlib
import json
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from nadi import lang

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

GAPS = {gap["id"]: gap for gap in tomllib.loads(Path(__file__).with_name("gaps.toml").read_text("utf-8"))["gap"]}
MOST = 15
"""How many gaps there may be besides the cases that need a Java class of the reference engine's tests, and those whose recorded output is compared here."""

SECONDS = 20
"""The time limit of a case."""


@dataclass(frozen=True)
class Cases:
    """The runner's two modules, the cases, and the recorded outputs by case."""

    check: Any
    run: Any
    cases: list[Any]
    records: dict[str, Any]


@pytest.fixture(scope="module")
def cases() -> Cases:
    from tests.conformance import engine as adapters

    place = adapters.folder()
    if place is None or not (place / "cases.jsonl").exists():
        pytest.skip("no conformance cases: set NADI_CONFORMANCE to their folder")
    sys.path.insert(0, str(place))
    check, run = importlib.import_module("check"), importlib.import_module("run")
    lines = (place / "recorded.jsonl").read_text(encoding="utf-8").split("\n")
    records = {r["id"]: r for r in (json.loads(line) for line in lines if line)}
    return Cases(check, run, list(check.load_cases(str(place / "cases.jsonl"))), records)


def _made(engine: str) -> Any:
    return getattr(importlib.import_module("tests.conformance.engine"), engine)


@pytest.mark.parametrize("engine", ["Engine", "Restarting"])
def test_the_cases_that_do_not_pass_are_those_in_the_list_of_gaps(cases: Cases, engine: str) -> None:
    """`Restarting` gives every app a new kernel after each step: the same cases must pass."""
    failing = {}
    for case in cases.cases:
        verdict, why = cases.run.judge(case, cases.records.get(case["id"]), _made(engine), SECONDS)
        if verdict != "pass":
            failing[case["id"]] = f"{verdict} {why[:1]}"
    assert {name: why for name, why in failing.items() if name not in GAPS} == {}, "fail and are not listed"
    assert sorted(GAPS.keys() - failing.keys()) == [], "are listed as gaps and pass: strike them off"


def test_there_are_few_gaps_that_need_no_java_class(cases: Cases) -> None:
    assert all(gap["reason"] and gap["kind"] in ("java", "runner", "difference") for gap in GAPS.values())
    compared = {name for name, gap in GAPS.items() if gap["kind"] == "runner" and name in cases.records}
    assert len([name for name, gap in GAPS.items() if gap["kind"] != "java" and name not in compared]) <= MOST


@pytest.mark.parametrize("engine", ["Engine", "Restarting"])
def test_what_the_runner_cannot_judge_gives_the_recorded_output(cases: Cases, engine: str) -> None:
    wrong = {}
    for case in cases.cases:
        record = cases.records.get(case["id"])
        if record is not None and GAPS.get(case["id"], {}).get("kind") == "runner":
            outputs: list[Any] = []
            result = cases.check.run_case(case, _made(engine)(), collect=outputs)
            wrong[case["id"]] = [*result.failures, *cases.check.check_golden(record, outputs)]
    assert {name: why for name, why in wrong.items() if why} == {}


def test_a_sandbox_keeps_only_what_stays_in_the_process() -> None:
    from tests.conformance.engine import sandboxed

    text = (
        "@source(type='foo') @source(type='inMemory', topic='a') @sink(type='foo') @async(workers='1') define stream S (a int); "
        "@primaryKey('a') @store(type='rdbms') define table T (a int); from S insert into T;"
    )
    assert [(d.source.name, [a.name for a in d.annotations]) for d in lang.parse(sandboxed(text)).definitions] == [
        ("S", ["source", "async"]),
        ("T", ["primaryKey"]),
    ]
