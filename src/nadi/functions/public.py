"""How a function of one's own gets into apps.

From Python, with types from the annotations and the explanation from the docstring:

>>> from nadi.functions import Registry, default_registry, function
>>> @function("geo:manhattan")
... def manhattan(x: float, y: float) -> float:
...     '''The distance along streets.
...
...     Example: geo:manhattan(3.0, -4.0) → 7.0
...     '''
...     return abs(x) + abs(y)
>>> registry = default_registry()
>>> registry.add(manhattan)

The decorator makes a registry entry; hand the registry to the `Runtime`. From an installed package, entry points of the group `nadi.functions` name
entries, lists of entries, or functions without parameters that give them:

    [project.entry-points."nadi.functions"]
    geo = "mypackage.nadi:ENTRIES"

They are in every `default_registry()`, so that apps can use them without any setting. A function must be a function of its arguments: no clock, no random
numbers, no state, for an event may be processed again after a failure and must give the same rows.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterable
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from nadi.errors import error
from nadi.functions.arithmetic import number_as
from nadi.functions.declare import GIVEN, NULL, scalar
from nadi.functions.entries import Aggregator, Entry, ScalarFunction, StreamFunctionSpec, WindowSpec
from nadi.functions.signatures import Arguments, Overload, Parameter
from nadi.functions.stores import StoreKind
from nadi.lang.tree import Type

GROUP = "nadi.functions"
_WIDER = {
    Type.INT: (Type.INT,),
    Type.LONG: (Type.INT, Type.LONG),
    Type.FLOAT: (Type.INT, Type.LONG, Type.FLOAT),
    Type.DOUBLE: (Type.INT, Type.LONG, Type.FLOAT, Type.DOUBLE),
}
_OF_ANNOTATION: dict[Any, Type] = {
    str: Type.STRING,
    bool: Type.BOOL,
    int: Type.LONG,
    float: Type.DOUBLE,
    dict: Type.OBJECT,
    list: Type.OBJECT,
    set: Type.OBJECT,
    object: Type.OBJECT,
    Any: Type.OBJECT,
}


def function(
    name: str,
    *,
    types: Iterable[Type] | None = None,
    returns: Type | None = None,
    nulls: bool = False,
    pure: bool = True,
) -> Callable[[Callable[..., Any]], ScalarFunction]:
    """Make a Python function one that apps can call.

    Args:
        name: "ns:name", or "name" without a namespace.
        types: of the parameters; if None they follow from the annotations: `str` is string, `bool` bool, `int` long, `float` double, and `dict`,
            `list`, `set`, `Any` object. A parameter takes narrower numbers too; parameters with defaults may be left out; `*rest` takes any number.
        returns: the type of the result; if None it follows from the annotation.
        nulls: whether the function gets nulls (as None). If False, null arguments make the result null.
        pure: False for what depends on more than its arguments: sinks behind it then deliver at least once instead of exactly once.

    The docstring's first sentence explains the function; lines "Example: expression → result" in it are its examples.

    Raises:
        SiddhiAppCreationException: INVALID_FUNCTION: the name, or a parameter without a type.
    """
    if not all(part.isidentifier() for part in name.split(":")) or name.count(":") > 1:
        raise error("INVALID_FUNCTION", name=name, reason='its name must be "ns:name" or "name"')

    def decorate(call: Callable[..., Any]) -> ScalarFunction:
        kinds = None if types is None else tuple(types)
        overloads = _overloads(name, call, kinds)
        result = returns or _type_of(name, "the result", typing.get_type_hints(call).get("return"))
        doc, examples = _explained(call)
        entry = scalar(
            name, doc, examples, result, overloads, make=_maker(call, overloads[-1]), nulls=GIVEN if nulls else NULL
        )
        return ScalarFunction(
            entry.name, entry.returns, entry.make, entry.doc, entry.parameters, entry.examples, pure=pure
        )

    return decorate


def _overloads(name: str, call: Callable[..., Any], kinds: tuple[Type, ...] | None) -> list[Overload]:
    """One for each number of arguments that the defaults allow, the longest last."""
    hints = typing.get_type_hints(call)
    parameters: list[Parameter] = []
    needed = 0
    for number, given in enumerate(inspect.signature(call).parameters.values()):
        if given.kind in (given.KEYWORD_ONLY, given.VAR_KEYWORD):
            raise error("INVALID_FUNCTION", name=name, reason=f"'{given.name}' can only be given by name")
        if kinds is not None and number >= len(kinds):
            raise error("INVALID_FUNCTION", name=name, reason=f"there is no type for '{given.name}'")
        kind = kinds[number] if kinds is not None else _type_of(name, f"'{given.name}'", hints.get(given.name))
        rest = given.kind is given.VAR_POSITIONAL
        parameters.append(Parameter(given.name, _WIDER.get(kind, (kind,)), rest=rest))
        if given.default is given.empty and not rest:
            needed = number + 1
    if parameters and parameters[-1].rest:
        return [tuple(parameters)]
    return [tuple(parameters[:count]) for count in range(needed, len(parameters) + 1)]


def _type_of(name: str, what: str, annotation: Any) -> Type:
    inner = [a for a in typing.get_args(annotation) if a is not type(None)]
    if type(None) in typing.get_args(annotation) and len(inner) == 1:
        annotation = inner[0]  # `int | None` is an int that may be null
    kind = _OF_ANNOTATION.get(typing.get_origin(annotation) or annotation)
    if kind is None:
        raise error(
            "INVALID_FUNCTION", name=name, reason=f"{what} needs an annotation: str, bool, int, float, dict or list"
        )
    return kind


def _maker(call: Callable[..., Any], longest: Overload) -> Callable[[Arguments, Type], Callable[..., Any]]:
    """Numbers come as the type that the parameter has, and go as that of the result."""

    def make(args: Arguments, result: Type) -> Callable[..., Any]:
        floats = [_is_float(longest[min(n, len(longest) - 1)]) for n in range(len(args))]

        def checked(*values: Any) -> Any:
            found = call(*(float(v) if f and v is not None else v for v, f in zip(values, floats, strict=True)))
            return number_as(found, result) if result in _WIDER and found is not None else found

        return checked

    return make


def _is_float(parameter: Parameter) -> bool:
    return parameter.types[-1] in (Type.FLOAT, Type.DOUBLE)


def _explained(call: Callable[..., Any]) -> tuple[str, tuple[str, ...]]:
    lines = inspect.cleandoc(call.__doc__ or "").split("\n")
    first = " ".join(lines).split("\n")[0] if not lines[0] else lines[0]
    examples = tuple(
        line.strip().removeprefix("Example:").strip() for line in lines if line.strip().startswith("Example:")
    )
    return first.strip(), examples


# ---- installed packages --------------------------------------------------------------------------------------------


def installed() -> tuple[Entry, ...]:
    """The entries that installed packages bring.

    Raises:
        SiddhiAppCreationException: EXTENSION_BROKEN: one cannot be loaded, or is no entry.
    """
    return tuple(entry for point in sorted(entry_points(group=GROUP)) for entry in _loaded(point))


def _loaded(point: EntryPoint) -> tuple[Entry, ...]:
    package = point.dist.name if point.dist is not None else "a package"
    try:
        found = point.load()
        if callable(found) and not isinstance(found, _KINDS):
            found = found()
    except Exception as reason:  # whatever a foreign package does is told with its name
        raise error("EXTENSION_BROKEN", name=point.name, package=package, reason=reason) from reason
    entries = (found,) if isinstance(found, _KINDS) else tuple(found) if isinstance(found, Iterable) else (found,)
    for entry in entries:
        if not isinstance(entry, _KINDS):
            raise error("EXTENSION_BROKEN", name=point.name, package=package, reason=f"{entry!r} is no registry entry")
    return entries


_KINDS = (ScalarFunction, Aggregator, WindowSpec, StreamFunctionSpec, StoreKind)
