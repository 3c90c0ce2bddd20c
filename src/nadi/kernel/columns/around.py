"""An operator whose query computes something outside of loops: further columns of what it reads, the output columns of its rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa

from nadi.kernel.arrow import ARROW_TYPES
from nadi.kernel.columns.computing import Computing
from nadi.kernel.columns.contract import Begins, Forgets, Operator, Stateful, check
from nadi.kernel.columns.flat import Block
from nadi.kernel.columns.stretch import Column, Stretch
from nadi.plan.columns.outsideloops import Ahead
from nadi.plan.nodes import App, Attr, Const


class Around:
    """See the module's text."""

    def __init__(self, made: Ahead, app: App, inner: Operator) -> None:
        self.inner = inner
        self._before = {key: Computing(app.streams[key].schema.types, exprs) for key, exprs in made.before.items()}
        self._behind: Computing | None = None
        self._picked: tuple[Attr | Const, ...] = ()
        if made.behind is not None:
            exprs, self._picked = made.behind
            self._behind = Computing(made.query.selection.schema.types, exprs)

    def process(self, given: Mapping[str, Stretch], until: int) -> Stretch | None:
        """The output rows of a batch."""
        made = self.inner.process(self._wider(given), until)
        return None if made is None else self._output(made)

    def _wider(self, given: Mapping[str, Stretch]) -> dict[str, Stretch]:
        """What is read, with the further columns."""
        return {key: self._before[key].widened(one) if key in self._before else one for key, one in given.items()}

    def _output(self, made: Stretch) -> Stretch:
        """The rows of the operator as those of the query."""
        if self._behind is None:
            return made
        whole = self._behind.widened(made)
        return whole.having(tuple(_column(one, whole) for one in self._picked))

    def begin(self, now: int) -> None:
        """The app starts."""
        if isinstance(self.inner, Begins):
            self.inner.begin(now)


def _column(one: Attr | Const, given: Stretch) -> Column:
    if isinstance(one, Attr):
        return given.columns[one.position]
    return Column(pa.repeat(pa.scalar(one.value, ARROW_TYPES[one.type]), len(given)))


class AroundState(Around):
    """One whose operator has state: all of it is that operator's."""

    inner: Stateful  # type: ignore[assignment]  # `around` has looked

    @property
    def elements(self) -> tuple[str, ...]:
        """What it keeps."""
        return self.inner.elements

    def next_timer(self) -> int | None:
        """When something comes out by itself."""
        return self.inner.next_timer()

    def changes(self) -> Iterable[Block]:
        """What changed."""
        return self.inner.changes()

    def contents(self) -> Iterable[Block]:
        """All that is held."""
        return self.inner.contents()

    def apply(self, block: Block) -> None:
        """Put back what either told."""
        self.inner.apply(block)

    def check(self) -> None:
        """See whether what was loaded fits together."""
        check(self.inner)

    def clear(self) -> None:
        """Forget all."""
        self.inner.clear()

    def size(self) -> dict[str, int]:
        """Entries held."""
        return self.inner.size()

    def forget(self, keys: pa.Array) -> None:
        """Forget some keys of a partition."""
        if isinstance(self.inner, Forgets):
            self.inner.forget(keys)
