"""The functions without a namespace (semantics/expressions.md#functions)."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable
from typing import Any

from nadi.functions.arithmetic import (
    DOUBLE_MAX,
    DOUBLE_MIN,
    INT_MAX,
    INT_MIN,
    WrongClass,
    java_text,
    number_as,
    parse_double,
    parse_float,
    parse_int,
    parse_long,
    to_float32,
    told,
)
from nadi.functions.entries import ScalarFunction
from nadi.functions.signatures import NUMBERS, Arguments, Parameter, constant, match, one_type
from nadi.lang.tree import Type
from nadi.plan.catalog import Returns, SignatureError

_ANY = tuple(Type)
_VALUES = (Type.STRING, Type.INT, Type.LONG, Type.FLOAT, Type.DOUBLE, Type.BOOL)


def _fixed(result: Type, *parameters: Parameter) -> Returns:
    def returns(args: Arguments) -> Type:
        match(args, parameters)
        return result

    return returns


# ---- cast, convert -------------------------------------------------------------------------------------------------


def _named_type(args: Arguments) -> Type:
    match(args, (Parameter("to.be.converted", _ANY), constant("type", Type.STRING)))
    name = str(args[1].value).lower()
    if name not in {t.value for t in Type}:
        raise SignatureError(f"'{args[1].value}' is not a type; types are {', '.join(t.value for t in Type)}")
    return Type(name)


def _cast_type(args: Arguments) -> Type:
    target = _named_type(args)
    if target is Type.OBJECT:
        raise SignatureError("nothing is cast to object")
    return target


def _convert_type(args: Arguments) -> Type:
    target = _named_type(args)
    if target is Type.OBJECT:
        raise SignatureError("nothing converts to object")
    if args[0].type is Type.OBJECT and target is not Type.STRING:
        raise SignatureError(f"an object converts to string only, not to {target}")
    return target


def _make_cast(args: Arguments, result: Type) -> Callable[..., Any]:
    return lambda value, _type: value


_PARSED: dict[Type, Callable[[str], object]] = {
    Type.INT: parse_int,
    Type.LONG: parse_long,
    Type.FLOAT: parse_float,
    Type.DOUBLE: parse_double,
}


def _make_convert(args: Arguments, result: Type) -> Callable[..., Any]:
    source = args[0].type
    if result is Type.STRING:
        return lambda value, _type: None if value is None else java_text(value, source)
    if result is Type.BOOL:
        return lambda value, _type: _to_bool(value)
    parse, zero, one = _PARSED[result], number_as(0, result), number_as(1, result)

    def to_number(value: Any, _type: str) -> object:
        if value is None:
            return None
        if value is True or value is False:
            return one if value else zero
        return parse(value) if type(value) is str else number_as(value, result)

    return to_number


def _to_bool(value: Any) -> bool:
    if type(value) is str:
        return value.lower() == "true"
    return value is not None and value == 1


# ---- choice --------------------------------------------------------------------------------------------------------


def _coalesce_type(args: Arguments) -> Type:
    match(args, (Parameter("arg", _ANY), Parameter("arg", _ANY, rest=True)))
    return one_type(args)


def _default_type(args: Arguments) -> Type:
    match(args, (Parameter("attribute", _ANY), constant("default", *_VALUES)))
    return one_type(args, "'attribute' and 'default'")


def _if_type(args: Arguments) -> Type:
    match(args, (Parameter("condition", (Type.BOOL,)), Parameter("if", _ANY), Parameter("else", _ANY)))
    return one_type(args[1:], "'if' and 'else'")


def _first_of(args: Arguments, result: Type) -> Callable[..., Any]:
    return lambda *values: next((v for v in values if v is not None), None)


def _make_if(args: Arguments, result: Type) -> Callable[..., Any]:
    return lambda condition, then, otherwise: then if condition is True else otherwise


# ---- instanceOf ----------------------------------------------------------------------------------------------------

_EXAMPLES = {
    "Boolean": "instanceOfBoolean(true) → true",
    "Double": "instanceOfDouble(1.5) → true",
    "Float": "instanceOfFloat(1.5) → false",
    "Integer": "instanceOfInteger(5L) → false",
    "Long": "instanceOfLong(5L) → true",
    "String": "instanceOfString('a') → true",
}
_CLASS_OF = {Type.INT: "Integer", Type.LONG: "Long", Type.FLOAT: "Float", Type.DOUBLE: "Double"}


def runtime_class(value: Any, declared: Type) -> str:
    """The Java class of a value; Python's one int and one float are told apart by the declared type, or else by size.

    >>> runtime_class(5, Type.LONG), runtime_class(5, Type.OBJECT), runtime_class("x", Type.INT)
    ('Long', 'Integer', 'String')
    """
    kind = type(value)
    if kind is str:
        return "String"
    if kind is bool:
        return "Boolean"
    if kind is int:
        if declared in (Type.INT, Type.LONG):
            return _CLASS_OF[declared]
        return "Integer" if INT_MIN <= value <= INT_MAX else "Long"
    if kind is float:
        # a double that came in a float attribute is told by the digits that a float has not
        return "Float" if declared is Type.FLOAT and to_float32(value) == value else "Double"
    return kind.__name__


def _instance_of(name: str) -> ScalarFunction:
    def make(args: Arguments, result: Type) -> Callable[..., Any]:
        declared = args[0].type
        return lambda value: runtime_class(value, declared) == name

    return ScalarFunction(
        f"instanceOf{name}",
        _fixed(Type.BOOL, Parameter("arg", _ANY)),
        make,
        f"Whether a value is of the Java class {name}; of null it is false.",
        ("arg",),
        (_EXAMPLES[name],),
    )


# ---- greatest and least --------------------------------------------------------------------------------------------


def _numbers_type(args: Arguments) -> Type:
    match(args, (Parameter("arg", NUMBERS), Parameter("arg", NUMBERS, rest=True)))
    return one_type(args)


def _make_maximum(args: Arguments, result: Type) -> Callable[..., Any]:
    if len(args) == 1:
        return _identity(args, result)

    def maximum(*values: float | None) -> float:
        found = DOUBLE_MIN  # as in Siddhi, so negative values never win (semantics/expressions.md#functions)
        for value in values:
            if value is not None and value > found:
                found = float(value)
        return number_as(found, result)

    return maximum


def _make_minimum(args: Arguments, result: Type) -> Callable[..., Any]:
    if len(args) == 1:
        return _identity(args, result)

    def minimum(*values: float | None) -> float:
        found = DOUBLE_MAX
        for value in values:
            if value is not None and value < found:
                found = float(value)
        return number_as(found, result)

    return minimum


# ---- sets, time, identity ------------------------------------------------------------------------------------------


def _make_uuid(args: Arguments, result: Type) -> Callable[..., Any]:
    """Not random: the same call of the same event gets the same id on a replay."""

    def unique_id(call: str) -> str:
        digest = hashlib.blake2b(call.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        return str(uuid.UUID(bytes=digest, version=4))

    return unique_id


def _identity(args: Arguments, result: Type) -> Callable[..., Any]:
    return lambda value: value


def _size(value: Any) -> int:
    if value is None:
        return 0
    if not isinstance(value, (set, frozenset)):
        raise WrongClass(f"{told(value)} is not a set")
    return len(value)


FUNCTIONS: tuple[ScalarFunction, ...] = (
    ScalarFunction(
        "cast",
        _cast_type,
        _make_cast,
        "Declares a type without converting: a value of another class fails later, where it is used.",
        ("to.be.converted", "type"),
        ("cast(5, 'long') → 5L",),
        inline="cast",
    ),
    ScalarFunction(
        "convert",
        _convert_type,
        _make_convert,
        "Converts: text is parsed (null if it cannot be), numbers are narrowed as Java does, bools are 1 and 0.",
        ("to.be.converted", "type"),
        ("convert('55.6', 'float') → 55.6f", "convert('x', 'int') → null"),
    ),
    ScalarFunction(
        "coalesce",
        _coalesce_type,
        _first_of,
        "The first argument that is not null.",
        ("arg", "…"),
        ("coalesce('a', 'b') → 'a'",),
        inline="coalesce",
    ),
    ScalarFunction(
        "default",
        _default_type,
        _first_of,
        "The attribute, or the constant where it is null.",
        ("attribute", "default"),
        ("default(convert('x', 'int'), 7) → 7",),
        inline="coalesce",
    ),
    ScalarFunction(
        "ifThenElse",
        _if_type,
        _make_if,
        "One of two values; only the chosen one is evaluated, and a null condition chooses the second.",
        ("condition", "if", "else"),
        ("ifThenElse(40 > 35, 'high', 'low') → 'high'",),
        inline="ifThenElse",
    ),
    *(_instance_of(name) for name in ("Boolean", "Double", "Float", "Integer", "Long", "String")),
    ScalarFunction(
        "UUID",
        _fixed(Type.STRING),
        _make_uuid,
        "A unique id; the same one when the event is replayed.",
        (),
        ("UUID()",),
        needs=("unique",),
    ),
    ScalarFunction(
        "currentTimeMillis",
        _fixed(Type.LONG),
        _identity,
        "The app's clock in ms.",
        (),
        ("currentTimeMillis() → 1600000000000L",),
        needs=("now",),
        inline="now",
    ),
    ScalarFunction(
        "eventTimestamp",
        _fixed(Type.LONG),
        _identity,
        "The timestamp in ms of the event, or of the pattern's element that is given.",
        ("element",),
        ("eventTimestamp() → 1600000000000L",),
        needs=("timestamp",),
        inline="timestamp",
    ),
    ScalarFunction(
        "maximum",
        _numbers_type,
        _make_maximum,
        "The greatest argument, nulls left out; where none of several is positive, the smallest positive double (0 as int or long).",
        ("arg", "…"),
        ("maximum(4, 9, 1) → 9", "maximum(-5, -3) → 0"),
    ),
    ScalarFunction(
        "minimum",
        _numbers_type,
        _make_minimum,
        "The least argument, nulls left out.",
        ("arg", "…"),
        ("minimum(4, 9, 1) → 1",),
    ),
    ScalarFunction(
        "createSet",
        _fixed(Type.OBJECT, Parameter("input", _VALUES)),
        lambda args, result: lambda value: frozenset((value,)),
        "A set that holds the value, null or not.",
        ("input",),
        ("createSet('IBM') → [\"IBM\"]",),
    ),
    ScalarFunction(
        "sizeOfSet",
        _fixed(Type.INT, Parameter("set", (Type.OBJECT,))),
        lambda args, result: _size,
        "How many values a set holds; 0 for null.",
        ("set",),
        ("sizeOfSet(createSet('IBM')) → 1",),
    ),
)
