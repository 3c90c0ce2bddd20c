"""How signatures are written and checked, and the sentences for arguments that do not fit."""

from __future__ import annotations

from dataclasses import dataclass

from nadi.lang.tree import Type
from nadi.plan.catalog import Argument, SignatureError

Arguments = tuple[Argument, ...]

NUMBERS = (Type.INT, Type.LONG, Type.FLOAT, Type.DOUBLE)
TIME = (Type.INT, Type.LONG)


@dataclass(frozen=True, slots=True)
class Parameter:
    """`form` is "constant", "attribute" or "" (any expression); `rest` may be given any number of times, also not at all."""

    name: str
    types: tuple[Type, ...]
    form: str = ""
    rest: bool = False

    def __str__(self) -> str:
        return f"<{'|'.join(map(str, self.types))}> {self.name}{' …' if self.rest else ''}"


Overload = tuple[Parameter, ...]


def constant(name: str, *types: Type) -> Parameter:
    """A parameter that must be a constant."""
    return Parameter(name, types, "constant")


def attribute(name: str, *types: Type, rest: bool = False) -> Parameter:
    """A parameter that must be a plain attribute of the stream."""
    return Parameter(name, types or tuple(Type), "attribute", rest)


def match(args: Arguments, *overloads: Overload) -> Overload:
    """The overload that fits, its rest parameter repeated: one parameter per argument.

    Raises:
        SignatureError: says which parameter is wrong where the number of arguments leaves one overload, all overloads otherwise.
    """
    candidates = [(o, spread) for o in overloads if (spread := _spread(o, len(args))) is not None]
    for _overload, spread in candidates:
        if all(_reason(p, a) == "" for p, a in zip(spread, args, strict=True)):
            return spread
    if len(candidates) == 1:
        spread = candidates[0][1]
        for number, (parameter, argument) in enumerate(zip(spread, args, strict=True), 1):
            if reason := _reason(parameter, argument):
                raise SignatureError(f"parameter {number}, {reason}")
    takes = " or ".join(f"({', '.join(map(str, o))})" for o in overloads)
    raise SignatureError(f"takes {takes}, found {_found(args)}")


def _spread(overload: Overload, count: int) -> Overload | None:
    if overload and overload[-1].rest:
        fixed = overload[:-1]
        return fixed + (overload[-1],) * (count - len(fixed)) if count >= len(fixed) else None
    return overload if len(overload) == count else None


def _reason(parameter: Parameter, argument: Argument) -> str:
    """What is wrong, as the end of a sentence; empty where nothing is."""
    wanted = " or ".join(map(str, parameter.types))
    if parameter.form == "constant" and not argument.is_constant:
        return f"'{parameter.name}', must be a constant ({wanted}), not {_shown(argument)}"
    if parameter.form == "attribute" and argument.attribute is None:
        return f"'{parameter.name}', must be an attribute ({wanted}), not {_shown(argument)}"
    if argument.type not in parameter.types:
        return f"'{parameter.name}', must be {wanted}, not {_shown(argument)}"
    return ""


_WORDS = {"True": "true", "False": "false", "None": "null"}


def _shown(argument: Argument) -> str:
    if argument.is_constant:
        written = _WORDS.get(str(argument.value)) if isinstance(argument.value, bool | None) else repr(argument.value)
        return f"the {argument.type} constant {written}"
    if argument.attribute is not None:
        return f"the {argument.type} attribute '{argument.attribute}'"
    return f"an expression of type {argument.type}"


def _found(args: Arguments) -> str:
    return f"({', '.join(_shown(a) for a in args)})" if args else "no parameters"


def one_type(args: Arguments, what: str = "all parameters") -> Type:
    """The type that all arguments share.

    Raises:
        SignatureError: they have several.
    """
    types = dict.fromkeys(a.type for a in args)
    if len(types) != 1:
        raise SignatureError(f"{what} must be of one type, found {' and '.join(map(str, types))}")
    return next(iter(types))


def non_negative(argument: Argument, name: str) -> None:
    """Raises SignatureError for a constant below 0."""
    if isinstance(argument.value, (int, float)) and argument.value < 0:
        raise SignatureError(f"'{name}' must not be negative, it is {argument.value}")


def positive(argument: Argument, name: str) -> None:
    """Raises SignatureError for a constant of 0 or below."""
    if isinstance(argument.value, (int, float)) and argument.value <= 0:
        raise SignatureError(f"'{name}' must be greater than 0, it is {argument.value}")
