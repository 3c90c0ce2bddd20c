"""Whatever is in the events of an app: nothing crashes, what fails says why in words of the language, and columns give what rows give."""

from __future__ import annotations

import random
import sys
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from nadi.errors import NadiError
from nadi.functions.entries import ScalarFunction
from nadi.functions.registry import default_registry
from nadi.runtime import Runtime
from tests.generate.apps import FAMILIES, Generated, apps
from tests.generate.budget import GENERATED, Examples, dice
from tests.generate.feeding import Feeding
from tests.generate.hostile import SCHEMA, hostile_messages, some_call, some_row, words_of_python
from tests.generate.inputs import Message
from tests.kernel.columns.comparing import MixedFeeding, accepted, fed

SECONDS = 2.0  # of this process's time
EVENTS = 8  # of a call
CHOSEN = Examples(GENERATED, seconds=3.0)


@CHOSEN
@given(made=st.sampled_from(sorted(FAMILIES)).flatmap(apps), sent=hostile_messages)
def test_apps_take_any_values_on_rows_and_on_columns_alike(made: Generated, sent: list[Message]) -> None:
    plan = accepted(made)
    seen = []
    for kind in (Feeding, MixedFeeding):
        run = fed(kind(made, plan), sent)
        assert words_of_python(run.told) == []
        seen.append({name: of for name, of in run.seen().items() if name != "next timer"})
    assert seen[0] == seen[1]


FUNCTIONS = [
    f for n in default_registry().names("function") if isinstance(f := default_registry().function(n), ScalarFunction)
]


def test_functions_take_any_values_or_say_why_not() -> None:
    for seed in dice.cases(SECONDS):
        own = random.Random(seed)
        call = some_call(own, own.choice(FUNCTIONS))
        assert words_of_python(_failures(call, own)) == [], call


def _failures(call: str, own: random.Random) -> list[tuple[str, str]]:
    try:
        runtime = Runtime(f"define stream In ({SCHEMA}); from In select {call} as x insert into Out;")
    except NadiError as refused:
        return [(refused.condition, "")]
    runtime.start()
    for _ in range(EVENTS):
        runtime.send("In", [(1, some_row(own))])
    runtime.shutdown()
    return [(failure.condition, failure.message) for failure in runtime.failures]
