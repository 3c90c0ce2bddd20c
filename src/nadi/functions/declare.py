"""How the modules of a namespace write a scalar function: overloads, a plain Python function, a rule for nulls, examples.

An example is "expression" or "expression → result"; a test evaluates each of them. Results are written as `shown` writes them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nadi.errors import NadiError, error
from nadi.functions import jsontext
from nadi.functions.arithmetic import java_text
from nadi.functions.entries import ScalarFunction
from nadi.functions.signatures import Arguments, Overload, Parameter, match
from nadi.functions.valuewords import KINDS, kind_of
from nadi.lang.tree import Type
from nadi.plan.catalog import Returns

ANY = tuple(Type)
VALUES = (Type.STRING, Type.INT, Type.LONG, Type.FLOAT, Type.DOUBLE, Type.BOOL)

FAIL, NULL, GIVEN = "fail", "null", "given"
"""What a null argument does: it is an error (`NULL_VALUE`), the result is null, or the function gets it."""

Made = Callable[[Arguments, Type], Callable[..., Any]]


def text(name: str) -> Parameter:
    return Parameter(name, (Type.STRING,))


def whole(name: str) -> Parameter:
    return Parameter(name, (Type.INT,))


def thing(name: str) -> Parameter:
    return Parameter(name, (Type.OBJECT,))


def anything(name: str, rest: bool = False) -> Parameter:
    return Parameter(name, ANY, rest=rest)


def scalar(
    name: str,
    doc: str,
    examples: Sequence[str],
    result: Type | Callable[[Arguments], Type],
    overloads: Sequence[Overload],
    function: Callable[..., Any] | None = None,
    *,
    make: Made | None = None,
    nulls: str = FAIL,
    needs: tuple[str, ...] = (),
) -> ScalarFunction:
    """A scalar function.

    `function` takes one value per argument; where it depends on the types or constants of the arguments, `make` gives it. `result` is the type, or
    tells it from arguments that fit. A null rule of `FAIL` or `NULL` is for what comes after `needs`.
    """
    builder: Made = make if make is not None else _always(function)
    rule = _null_rule(name, nulls, len(needs))
    return ScalarFunction(
        name,
        returning(result, *overloads),
        lambda args, kind: rule(builder(args, kind)),
        doc,
        _names(overloads),
        tuple(examples),
        needs,
    )


def returning(result: Type | Callable[[Arguments], Type], *overloads: Overload) -> Returns:
    """Checks arguments against the overloads and tells the type."""

    def returns(args: Arguments) -> Type:
        match(args, *overloads)
        return result if isinstance(result, Type) else result(args)

    return returns


def _always(function: Callable[..., Any] | None) -> Made:
    if function is None:
        raise ValueError("a function needs `function` or `make`")
    return lambda args, kind: function


def _names(overloads: Sequence[Overload]) -> tuple[str, ...]:
    """The names of the longest overload; "…" where the last may be repeated."""
    longest = max(overloads, key=len, default=())
    return tuple(p.name for p in longest) + (("…",) if longest and longest[-1].rest else ())


def _null_rule(name: str, nulls: str, skipped: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    if nulls == GIVEN:
        return lambda function: function
    if nulls == NULL:
        return _null_on_null

    def failing(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*values: Any) -> Any:
            if None in values:
                number = values.index(None) - skipped + 1
                raise error("NULL_VALUE", where=f"parameter {number} of '{name}'")
            return function(*values)

        return call

    return failing


def _null_on_null(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *values: None if None in values else function(*values)


def on_objects(name: str, kind: type, function: Callable[..., Any], first: int = 1) -> Callable[..., Any]:
    """A function of maps or lists: each of its first arguments is one, or it fails; so null does, too."""

    def call(*values: Any) -> Any:
        for number, value in enumerate(values[:first], 1):
            if not isinstance(value, kind):
                raise failed(name, f"parameter {number} must be {KINDS[kind.__name__]}, not {kind_of(value)}")
        return function(*values)

    return call


def failed(name: str, reason: object) -> NadiError:
    """What a function raises for values that it cannot take."""
    return error("FUNCTION_FAILED", name=name, reason=reason)


# ---- examples ------------------------------------------------------------------------------------------------------


def parts_of(example: str) -> tuple[str, str | None]:
    """Expression and result of an example; None where it tells no result.

    >>> parts_of("str:length('ab') → 2")
    ("str:length('ab')", '2')
    """
    expression, arrow, result = example.partition(" → ")
    return expression, result if arrow else None


def shown(value: Any, kind: Type) -> str:
    """A value as it is written in an app; objects as JSON.

    >>> shown("a", Type.STRING), shown(5, Type.LONG), shown(0.5, Type.FLOAT), shown(None, Type.INT), shown({"a": [1]}, Type.OBJECT)
    ("'a'", '5L', '0.5f', 'null', '{"a":[1]}')
    """
    if value is None:
        return "null"
    if kind is Type.OBJECT:
        return jsontext.written(value)
    if type(value) is str:
        return f"'{value}'"
    suffix = {Type.LONG: "L", Type.FLOAT: "f"}.get(kind, "")
    return java_text(value, kind) + suffix
