"""A case on nadi's in-process runtime, in the oracle's form."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from nadi.errors import NadiError
from nadi.functions.registry import Registry
from nadi.runtime import Runtime

Case = dict[str, Any]
UNORDERED = "unordered"
"""The mark of cases whose rows come in the order of a hash table on Siddhi: both sides' rows are sorted within each call."""


def on_nadi(case: Case) -> Case:
    """What the runtime gives."""
    return played(case)


def played(case: Case, registry: Registry | None = None, tell: Callable[[int], None] = lambda _time: None) -> Case:
    """What a runtime with these functions and stores gives; `tell` hears the time of each step before it is made."""
    got: list[list[Any]] = []
    try:
        _play(case, got, registry, tell)
    except NadiError as reason:
        return {"error": f"{type(reason).__name__}: {str(reason).splitlines()[0]}", "got": got}
    except Exception as reason:  # a crash is a finding
        return {"error": f"CRASH {type(reason).__name__}: {reason}", "got": got}
    return sorted_rows(case, {"got": got})


def sorted_rows(case: Case, result: Case) -> Case:
    """The result, with rows sorted in cases that ask for it."""
    if case.get(UNORDERED):
        result["got"] = [
            [name, ts, *(rows and sorted(rows, key=json.dumps) for rows in kinds)]
            for name, ts, *kinds in result.get("got", [])
        ]
    return result


def _play(case: Case, got: list[list[Any]], registry: Registry | None, tell: Callable[[int], None]) -> None:
    def rows(events: Any) -> Any:
        return events and [list(event.row) for event in events]

    runtime = Runtime(case["app"], registry=registry)
    for name in case["queries"]:
        runtime.on_query(name, lambda ts, i, o, name=name: got.append([name, ts, rows(i), rows(o)]))
    for name in case["streams"]:
        runtime.on_stream(name, lambda chunk, name=name: got.append([name, 0, rows(chunk), None]))
    runtime.start()
    for name, ts, given in case["events"]:
        tell(ts)
        if name == "?":
            got.append(["?", ts, _answer(runtime, given), None])
        elif name == "Pause":
            runtime.advance(ts)
        else:
            runtime.send(name, [(ts, row) for row in given])
    runtime.shutdown()


def _answer(runtime: Runtime, text: str) -> Any:
    try:
        found = runtime.query(text)
    except NadiError:
        return [["refused"]]
    if found is None:
        return [["none"]]
    return [list(event.row) for event in found] or [["done"]]
