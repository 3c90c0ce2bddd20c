"""Apps on columns beside the same on rows: what tests of both are made of."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import Any

import pytest
from hypothesis import assume
from hypothesis import strategies as st

from nadi.errors import NadiError
from nadi.kernel.columns.choosing import ChosenKernel, chosen
from nadi.kernel.columns.engine import ColumnsKernel
from nadi.kernel.columns.jit import interpreted
from nadi.kernel.columns.mixed import MixedKernel
from nadi.kernel.rows.engine import RowsKernel
from nadi.lang import parse_on_demand
from nadi.plan.columns.islands import Islands, islands
from nadi.plan.nodes import App
from nadi.plan.on_demand import bind_on_demand
from tests.generate.apps import Generated
from tests.generate.budget import GENERATED, Examples
from tests.generate.feeding import Feeding, _run_scripts, planned
from tests.generate.inputs import Cut, Message

COMPILED = "NADI_COMPILE" in os.environ
"""Whether the loops of generated apps are compiled, each for a second or more; what is not generated always is."""

AFTER = 3000  # ms that a run goes on after its last message

CHOSEN = Examples(GENERATED, seconds=0.8)
OF_ONE_APP = Examples(GENERATED, seconds=0.25)
"""Where only the input is generated."""


def some_of(names: Iterable[str]) -> list[Any]:
    """Parameters of tests that compile for seconds: every third one in each run, the others are slow ones, which a submission runs, too (`.ci/run`)."""
    return [pytest.param(name, marks=() if i % 3 == 0 else pytest.mark.slow) for i, name in enumerate(names)]


RESTARTS = st.sampled_from(("", "dump", "deltas"))


# ---- runs ------------------------------------------------------------------------------------------------------------


def _looped() -> AbstractContextManager[None]:
    return nullcontext() if COMPILED else interpreted()


class ColumnsFeeding(Feeding):
    """A run on columns."""

    @cached_property
    def part(self) -> Islands:
        """Asked for once: a run may make a kernel at each message."""
        return islands(self.plan)

    def _kernel(self, bucket: int) -> Any:
        with _looped():
            return ColumnsKernel(self.plan, self.registry, self.made.outputs, self.part if self.part.columns else None)


class _Makes:
    def __init__(self, registry: Any, bucket: int) -> None:
        self._registry, self._bucket = registry, bucket

    def rows(self, app: App, outputs: Collection[str]) -> RowsKernel:
        return RowsKernel(app, self._registry, outputs, bucket=self._bucket, scripts=_run_scripts)

    def columns(self, app: App, outputs: Collection[str], part: Islands) -> ColumnsKernel:
        with _looped():
            return ColumnsKernel(app, self._registry, outputs, part)


class MixedFeeding(Feeding):
    """A run in which each query is where it can."""

    def _kernel(self, bucket: int) -> Any:
        return chosen(self.plan, "auto", self.made.outputs, _Makes(self.registry, bucket))

    def _content(self, store: str) -> list[str]:
        kernel = self.kernels[0]
        rows = kernel.kernel if isinstance(kernel, ChosenKernel) else kernel
        rows = rows.rows if isinstance(rows, MixedKernel) else rows
        asked = bind_on_demand(parse_on_demand(f"from {store} select *"), self.plan, self.registry)
        return [str(found.row) for found in rows.ask(asked) or ()]


# ---- what is generated -----------------------------------------------------------------------------------------------


def accepted(made: Generated) -> App:
    """The plan of a generated app; those that are refused do not count."""
    try:
        return planned(made)
    except NadiError:
        assume(False)
        raise


# ---- comparisons -----------------------------------------------------------------------------------------------------


def fed(run: Feeding, sent: Sequence[Message], parts: Sequence[Cut] = ()) -> Feeding:
    """Feed in parts, with restarts between them."""
    start, count = 0, len(sent)
    for cut in sorted(parts, key=lambda c: c.after % count):
        end = cut.after % count + 1
        following = sent[end].order if end < count else sent[-1].order + AFTER
        run.feed(sent[start:end], min(sent[end - 1].order + cut.wait, following))
        run.restart(cut.restart)
        start = end
    run.feed(sent[start:], sent[-1].order + AFTER)
    return run


def everywhere(sent: Sequence[Message], restart: str) -> list[Cut]:
    """A cut behind each message."""
    return [Cut(i, 0, restart) for i in range(len(sent))]


def rows_of(run: Feeding) -> dict[str, list[str]]:
    """What came out."""
    return run.rows


def all_of(run: Feeding) -> dict[str, Any]:
    """What can be seen of a run, but for when the next timer is due: windows on columns have none."""
    seen = run.seen()
    del seen["next timer"]
    return seen


def same_as_rows(
    made: Generated,
    plan: App,
    sent: Sequence[Message],
    *splits: Sequence[Cut],
    on: type[Feeding] = ColumnsFeeding,
    rows: type[Feeding] = Feeding,
    seen: Callable[[Feeding], Any] = rows_of,
    streams: Sequence[str] = Feeding.streams,
) -> Any:
    """Each of some ways to split the input gives what rows give for all of it at once: that comes back."""

    def found(kind: type[Feeding], parts: Sequence[Cut]) -> Any:
        run = kind(made, plan)
        run.streams = streams
        return seen(fed(run, sent, parts))

    expected = found(rows, ())
    for parts in splits:
        assert found(on, parts) == expected
    return expected


def same_for_each_key_group(made: Generated, sent: Sequence[Message], parts: Sequence[Cut], buckets: int) -> None:
    """Each key-group gets from several buckets what it gets from one on rows."""
    plan = planned(made)
    assume(plan.sharding.kind == "key" and islands(plan).columns)
    rows = fed(Feeding(made, plan), sent)
    assert fed(ColumnsFeeding(made, plan, buckets), sent, parts).by_group == rows.by_group
