"""What a query reads: a stream or window with its steps, or a join of two."""

from __future__ import annotations

from dataclasses import dataclass, field

from nadi.lang.tree import JoinKind
from nadi.plan.nodes.expressions import Expr
from nadi.plan.nodes.schema import Column, Schema
from nadi.plan.windowtraits import OnColumns, WindowTraits


@dataclass(frozen=True, slots=True)
class WindowCall:
    """A window with its checked arguments: constants as Const, attributes as Attr (slot 0), expressions as Expr. `traits` follow from the name."""

    id: str
    name: str  # "length", "unique:ever"
    args: tuple[Expr, ...]
    traits: WindowTraits = field(compare=False, repr=False)

    def has(self, any_of: OnColumns) -> bool:
        """Whether there is one of these on columns for the window."""
        return bool(self.traits.columns & any_of)


@dataclass(frozen=True, slots=True)
class FilterStep:
    """Keeps events of any kind for which the condition is true."""

    condition: Expr


@dataclass(frozen=True, slots=True)
class FunctionStep:
    """A stream function: appends `adds` to the row, may drop or multiply events (registry says how)."""

    id: str
    name: str
    args: tuple[Expr, ...]
    adds: tuple[Column, ...] = ()


@dataclass(frozen=True, slots=True)
class WindowStep:
    """The window of a query or join side."""

    call: WindowCall


Step = FilterStep | FunctionStep | WindowStep


@dataclass(frozen=True, slots=True)
class SingleInput:
    """Events of one stream or named window (`source` is its key) through `steps`; `schema` is what comes out of them."""

    source: str
    steps: tuple[Step, ...]
    schema: Schema
    alias: str = ""

    @property
    def window(self) -> WindowCall | None:
        return next((s.call for s in self.steps if isinstance(s, WindowStep)), None)


@dataclass(frozen=True, slots=True)
class JoinSide:
    """One side: `kind` is "stream", "window" (named), "table" or "aggregation"; the latter two never trigger."""

    kind: str
    input: SingleInput
    triggers: bool
    outer: bool  # unmatched rows of this side come out with nulls for the other


@dataclass(frozen=True, slots=True)
class JoinInput:
    """A join; slots 0 left and 1 right. `within` and `per` for aggregations only."""

    id: str
    left: JoinSide
    right: JoinSide
    kind: JoinKind
    on: Expr | None
    within: tuple[Expr, ...] = ()
    per: Expr | None = None
