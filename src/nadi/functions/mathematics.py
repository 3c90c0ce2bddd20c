"""The namespace `math`: what `java.lang.Math` gives, NaN and infinities included; a null argument makes the result null.

Sines, logarithms and the like come from the C library: the last digit may differ from the JVM's.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from typing import Any

from nadi.functions.arithmetic import (
    INT_MAX,
    INT_MIN,
    LONG_MAX,
    LONG_MIN,
    double_text,
    parse_double,
    parse_float,
    parse_int,
    parse_long,
)
from nadi.functions.declare import NULL, failed, returning, scalar, text, whole
from nadi.functions.entries import Accumulator, Aggregator, Bag, Entry, ScalarFunction, State
from nadi.functions.signatures import NUMBERS, Arguments, Parameter, constant
from nadi.lang.tree import Type
from nadi.plan.aggregatortraits import ON_ROWS
from nadi.plan.catalog import SignatureError

_NUMBER = Parameter("p1", NUMBERS)
_SECOND = Parameter("p2", NUMBERS)
_FLOATING = Parameter("p1", (Type.FLOAT, Type.DOUBLE))
_WHOLE = Parameter("p1", (Type.INT, Type.LONG))


def _defined(function: Callable[[float], float], beyond: float = math.nan) -> Callable[[float], float]:
    """NaN where the function is not defined, `beyond` where it is too large."""

    def call(value: float) -> float:
        try:
            return function(float(value))
        except ValueError:
            return math.nan
        except OverflowError:
            return math.copysign(beyond, value)

    return call


def _log(value: float) -> float:
    return -math.inf if value == 0 else math.log(value)


def _log10(value: float) -> float:
    return -math.inf if value == 0 else math.log10(value)


def _log_to(value: float, base: float) -> float:
    if base == 1:
        raise failed("math:log", "there is no logarithm to the base 1")
    top, bottom = _defined(_log)(value), _defined(_log)(base)
    return top / bottom if bottom else math.nan


def _power(base: float, exponent: float) -> float:
    value, power = float(base), float(exponent)
    if math.isnan(power) or (abs(value) == 1 and math.isinf(power)):
        return math.nan  # C says 1.0
    try:
        return math.pow(value, power)
    except ValueError:
        if value == 0:
            odd = power == int(power) and int(power) % 2 == 1
            return math.copysign(math.inf, value) if odd else math.inf
        return math.nan
    except OverflowError:
        return -math.inf if value < 0 and int(power) % 2 else math.inf


def _cube_root(value: float) -> float:
    """The library's root and one step of Newton's: exact for cubes."""
    root = math.cbrt(float(value))
    try:
        return root - (root**3 - value) / (3 * root * root) if root and math.isfinite(root) else root
    except OverflowError:  # beside the greatest number
        return root


def _rounded(value: float, least: int, most: int) -> int:
    """`Math.round`: halves go up."""
    if math.isnan(value):
        return 0
    if math.isinf(value):
        return most if value > 0 else least
    below = math.floor(value)
    return min(max(below + 1 if value - below >= 0.5 else below, least), most)


def _make_round(args: Arguments, result: Type) -> Callable[..., Any]:
    least, most = (INT_MIN, INT_MAX) if result is Type.INT else (LONG_MIN, LONG_MAX)
    return lambda value: _rounded(value, least, most)


def _stepped(step: Callable[[float], int]) -> Callable[[float], float]:
    return lambda value: math.copysign(float(step(value)), value) if math.isfinite(value) else value


def _signum(value: float) -> int:
    return (value > 0) - (value < 0)


def _extreme(greatest: bool) -> Callable[[float, float], float]:
    def choose(one: float, other: float) -> float:
        left, right = float(one), float(other)
        if math.isnan(left) or math.isnan(right):
            return math.nan
        if left == right:  # 0.0 and -0.0
            return left if (math.copysign(1, left) > 0) is greatest else right
        return max(left, right) if greatest else min(left, right)

    return choose


def _exponent(value: float) -> int:
    """`Math.getExponent` of a double: Siddhi makes one of any number."""
    number = float(value)
    if not math.isfinite(number):
        return 1024
    found = math.frexp(number)[1] - 1
    return -1023 if number == 0 or found < -1022 else found


# ---- text of numbers -----------------------------------------------------------------------------------------------


def _unsigned(form: str) -> Callable[[Arguments, Type], Callable[..., Any]]:
    """As an unsigned number of the width of its type."""

    def make(args: Arguments, result: Type) -> Callable[..., Any]:
        mask = 0xFFFFFFFF if args[0].type is Type.INT else 0xFFFFFFFFFFFFFFFF
        return lambda value: format(value & mask, form)

    return make


def _make_hex(args: Arguments, result: Type) -> Callable[..., Any]:
    if args[0].type in (Type.INT, Type.LONG):
        return _unsigned("x")(args, result)
    least = -126 if args[0].type is Type.FLOAT else -1022

    def of_floating(value: float) -> str:
        if not math.isfinite(value):
            return double_text(value)
        sign = "-" if math.copysign(1, value) < 0 else ""
        size = abs(value)
        if size == 0:
            return f"{sign}0x0.0p0"
        if size < 2.0**least:
            fraction = math.ldexp(size, -least).hex() if least == -126 else size.hex()
            digits = _fraction_digits(size, least) if least == -126 else fraction.partition(".")[2].partition("p")[0]
            return f"{sign}0x0.{digits.rstrip('0') or '0'}p{least}"
        mantissa, _p, power = size.hex().partition("p")
        return f"{sign}0x1.{mantissa.partition('.')[2].rstrip('0') or '0'}p{int(power)}"

    return of_floating


def _fraction_digits(size: float, least: int) -> str:
    """The hexadecimal digits of size / 2**least, which is below 1."""
    return f"{int(math.ldexp(size, 24 - least)):06x}"


_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def _conv(number: str, source: int, target: int) -> str:
    digits = number[1:] if number[:1] in ("-", "+") else number
    known = _DIGITS[:source].lower()
    if not 2 <= source <= 36 or not digits or any(c not in known for c in digits.lower()):
        raise failed("math:conv", f"{number!r} is not a number to the base {source}")
    value = int(number, source)
    if not INT_MIN <= value <= INT_MAX:
        raise failed("math:conv", f"{number!r} does not fit into int")
    return _to_base(value, target if 2 <= target <= 36 else 10)


def _to_base(value: int, base: int) -> str:
    size, digits = abs(value), ""
    while size or not digits:
        size, digit = divmod(size, base)
        digits = _DIGITS[digit] + digits
    return f"-{digits}" if value < 0 else digits


def _parsing(name: str, result: Type, parse: Callable[[str], Any], example: str) -> ScalarFunction:
    def parsed(value: str) -> Any:
        found = parse(value)
        if found is None:
            raise failed(name, f"{value!r} is not a number of type {result}")
        return found

    doc = f"The {result} that a text is; one that is none is an error."
    return scalar(name, doc, (example,), result, [(text("p1"),)], parsed, nulls=NULL)


# ---- random --------------------------------------------------------------------------------------------------------


def _make_random(args: Arguments, result: Type) -> Callable[..., Any]:
    """From a hash of the call, so that a replay gets the same numbers; `java.util.Random` gives others for a seed."""
    seed = str(args[0].value) if args else ""

    def random(call: str, *_seed: int) -> float:
        digest = hashlib.blake2b(f"{seed}/{call}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
        return (int.from_bytes(digest, "big") >> 11) / float(1 << 53)

    return random


# ---- percentile ----------------------------------------------------------------------------------------------------


def _percentile_type(args: Arguments) -> Type:
    share = args[1].value
    if not isinstance(share, (int, float)) or not 0 < share <= 100:
        raise SignatureError(f"'p' must be greater than 0 and at most 100, it is {share}")
    return Type.DOUBLE


def _make_percentile(args: Arguments, removes: bool) -> Accumulator:
    share = float(args[1].value or 0)

    def shown(bag: Bag, group: object) -> float | None:
        values = sorted(float(v) for v in bag.values(group) for _ in range(bag.count(group, v)))
        if not values:
            return None
        index = share * len(values) / 100
        place = int(index)
        if index != place:
            return values[max(_rounded(index, 0, len(values)), 1) - 1]
        return values[-1] if place == len(values) else (values[place - 1] + values[place]) / 2

    def step(adding: bool) -> Callable[[State, Any, Bag | None, object], Any]:
        def change(state: State, value: Any, bag: Bag | None, group: object) -> Any:
            if bag is None:
                raise ValueError("math:percentile needs a bag")
            if value is not None:
                (bag.add if adding else bag.remove)(group, value)
            return shown(bag, group)

        return change

    return Accumulator(list, step(True), step(False), bag=True)


# ---- entries -------------------------------------------------------------------------------------------------------

_D = Type.DOUBLE


def _of(
    name: str, doc: str, example: str, function: Callable[..., Any], parameter: Parameter = _NUMBER, result: Type = _D
) -> ScalarFunction:
    return scalar(f"math:{name}", doc, (f"math:{name}({example}",), result, [(parameter,)], function, nulls=NULL)


def _of_two(name: str, doc: str, examples: tuple[str, ...], function: Callable[..., Any]) -> ScalarFunction:
    return scalar(f"math:{name}", doc, examples, _D, [(_NUMBER, _SECOND)], function, nulls=NULL)


ENTRIES: tuple[Entry, ...] = (
    _of("abs", "The size of a number.", "-3) → 3.0", lambda x: abs(float(x))),
    _of("acos", "The arc cosine in radians; NaN outside -1 to 1.", "1.0) → 0.0", _defined(math.acos), _FLOATING),
    _of("asin", "The arc sine in radians; NaN outside -1 to 1.", "0.0) → 0.0", _defined(math.asin), _FLOATING),
    scalar(
        "math:atan",
        "The arc tangent in radians, of a number or of the quotient of two.",
        ("math:atan(0.0) → 0.0", "math:atan(5.0, 5.0) → 0.7853981633974483"),
        _D,
        [(_NUMBER,), (_NUMBER, _SECOND)],
        lambda y, x=None: math.atan(y) if x is None else math.atan2(y, x),
        nulls=NULL,
    ),
    scalar(
        "math:bin",
        "A number in binary digits.",
        ("math:bin(9) → '1001'",),
        Type.STRING,
        [(_WHOLE,)],
        make=_unsigned("b"),
        nulls=NULL,
    ),
    _of("cbrt", "The cube root.", "27) → 3.0", _cube_root),
    _of("ceil", "The least whole number that is not less.", "423.187) → 424.0", _stepped(math.ceil), _FLOATING),
    scalar(
        "math:conv",
        "A number in the digits of another base, from 2 to 36.",
        ("math:conv('7f', 16, 10) → '127'",),
        Type.STRING,
        [(text("a"), whole("from.base"), whole("to.base"))],
        _conv,
        nulls=NULL,
    ),
    _of_two(
        "copySign",
        "The size of the first number with the sign of the second.",
        ("math:copySign(5.6, -3.0) → -5.6",),
        lambda size, sign: math.copysign(float(size), float(sign)),
    ),
    _of("cos", "The cosine of an angle in radians.", "0.0) → 1.0", _defined(math.cos)),
    _of("cosh", "The hyperbolic cosine.", "0.0) → 1.0", lambda x: abs(_defined(math.cosh, math.inf)(x))),
    scalar("math:e", "The base of natural logarithms.", ("math:e() → 2.718281828459045",), _D, [()], lambda: math.e),
    _of("exp", "e to the power of a number.", "0) → 1.0", lambda x: abs(_defined(math.exp, math.inf)(x))),
    _of("floor", "The greatest whole number that is not greater.", "-1.5) → -2.0", _stepped(math.floor)),
    scalar(
        "math:getExponent",
        "The exponent of the binary form.",
        ("math:getExponent(60984.1) → 15",),
        Type.INT,
        [(_NUMBER,)],
        _exponent,
        nulls=NULL,
    ),
    scalar(
        "math:hex",
        "A number in hexadecimal digits; of float and double as Java writes them.",
        ("math:hex(200) → 'c8'", "math:hex(-1) → 'ffffffff'", "math:hex(1.5) → '0x1.8p0'"),
        Type.STRING,
        [(_NUMBER,)],
        make=_make_hex,
        nulls=NULL,
    ),
    _of("isInfinite", "Whether a number is infinite.", "1.5) → false", math.isinf, _FLOATING, Type.BOOL),
    _of("isNan", "Whether a number is NaN.", "math:sqrt(-1)) → true", math.isnan, _FLOATING, Type.BOOL),
    _of("ln", "The natural logarithm; NaN below 0, -Infinity of 0.", "1) → 0.0", _defined(_log)),
    _of_two("log", "The logarithm to a base, which must not be 1.", ("math:log(34, 2f) → 5.08746284125034",), _log_to),
    _of("log10", "The logarithm to the base 10.", "100) → 2.0", _defined(_log10)),
    _of("log2", "The logarithm to the base 2.", "8) → 3.0", lambda x: _log_to(float(x), 2.0)),
    _of_two("max", "The greater of two numbers, as double.", ("math:max(123.67, 91) → 123.67",), _extreme(True)),
    _of_two("min", "The less of two numbers, as double.", ("math:min(123.67, 91) → 91.0",), _extreme(False)),
    scalar(
        "math:oct",
        "A number in octal digits.",
        ("math:oct(99L) → '143'",),
        Type.STRING,
        [(_WHOLE,)],
        make=_unsigned("o"),
        nulls=NULL,
    ),
    _parsing("math:parseDouble", _D, parse_double, "math:parseDouble('123') → 123.0"),
    _parsing("math:parseFloat", Type.FLOAT, parse_float, "math:parseFloat('55.6') → 55.6f"),
    _parsing("math:parseInt", Type.INT, parse_int, "math:parseInt('123') → 123"),
    _parsing("math:parseLong", Type.LONG, parse_long, "math:parseLong('123') → 123L"),
    scalar(
        "math:pi",
        "The ratio of a circle's circumference to its diameter.",
        ("math:pi() → 3.141592653589793",),
        _D,
        [()],
        lambda: math.pi,
    ),
    _of_two(
        "power", "The first number to the power of the second.", ("math:power(5.6, 3.0) → 175.61599999999996",), _power
    ),
    scalar(
        "math:rand",
        "A number from 0 up to 1, not included; the same one when the event is replayed.",
        ("math:rand()", "math:rand(42)"),
        _D,
        [(), (constant("seed", Type.INT, Type.LONG),)],
        make=_make_random,
        nulls=NULL,
        needs=("unique",),
    ),
    scalar(
        "math:round",
        "The nearest whole number, halves up: int of float, long of double.",
        ("math:round(3252.353) → 3252L", "math:round(-2.5f) → -2"),
        lambda args: Type.INT if args[0].type is Type.FLOAT else Type.LONG,
        [(_FLOATING,)],
        make=_make_round,
        nulls=NULL,
    ),
    _of("signum", "1, 0 or -1, as a number is above, at or below 0.", "-6.32) → -1", _signum, _NUMBER, Type.INT),
    _of("sin", "The sine of an angle in radians.", "0.0) → 0.0", _defined(math.sin)),
    _of("sinh", "The hyperbolic sine.", "0.0) → 0.0", _defined(math.sinh, math.inf)),
    _of("sqrt", "The square root; NaN below 0.", "4) → 2.0", _defined(math.sqrt)),
    _of("tan", "The tangent of an angle in radians.", "0.0) → 0.0", _defined(math.tan)),
    _of("tanh", "The hyperbolic tangent.", "0.0) → 0.0", math.tanh),
    _of("toDegrees", "An angle in radians as degrees.", "math:pi()) → 180.0", lambda x: x * 180.0 / math.pi),
    _of("toRadians", "An angle in degrees as radians.", "180) → 3.141592653589793", lambda x: x / 180.0 * math.pi),
    Aggregator(
        "math:percentile",
        returning(_percentile_type, (Parameter("arg", NUMBERS), constant("p", Type.DOUBLE))),
        _make_percentile,
        "The p-th percentile: the mean of two neighbours where p falls between them.",
        ("arg", "p"),
        ("math:percentile(x, 50.0) over 4, 1, 3, 2 → 2.5",),
        traits=ON_ROWS,
    ),
)
