"""The operator of queries without state: filters and a selection that looks at each event by itself."""

from __future__ import annotations

from collections.abc import Mapping

from nadi.kernel.columns.contract import Input
from nadi.kernel.columns.looping import LoopText
from nadi.kernel.columns.partitioning import partitioned
from nadi.kernel.columns.selecting import Computed, Rule, Selected, SelectionText
from nadi.kernel.columns.stretch import Stretch
from nadi.plan.nodes import Query


class Filtering:
    """`from S[…] select … insert into T`. Has no state and no timers."""

    def __init__(self, query: Query, given: Input) -> None:
        self._key = given.key
        text = LoopText(given.types)
        selection = SelectionText(text, query.selection, Rule.EACH, [text.writer.truth(f) for f in given.filters])
        self._picked = selection.picked
        self._selected = Selected(selection.picked, given.types)
        computes = any(isinstance(p, Computed) for p in self._picked)
        every = not given.filters and query.selection.having is None
        self._loop = None if every and not computes else text.compiled("filtering")

    def process(self, given: Mapping[str, Stretch], until: int) -> Stretch | None:
        """The output rows of a stretch."""
        stretch = taking_part(given, self._key)
        if stretch is None:
            return None
        if self._loop is None:
            return self._selected.unlooped(stretch)
        selected = self._selected
        self._loop(stretch, selected.room(stretch.size), selected.held)
        return selected.stretch(stretch)


def taking_part(given: Mapping[str, Stretch], key: int | None) -> Stretch | None:
    """The events of the one stream that a query reads, those of its partition where it is in one."""
    (stretch,) = given.values()
    return stretch if key is None else partitioned(stretch, key)


def write_filters(text: LoopText, given: Input) -> None:
    """The filters of a query's input, at the beginning of a loop's body."""
    for condition in given.filters:
        text.writer.line(f"if not {text.writer.truth(condition)}: continue")
