"""Java's arithmetic where it shows (semantics/expressions.md#numbers): wrap-around, float32, division, narrowing, the text of numbers.

Values: int and long are Python ints within 32 and 64 bits, double is a Python float, float is a Python float that a 32-bit float can hold.
None (null) is never passed to these functions unless they say so.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable
from ctypes import c_float
from fractions import Fraction

from nadi.lang.tree import Type

INT_MIN, INT_MAX = -(2**31), 2**31 - 1
LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1
DOUBLE_MIN, DOUBLE_MAX = 5e-324, 1.7976931348623157e308

# ---- widths --------------------------------------------------------------------------------------------------------


def wrap_int(value: int) -> int:
    """The low 32 bits, signed.

    >>> wrap_int(2**31)
    -2147483648
    """
    return (value + 0x80000000 & 0xFFFFFFFF) - 0x80000000


def wrap_long(value: int) -> int:
    """The low 64 bits, signed."""
    return (value + 0x8000000000000000 & 0xFFFFFFFFFFFFFFFF) - 0x8000000000000000


def to_float32(value: float) -> float:
    """The nearest 32-bit float, infinity where there is none.

    >>> to_float32(55.6)
    55.599998474121094
    """
    if type(value) is int and not -(2**53) <= value <= 2**53:
        return _long_to_float32(value)
    return c_float(value).value


def _long_to_float32(value: int) -> float:
    """Rounds once: by way of a double, which cannot hold the value, it would be rounded twice."""
    size = abs(value)
    shift = size.bit_length() - 40
    kept = size >> shift
    if size & ((1 << shift) - 1):
        kept |= 1  # what was cut off still decides ties
    return c_float(math.copysign(math.ldexp(kept, shift), value)).value


# ---- division ------------------------------------------------------------------------------------------------------


def divide_ints(left: int, right: int) -> int:
    """Truncates toward zero; the divisor is not 0, and the result may need wrapping (least value / -1).

    >>> divide_ints(-7, 2)
    -3
    """
    quotient = left // right
    return quotient + 1 if quotient < 0 and quotient * right != left else quotient


def remainder_ints(left: int, right: int) -> int:
    """Has the sign of the dividend; the divisor is not 0.

    >>> remainder_ints(-7, 2)
    -1
    """
    rest = left % right
    return rest - right if rest and (left < 0) != (right < 0) else rest


def remainder_floats(left: float, right: float) -> float:
    """Has the sign of the dividend; NaN where the dividend is infinite."""
    return math.nan if math.isinf(left) else math.fmod(left, right)


# ---- narrowing -----------------------------------------------------------------------------------------------------


def float_to_int(value: float) -> int:
    """(int) of a float or double: truncates, saturates; NaN gives 0.

    >>> float_to_int(1e10), float_to_int(-3.9)
    (2147483647, -3)
    """
    return _saturated(value, INT_MIN, INT_MAX)


def float_to_long(value: float) -> int:
    """(long) of a float or double."""
    return _saturated(value, LONG_MIN, LONG_MAX)


def _saturated(value: float, least: int, most: int) -> int:
    if value != value:
        return 0
    if value <= least:
        return least
    return most if value >= most else int(value)


def number_as(value: float, kind: Type) -> float:
    """Java's `((Number) value).<kind>Value()`.

    Raises:
        TypeError: it is no number.
    """
    if type(value) is int:
        if kind is Type.INT:
            return wrap_int(value)
        if kind is Type.LONG:
            return value
    elif type(value) is float:
        if kind is Type.INT:
            return float_to_int(value)
        if kind is Type.LONG:
            return float_to_long(value)
    else:
        raise WrongClass(f"{told(value)} is not a number")
    return to_float32(value) if kind is Type.FLOAT else float(value)


# ---- text ----------------------------------------------------------------------------------------------------------


def double_text(value: float) -> str:
    """Java's `Double.toString`.

    >>> double_text(55.6), double_text(1e10), double_text(100.0)
    ('55.6', '1.0E10', '100.0')
    """
    return _float_text(value, repr)


def float_text(value: float) -> str:
    """Java's `Float.toString`: the shortest decimal that means this 32-bit float.

    >>> float_text(to_float32(55.6))
    '55.6'
    """
    return _float_text(value, _shortest_float32)


def _float_text(value: float, shortest: Callable[[float], str]) -> str:
    if value != value:
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0:
        return "-0.0" if math.copysign(1.0, value) < 0 else "0.0"
    sign, size = ("-", -value) if value < 0 else ("", value)
    text = shortest(size)
    if size < 1e-300 or (size < 2e-37 and shortest is _shortest_float32):
        text = _two_digits(size, text, shortest)
    digits, exponent = _digits(text)
    if 1e-3 <= size < 1e7:
        return sign + _plain(digits, exponent)
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent}"


def _two_digits(size: float, text: str, shortest: Callable[[float], str]) -> str:
    """Java writes at least two digits, and of those decimals the nearest: 4.9E-324, where one digit would do (5E-324)."""
    nearest = f"{size:.1e}"
    return nearest if len(_digits(text)[0]) == 1 and shortest(_read(nearest, shortest)) == text else text


def _read(text: str, shortest: Callable[[float], str]) -> float:
    return c_float(float(text)).value if shortest is _shortest_float32 else float(text)


def _shortest_float32(size: float) -> str:
    for precision in range(1, 10):
        text = f"{size:.{precision}g}"
        if c_float(float(text)).value == size:
            return text
    return repr(size)


def _digits(text: str) -> tuple[str, int]:
    """Significant digits of a positive decimal, and the power of ten of the first one."""
    mantissa, _e, power = text.partition("e")
    whole, _dot, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    exponent = int(power or 0) + (len(whole) - 1 if whole.strip("0") else len(digits) - len(fraction) - 1)
    return digits.rstrip("0") or "0", exponent


def _plain(digits: str, exponent: int) -> str:
    if exponent < 0:
        return f"0.{'0' * (-exponent - 1)}{digits}"
    whole, fraction = digits[: exponent + 1].ljust(exponent + 1, "0"), digits[exponent + 1 :]
    return f"{whole}.{fraction or '0'}"


def java_text(value: object, kind: Type | None = None) -> str:
    """`String.valueOf(value)`; `kind` tells floats from doubles (None: a double).

    >>> java_text(None), java_text(True), java_text(7), java_text(0.5)
    ('null', 'true', '7', '0.5')
    """
    if type(value) is str:
        return value
    if value is None:
        return "null"
    if value is True:
        return "true"
    if value is False:
        return "false"
    if type(value) is float:
        return float_text(value) if kind is Type.FLOAT else double_text(value)
    if isinstance(value, (list, tuple, set, frozenset)):
        return f"[{', '.join(java_text(x) for x in value)}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{java_text(k)}={java_text(v)}' for k, v in value.items())}}}"
    return str(value)


class WrongClass(TypeError):
    """A value is of another class than an operation needs; the text says so in words of the language."""


def told(value: object) -> str:
    """A value as it is shown to whoever reads why an event failed; texts stand in quotes.

    >>> told("a"), told(None), told(True), told({"a": 1.5}), told(7)
    ("'a'", 'null', 'true', '{a=1.5}', '7')
    """
    return repr(value) if isinstance(value, str) else java_text(value)


# ---- parsing -------------------------------------------------------------------------------------------------------

_MOST_DIGITS = 40
_INTEGER = re.compile(r"[+-]?\d+\Z")
_DECIMAL = re.compile(r"[+-]?(NaN|Infinity|([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[dDfF]?)\Z")
_HEXADECIMAL = re.compile(
    r"(?P<sign>[+-]?)0[xX](?P<whole>[0-9a-fA-F]*)(?:\.(?P<part>[0-9a-fA-F]*))?[pP](?P<power>[+-]?[0-9]+)[dDfF]?\Z"
)
_BLANK = "".join(map(chr, range(33)))
_GREATEST_MIDDLE = 2.0**128 - 2.0**103
"""From here on a double is infinite as a float."""


def parse_int(text: str, least: int = INT_MIN, most: int = INT_MAX) -> int | None:
    """`Integer.parseInt`, of the digits of any script; None where it would throw."""
    if not _INTEGER.match(text) or max(text) > "\uffff":
        return None
    if len(text) > _MOST_DIGITS:  # Python reads so many only when asked; zeros may stand in front
        sign = text[0] if text[0] in "+-" else ""
        text = sign + ("".join(str(int(digit)) for digit in text[len(sign) :]).lstrip("0") or "0")
        if len(text) > _MOST_DIGITS:
            return None
    value = int(text)
    return value if least <= value <= most else None


def parse_long(text: str) -> int | None:
    """`Long.parseLong`; None where it would throw."""
    return parse_int(text, LONG_MIN, LONG_MAX)


def parse_double(text: str) -> float | None:
    """`Double.parseDouble`; None where it would throw.

    >>> parse_double(" 1e3 "), parse_double("-0x1.8p1"), parse_double("0x10")
    (1000.0, -3.0, None)
    """
    text = text.strip(_BLANK)
    if _DECIMAL.match(text):
        return float(text if text.endswith(("NaN", "Infinity")) else text.rstrip("dDfF"))
    found = _HEXADECIMAL.match(text)
    if found is None or not (found["whole"] or found["part"]):
        return None
    try:
        return float.fromhex(f"{found['sign']}0x{found['whole']}.{found['part'] or ''}p{_power(found['power'])}")
    except OverflowError:
        return -math.inf if found["sign"] == "-" else math.inf


def parse_float(text: str) -> float | None:
    """`Float.parseFloat`, which rounds once; None where it would throw.

    >>> parse_float("1.00000005960464477539062500001"), to_float32(1.00000005960464477539062500001)
    (1.0000001192092896, 1.0)
    """
    value = parse_double(text)
    if value is None or not math.isfinite(value):
        return value
    rounded = to_float32(value)
    if rounded == value:
        return rounded
    other = _float_beside(rounded, value)
    middle = abs(value) == _GREATEST_MIDDLE if math.isinf(rounded) else abs(value - rounded) == abs(other - value)
    if not middle:
        return rounded
    rest = _exactly(text.strip(_BLANK)) - Fraction(value)  # the double lies between two floats: what it lost decides
    return rounded if rest == 0 else max(rounded, other) if rest > 0 else min(rounded, other)


def _float_beside(value: float, toward: float) -> float:
    """The next 32-bit float in a direction."""
    if value == 0:
        return math.copysign(2.0**-149, toward)
    (bits,) = struct.unpack("<i", struct.pack("<f", value))
    found: float = struct.unpack("<f", struct.pack("<i", bits + (1 if (toward > value) == (value > 0) else -1)))[0]
    return found


def _exactly(text: str) -> Fraction:
    """The value of a text that is a number."""
    found = _HEXADECIMAL.match(text)
    if found is None:
        return Fraction(text.rstrip("dDfF"))
    part = found["part"] or ""
    size = int(found["whole"] + part, 16) * Fraction(2) ** (_power(found["power"]) - 4 * len(part))
    return -size if found["sign"] == "-" else size


def _power(digits: str) -> int:
    """An exponent; of those that no number can have, one that makes it zero or infinite as well."""
    sign, size = digits.startswith("-"), digits.lstrip("+-").lstrip("0") or "0"
    value = int(size) if len(size) < 10 else 10**9
    return -value if sign else value
