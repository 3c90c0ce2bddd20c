"""The apps of the conformance cases: all are read, and printed without loss."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from nadi.errors import NadiError
from nadi.lang import parse, parse_on_demand, parse_query, print_app, print_node


def cases() -> list[dict]:
    configured = os.environ.get("NADI_CONFORMANCE")
    folder = Path(configured) if configured else Path(__file__).parents[2].parent / "shared" / "conformance"
    path = folder / "cases.jsonl"
    if not path.exists():
        pytest.skip(f"no conformance cases at {path}")
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def steps(case: dict) -> list[dict]:
    found = []
    for step in case["steps"]:
        found += [step, *step.get("try", [])]
    return found


def expects_a_parser_error(case: dict) -> bool:
    return "SiddhiParserException" in json.dumps([case["expect"], [s.get("catch") for s in steps(case)]])


def test_every_app_and_query_is_read_and_printed_without_loss():
    wrong = []
    for case in cases():
        texts = [(parse, print_app, text) for text in case["apps"]]
        texts += [(parse_on_demand, print_node, s["query"]) for s in steps(case) if "query" in s]
        texts += [(parse_query, print_node, s["parse"]) for s in steps(case) if s.get("as") == "parseQuery"]
        for read, write, text in texts:
            try:
                tree = read(text)
            except NadiError as problem:
                if not expects_a_parser_error(case):
                    wrong.append((case["id"], str(problem)))
                continue
            printed = write(tree)
            if read(printed) != tree or write(read(printed)) != printed:
                wrong.append((case["id"], printed))
    assert not wrong
