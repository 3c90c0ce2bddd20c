"""Every entry of the registry is explained by a sentence and an example that is true."""

from __future__ import annotations

import re
from typing import Any

import pytest

from nadi.functions.declare import parts_of, shown
from nadi.functions.entries import Aggregator, ScalarFunction, StreamFunctionSpec
from nadi.functions.registry import default_registry
from nadi.lang.tree import Type
from nadi.runtime import Runtime

REGISTRY = default_registry()
NOW = 1_600_000_000_000
PROPERTIES = {"region": "eu"}
Example = tuple[str, str | None]

FUNCTIONS = [f for n in REGISTRY.names("function") if isinstance(f := REGISTRY.function(n), ScalarFunction)]
AGGREGATORS = [a for n in REGISTRY.names("aggregator") if isinstance(a := REGISTRY.aggregator(n), Aggregator)]
STREAMS = [
    s for n in REGISTRY.names("stream_function") if isinstance(s := REGISTRY.stream_function(n), StreamFunctionSpec)
]


def _outputs(app: str, *rows: tuple[object, ...]) -> list[tuple[Any, Type]]:
    runtime = Runtime(app, now=NOW, properties=PROPERTIES)
    found: list[tuple[object, ...]] = []
    runtime.on_stream("Out", lambda events: found.extend(e.row for e in events))
    runtime.start()
    for row in rows:
        runtime.send("In", [(None, row)])
    assert not runtime.failures
    kinds = [c.type for c in runtime.app.streams["Out"].schema.columns]
    return [(row, kinds) for row in found]  # type: ignore[misc]


def _examples(entries: list[Any]) -> list[Any]:
    return [pytest.param(example, id=example[:60]) for e in entries for example in e.examples]


@pytest.mark.parametrize("entry", [*FUNCTIONS, *AGGREGATORS, *STREAMS], ids=lambda e: e.name)
def test_an_entry_has_a_sentence_and_an_example_of_its_own(entry: Any) -> None:
    assert entry.doc.endswith(".")
    assert entry.examples
    assert all(entry.name in e for e in entry.examples)


@pytest.mark.parametrize("example", _examples(FUNCTIONS))
def test_an_example_of_a_function_gives_what_it_says(example: str) -> None:
    expression, result = parts_of(example)
    app = f"define stream In (x int); from In select {expression} as result insert into Out;"
    [(row, kinds)] = _outputs(app, (1,))
    if result is None:
        assert row[0] is not None
    else:
        assert shown(row[0], kinds[0]) == result


def _column(literals: list[str]) -> tuple[str, list[Any]]:
    """The type of `1, 2` or `'a', 'b'` in an app, and the values."""
    if literals[0].startswith("'"):
        return "string", [x.strip("'") for x in literals]
    if literals[0] in ("true", "false"):
        return "bool", [x == "true" for x in literals]
    return ("double", [float(x) for x in literals]) if "." in literals[0] else ("int", [int(x) for x in literals])


@pytest.mark.parametrize("example", _examples(AGGREGATORS))
def test_an_example_of_an_aggregator_gives_what_it_says(example: str) -> None:
    expression, result = parts_of(example)
    call, values = expression.split(" over ")
    kind, column = _column(values.split(", "))
    app = f"define stream In (x {kind}); from In select {call} as result insert into Out;"
    row, kinds = _outputs(app, *((value,) for value in column))[-1]
    assert shown(row[0], kinds[0]) == result


@pytest.mark.parametrize("example", _examples(STREAMS))
def test_an_example_of_a_stream_function_gives_what_it_says(example: str) -> None:
    """`(a, b), (c, d)` are the rows of added columns."""
    expression, result = parts_of(example)
    rows = _outputs(f"define stream In (given int); from In{expression} select * insert into Out;", (1,))
    written = [f"({', '.join(shown(v, k) for v, k in zip(row[1:], kinds[1:]))})" for row, kinds in rows]
    assert ", ".join(written) == result


def test_the_names_of_parameters_are_those_of_the_signature() -> None:
    for entry in FUNCTIONS:
        assert all(re.fullmatch(r"[\w.]+|…", p) for p in entry.parameters), entry.name
