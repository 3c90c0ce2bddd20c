"""Each aggregator says all that planning and the engines must know of it, and what it says fits together and what there is."""

from __future__ import annotations

import ast
import re
from dataclasses import fields
from pathlib import Path

import pytest

import nadi
from nadi.errors import NadiError
from nadi.functions.entries import Accumulator, Aggregator
from nadi.functions.registry import default_registry
from nadi.kernel.columns.accumulating import OPERATORS
from nadi.kernel.columns.late import UNDOING
from nadi.lang.tree import Type
from nadi.plan import plan_app
from nadi.plan.aggregatortraits import (
    FORMED,
    NOTHING,
    OF_DISTINCT_COUNT,
    ON_ROWS,
    STREAMS,
    AggregatorTraits,
    Looks,
)
from nadi.plan.catalog import Argument

REGISTRY = default_registry()
FOUND = [entry for name in REGISTRY.names("aggregator") if (entry := REGISTRY.aggregator(name)) is not None]
ON_COLUMNS = [entry for entry in FOUND if STREAMS in entry.traits.columns]
ROOT = Path(nadi.__file__).parent


def _accumulator(entry: Aggregator, removes: bool) -> Accumulator:
    kind = Type.BOOL if entry.traits.null_fails else Type.LONG
    return entry.make((Argument(kind),), removes)


def test_an_aggregator_without_traits_is_none():
    with pytest.raises(TypeError, match="traits"):
        Aggregator("sumOfSquares", lambda _arguments: Type.DOUBLE, lambda _arguments, _removes: None)


@pytest.mark.parametrize("left_out", [f.name for f in fields(AggregatorTraits)])
def test_no_trait_can_be_left_out(left_out):
    given = {f.name: getattr(ON_ROWS, f.name) for f in fields(AggregatorTraits) if f.name != left_out}
    with pytest.raises(TypeError, match=left_out):
        AggregatorTraits(**given)


@pytest.mark.parametrize("entry", FOUND, ids=lambda entry: entry.name)
def test_what_has_no_operator_over_a_stream_has_none_anywhere(entry):
    assert STREAMS in entry.traits.columns or entry.traits.columns is NOTHING


def test_those_that_say_so_have_an_operator_and_no_others():
    texts = {entry.name for entry in ON_COLUMNS if entry.traits.looks is Looks.TEXTS}
    assert {entry.name for entry in ON_COLUMNS} - texts == set(OPERATORS)


def test_those_that_are_not_made_of_what_stays_can_take_a_value_off():
    taking = [
        entry.name
        for entry in ON_COLUMNS
        if FORMED in entry.traits.columns
        and not (entry.traits.extreme or entry.traits.forever or entry.traits.looks is Looks.TEXTS)
    ]
    assert set(taking) == set(UNDOING)


@pytest.mark.parametrize("entry", ON_COLUMNS, ids=lambda entry: entry.name)
def test_the_state_on_rows_has_as_many_values_as_the_traits_name(entry):
    assert len(_accumulator(entry, removes=True).fresh()) == (len(entry.traits.numbers) or 1)


@pytest.mark.parametrize("entry", ON_COLUMNS, ids=lambda entry: entry.name)
def test_the_traits_say_what_rows_do(entry):
    made = _accumulator(entry, removes=True)
    assert made.forever is entry.traits.forever
    assert made.bag is (entry.traits.extreme or entry.traits.looks is Looks.TEXTS)


def test_what_takes_the_place_of_sets_has_the_traits_of_the_registry():
    entry = REGISTRY.aggregator("distinctCount")
    assert entry is not None
    assert entry.traits is OF_DISTINCT_COUNT


def test_aggregations_may_have_those_that_say_so():
    names = [entry.name for entry in FOUND if entry.traits.incremental]
    assert set(names) == {"sum", "avg", "count", "min", "max", "stdDev", "distinctCount"}
    text = "define stream S (v int); define aggregation A from S select minForever(v) as m aggregate every sec...min;"
    with pytest.raises(NadiError, match=f"use one of {', '.join(names)}") as refused:
        plan_app(text, REGISTRY)
    assert refused.value.condition == "AGGREGATOR_NOT_FOUND"


# Names that mean nothing else: `min`, `sum`, `and` and others are functions, durations and operators, too.
_PLAIN = {"distinctCount", "minForever", "maxForever", "stdDev", "unionSet"}


def test_the_plan_keeps_no_names_of_aggregators():
    """But that of sets whose values are only counted, a rule about these two aggregators."""
    found = set()
    for path in (ROOT / "plan").rglob("*.py"):
        constants = {n.value for n in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(n, ast.Constant)}
        found |= {path.name} if constants & _PLAIN else set()
    assert found == {"countedsets.py"}


@pytest.mark.parametrize("entry", ON_COLUMNS, ids=lambda entry: entry.name)
def test_generated_apps_use_each_one_that_has_an_operator(entry):
    made = (Path(__file__).parents[1] / "generate" / "columnar.py").read_text("utf-8")
    assert re.search(rf"\b{entry.name}\b", made)
