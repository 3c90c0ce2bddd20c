"""The one promise, on generated apps and inputs: one event at a time = any split = any restart from a dump or from deltas (principle.md#the-one-principle)."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from nadi.plan.nodes import App
from tests.generate.apps import FAMILIES, Generated, apps
from tests.generate.budget import GENERATED, Examples
from tests.generate.feeding import Feeding, planned
from tests.generate.inputs import Cut, Message, cuts, messages

CHOSEN = Examples(GENERATED, seconds=0.6)

AFTER = 3000  # ms that a run goes on after its last message


def _whole(made: Generated, given_messages: list[Message], plan: App | None = None) -> Feeding:
    run = Feeding(made, plan)
    run.feed(given_messages, given_messages[-1].order + AFTER)
    return run


def _one_by_one(made: Generated, given_messages: list[Message], like: Feeding) -> Feeding:
    run = Feeding(made, like.plan)
    for message in given_messages:
        run.feed([message], message.order)
    run.feed([], given_messages[-1].order + AFTER)
    return run


def _in_parts(
    made: Generated, given_messages: list[Message], given_cuts: list[Cut], like: Feeding, buckets: int = 1
) -> Feeding:
    run = Feeding(made, like.plan, buckets)
    start = 0
    count = len(given_messages)
    for cut in sorted(given_cuts, key=lambda c: c.after % count):
        end = cut.after % count + 1
        following = given_messages[end].order if end < count else given_messages[-1].order + AFTER
        until = min(given_messages[end - 1].order + cut.wait, following)
        run.feed(given_messages[start:end], until)
        run.restart(cut.restart)
        start = end
    run.feed(given_messages[start:], given_messages[-1].order + AFTER)
    return run


@pytest.mark.parametrize("family", FAMILIES)
def test_results_depend_on_the_events_and_not_on_batches_and_restarts(family: str) -> None:
    @CHOSEN
    @given(made=apps(family), sent=messages, parts=cuts, every=st.sampled_from(("dump", "deltas")))
    def holds(made: Generated, sent: list[Message], parts: list[Cut], every: str) -> None:
        whole = _whole(made, sent)
        assert _one_by_one(made, sent, whole).seen() == whole.seen()
        assert _in_parts(made, sent, parts, whole).seen() == whole.seen()
        everywhere = [Cut(i, 0, every) for i in range(len(sent))]
        assert _in_parts(made, sent, everywhere, whole).seen() == whole.seen()

    holds()


@CHOSEN
@given(made=apps("sharded"), sent=messages, parts=cuts, buckets=st.sampled_from((2, 3, 8)))
def test_each_key_group_gets_the_same_from_one_bucket_as_from_several(
    made: Generated, sent: list[Message], parts: list[Cut], buckets: int
) -> None:
    plan = planned(made)
    assume(plan.sharding.kind == "key" and "UUID" not in made.text)  # a UUID is made of the bucket, too
    whole = _whole(made, sent, plan)
    several = _in_parts(made, sent, parts, whole, buckets)
    assert several.by_group == whole.by_group
    assert (several.failures, several.next_timer()) == (whole.failures, whole.next_timer())
