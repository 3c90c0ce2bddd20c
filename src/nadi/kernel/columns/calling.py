"""Functions that have no loop, those of strings above all: rows' own function is called once for each distinct value of its arguments.

So the results are those of rows. Where no value repeats this is a call for each event, as on rows; what was computed is remembered for later batches.

Not all that is computed here is looked at on rows: conditions may rule it out. So where a function fails there is no value, and a flag for who wants to know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from nadi.functions.arithmetic import to_float32
from nadi.functions.registry import Registry, default_registry
from nadi.kernel.arrow import ARROW_TYPES
from nadi.kernel.columns.stretch import Array, Bools, Column
from nadi.lang.tree import Type
from nadi.plan.catalog import Argument
from nadi.plan.nodes import Attr, Call, Const, Expr

_MOST = 65536
"""Results that a call remembers."""

_FAILED = object()
_FLOATING = (Type.FLOAT, Type.DOUBLE)


@cache
def _functions() -> Registry:
    return default_registry()


class Called:
    """A call whose arguments are attributes and constants."""

    def __init__(self, call: Call) -> None:
        entry = _functions().function(call.function)
        assert entry is not None  # the plan knows what it lets through
        own = call.args[1:] if "now" in entry.needs else call.args  # the plan has put the clock before them
        function = entry.make(tuple(map(_argument, own)), call.type)
        self._attributes = tuple(a for a in call.args if isinstance(a, Attr))
        self._type = ARROW_TYPES[call.type]
        self._single = len(self._attributes) == 1
        remembers = self._single and self._attributes[0].type not in _FLOATING  # 0.0 is not -0.0, and NaN never itself
        result = _Results(_given(function, call.args, self._single))
        self._results: Callable[[Iterable[Any]], list[Any]] = result.remembered if remembers else result.computed

    def column(self, columns: Sequence[Column | None], size: int) -> tuple[Column, Bools | None]:
        """The results of the events, and where the function fails."""
        arrays = [_array(columns[attribute.position]) for attribute in self._attributes]
        if not arrays:
            made, places = self._results([()]), pa.array(np.zeros(size, np.int64))
        elif self._single:
            values, places = _distinct(arrays[0])
            made = self._results(values.to_pylist())
        else:
            given, places = _combined(arrays)
            made = self._results(zip(*(array.to_pylist() for array in given)))
        failed = None
        if _FAILED in made:
            failed = np.array([value is _FAILED for value in made])
            failed = failed if places is None else failed[places.to_numpy()]
            made = [None if value is _FAILED else value for value in made]
        results = pa.array(made, self._type)
        return Column(results if places is None else results.take(places)), failed


class _Results:
    """What a function gives."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function
        self._known: dict[Any, Any] = {}

    def computed(self, values: Iterable[Any]) -> list[Any]:
        """For each value; `_FAILED` where the function fails."""
        return list(map(self._result, values))

    def remembered(self, values: Iterable[Any]) -> list[Any]:
        """The same, kept for later."""
        known = self._known
        if len(known) > _MOST:
            known.clear()
        made = []
        for value in values:
            if value in known:
                made.append(known[value])
            else:
                made.append(known.setdefault(value, self._result(value)))
        return made

    def _result(self, value: Any) -> Any:
        try:
            return self._function(value)
        except Exception:
            return _FAILED  # rows tell what it was


def _given(function: Callable[..., Any], args: tuple[Expr, ...], single: bool) -> Callable[[Any], Any]:
    """The function of the one value that varies, or of a tuple of them."""
    if single and len(args) == 1:
        return function
    constants = [_constant(a) if isinstance(a, Const) else None for a in args]
    places = [n for n, a in enumerate(args) if not isinstance(a, Const)]

    def call(values: Any) -> Any:
        given = constants.copy()
        for place, value in zip(places, (values,) if single else values):
            given[place] = value
        return function(*given)

    return call


def _constant(expr: Const) -> Any:
    """A constant as rows give it to functions."""
    if expr.type is Type.FLOAT and isinstance(expr.value, (int, float)):
        return to_float32(expr.value)
    return float(expr.value) if expr.type is Type.DOUBLE and isinstance(expr.value, (int, float)) else expr.value


def _argument(expr: Expr) -> Argument:
    """An argument as a function's `make` sees it."""
    return Argument(expr.type, True, expr.value) if isinstance(expr, Const) else Argument(expr.type)


def _array(column: Column | None) -> pa.Array:
    assert column is not None  # it was computed before
    return column.array()


def _distinct(array: pa.Array) -> tuple[pa.Array, pa.Array | None]:
    """The distinct values of an array, null among them, and where each event has its own. Arrow tells 0.0 from -0.0."""
    if pa.types.is_boolean(array.type) or not len(array):
        return array, None
    coded = array.dictionary_encode(null_encoding="encode")
    return coded.dictionary, coded.indices


def _combined(arrays: Sequence[pa.Array]) -> tuple[list[pa.Array], pa.Array | None]:
    """The distinct combinations of several arrays: one array of values for each, and where each event has its own."""
    codes: Array | None = None
    for array in arrays:
        values, places = _distinct(array)
        own = np.arange(len(array)) if places is None else places.to_numpy()
        codes = own.astype(np.int64) if codes is None else codes * len(values) + own
        codes = pa.array(codes).dictionary_encode().indices.to_numpy().astype(np.int64)
    assert codes is not None  # there are several
    first = np.empty(int(codes.max()) + 1 if len(codes) else 0, np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    chosen = pa.array(first)
    return [array.take(chosen) for array in arrays], pa.array(codes)
