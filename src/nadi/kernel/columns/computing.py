"""Further columns of a stretch, as `nadi.plan.columns.outsideloops` asks for them: what loops compute, and what rows' own functions do.

Those do it once for each distinct value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nadi.kernel.columns.calling import Called
from nadi.kernel.columns.looping import LoopText
from nadi.kernel.columns.stretch import DTYPES, Array, Bools, Column, Stretch
from nadi.lang.tree import Type
from nadi.plan.columns.functionsupport import looped
from nadi.plan.nodes import Attr, Call, Const, Expr
from nadi.plan.walk import inside

_CHOICES = ("coalesce", "default", "str:coalesce")


class Computing:
    """Computes expressions, each over the columns of a stretch, whose types are given, and those before it."""

    def __init__(self, types: tuple[Type, ...], exprs: Sequence[Expr]) -> None:
        whole = (*types, *(e.type for e in exprs))
        depths = _depths(len(types), exprs)
        self.failed: Bools | None = None
        """For which events of the last stretch a function failed, whoever looks at its value."""
        self._width, self._count = len(types), len(whole)
        self._steps: list[tuple[_Looped | None, tuple[tuple[int, Called | Chosen], ...]]] = []
        for depth in range(max(depths, default=-1) + 1):
            here = [(len(types) + n, e) for n, e in enumerate(exprs) if depths[n] == depth]
            numbers = [(at, e) for at, e in here if _is_looped(e)]
            calls = tuple((at, _made(e)) for at, e in here if isinstance(e, Call) and not _is_looped(e))
            self._steps.append((_Looped(whole, numbers) if numbers else None, calls))

    def widened(self, given: Stretch) -> Stretch:
        """The same events with more columns."""
        failed: Bools | None = None
        columns: list[Column | None] = [*given.columns, *[None] * (self._count - self._width)]
        for loop, calls in self._steps:
            if loop is not None:
                loop.compute(given, columns)
            for at, call in calls:
                columns[at], flags = call.column(columns, len(given))
                if flags is not None:
                    failed = flags if failed is None else failed | flags
        self.failed = failed
        return given.having(tuple(column for column in columns if column is not None))


def _depths(width: int, exprs: Sequence[Expr]) -> list[int]:
    """When each expression can be computed: calls behind the loop that gives their arguments, loops behind the calls that do."""
    depths: list[int] = []
    for expr in exprs:
        wanted = [p.position - width for p in inside(expr) if isinstance(p, Attr) and p.position >= width]
        own = _is_looped(expr)
        depths.append(max((depths[n] + (own or not _is_looped(exprs[n])) for n in wanted), default=0))
    return depths


def _is_looped(expr: Expr) -> bool:
    return not isinstance(expr, Call) or looped(expr)


def _made(call: Call) -> Called | Chosen:
    return Chosen(call) if call.function in ("ifThenElse", *_CHOICES) else Called(call)


class _Looped:
    """A loop that gives some columns: (place, expression)."""

    def __init__(self, types: tuple[Type, ...], exprs: Sequence[tuple[int, Expr]]) -> None:
        text = LoopText(types)
        self._made: list[tuple[int, str, bool]] = []
        for at, expr in exprs:
            term = text.writer.term(expr)
            dtype = DTYPES[expr.type]
            text.own[f"o{at}"] = f"{dtype}[]"
            text.writer.line(f"o{at}[i] = {term.text}")
            if term.null:
                text.own[f"x{at}"] = "bool[]"
                text.writer.line(f"x{at}[i] = {term.null}")
            self._made.append((at, dtype, bool(term.null)))
        self._loop = text.compiled("computing")

    def compute(self, given: Stretch, columns: list[Column | None]) -> None:
        """Put the columns at their places."""
        size = len(given)
        own: dict[str, Array | int] = {}
        for at, dtype, nullable in self._made:
            values, nulls = np.empty(size, dtype), np.empty(size, np.bool_) if nullable else None
            own[f"o{at}"] = values
            if nulls is not None:
                own[f"x{at}"] = nulls
            columns[at] = Column(None, values, nulls)
        self._loop(given.having(tuple(columns)), own)  # type: ignore[arg-type]  # those that it reads are there


@dataclass(frozen=True, slots=True)
class Chosen:
    """ifThenElse and coalesce of strings."""

    call: Call

    def column(self, columns: Sequence[Column | None], size: int) -> tuple[Column, Bools | None]:
        """The chosen values; choosing does not fail."""
        given = [_array(argument, columns, size) for argument in self.call.args]
        if self.call.function != "ifThenElse":
            return Column(pc.coalesce(*given)), None
        return Column(pc.if_else(given[0].fill_null(False), given[1], given[2])), None


def _array(argument: Expr, columns: Sequence[Column | None], size: int) -> pa.Array:
    if isinstance(argument, Const):
        kind = pa.bool_() if argument.type is Type.BOOL else pa.string()
        return pa.repeat(pa.scalar(argument.value, kind), size)
    assert isinstance(argument, Attr)  # as the plan says
    column = columns[argument.position]
    assert column is not None
    return column.array()
