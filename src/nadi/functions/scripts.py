"""Script functions (`define function f[language] return type { body }`) as entries of the registry of one app (semantics/expressions.md#scripts).

The body is that of a function of `data`, the array of the arguments; its result is what it returns, null without `return`. As in Siddhi, a call without
arguments gets one null. Scripts are run by a `ScriptRunner`, which this layer is given: processes are no matter of the kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from nadi.errors import error
from nadi.functions.arithmetic import to_float32
from nadi.functions.entries import Arguments, ScalarFunction
from nadi.functions.registry import Registry
from nadi.functions.utf16 import joined
from nadi.lang.tree import Type
from nadi.plan.nodes import Script

_RANGE = {Type.INT: 1 << 31, Type.LONG: 1 << 63}
_PLAIN = (str, int, float, bool, type(None))


class ScriptRunner(Protocol):
    """Runs the scripts of one app, one call at a time. A call has no effect but its result."""

    def call(self, name: str, arguments: Sequence[object]) -> object:
        """The result: None, bool, int, float, str, or lists and dicts of such.

        Raises:
            SiddhiAppRuntimeException: SCRIPT_FAILED, SCRIPT_TIME, SCRIPT_MEMORY, SCRIPTS_UNAVAILABLE.
        """
        ...


RunnerOf = Callable[[Mapping[str, Script]], ScriptRunner]


def with_scripts(registry: Registry, scripts: Mapping[str, Script], runner_of: RunnerOf | None) -> Registry:
    """The registry for an app: its scripts stand before the functions of the same names.

    Raises:
        SiddhiAppRuntimeException: SCRIPTS_UNAVAILABLE, where nothing can run them.
    """
    if not scripts:
        return registry
    if runner_of is None:
        raise error("SCRIPTS_UNAVAILABLE", reason="this kernel was made without a sandbox for scripts")
    runner = runner_of(scripts)
    own = registry.copy()
    own.add(*(_entry(script, runner) for script in scripts.values()))
    return own


def _entry(script: Script, runner: ScriptRunner) -> ScalarFunction:
    name, kind = script.name, script.type

    def call(*values: object) -> object:
        for value in values:
            if not isinstance(value, _PLAIN):
                _check_argument(name, value)
        return converted(name, kind, runner.call(name, values or (None,)))

    def make(_arguments: Arguments, _type: Type) -> Callable[..., Any]:
        return call

    return ScalarFunction(name, lambda _arguments: kind, make)


def _check_argument(name: str, value: object) -> None:
    """An object may be made of maps with text keys, lists, texts, numbers, truth values and null.

    Raises:
        ClassCastException: SCRIPT_ARGUMENT.
    """
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict) and all(isinstance(key, str) for key in part):
            waiting.extend(part.values())
        elif isinstance(part, (list, tuple)):
            waiting.extend(part)
        elif not isinstance(part, _PLAIN):
            found = "a map whose keys are not all texts" if isinstance(part, dict) else f"a {type(part).__name__}"
            raise error("SCRIPT_ARGUMENT", name=name, found=found)


def converted(name: str, kind: Type, value: Any) -> object:
    """What a script returned as a value of the declared type.

    Siddhi hands on whatever it is, and fails where it is used. Here a whole number is one whatever its form (`3.0` for int), and everything
    else that the type does not hold fails at once.

    >>> converted("f", Type.LONG, 3.0), converted("f", Type.FLOAT, 1), converted("f", Type.STRING, None)
    (3, 1.0, None)

    Raises:
        ClassCastException: SCRIPT_RESULT.
    """
    if value is None:
        return None
    if kind is Type.OBJECT or (kind is Type.STRING and isinstance(value, str)):
        return _writable(value)
    if kind is Type.BOOL and isinstance(value, bool):
        return value
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        number = _number(kind, value)
        if number is not None:
            return number
    raise error("SCRIPT_RESULT", name=name, found=_shown(value), type=kind)


def _writable(value: Any) -> Any:
    """JavaScript cuts texts between the halves of a character: what is left of such a one becomes "?", as in `utf16.joined`."""
    match value:
        case str():
            return joined(value)
        case list():
            return [_writable(part) for part in value]
        case dict():
            return {joined(key): _writable(part) for key, part in value.items()}
    return value


def _number(kind: Type, value: float) -> float | None:
    """The number in the form of its type; None where the type has no such number."""
    if bound := _RANGE.get(kind):
        if isinstance(value, float):
            if not value.is_integer():
                return None
            value = int(value)
        return value if -bound <= value < bound else None
    if kind not in (Type.FLOAT, Type.DOUBLE):
        return None
    try:
        return to_float32(value) if kind is Type.FLOAT else float(value)
    except OverflowError:
        return None


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return "a map"
    if isinstance(value, list):
        return "a list"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"
