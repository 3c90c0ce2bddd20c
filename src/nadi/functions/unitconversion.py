"""The namespace `unitconversion`: a number of one unit as a number of another, always double; null is an error.

Feet, inches, yards and miles are the international ones, pounds are avoirdupois, a year is 365.2425 days. The factors are exact; Siddhi's extension
rounds some of mass to six digits (an ounce to 0.02834952 kg), so that results may differ there from the sixth digit on.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from nadi.functions.arithmetic import double_text
from nadi.functions.declare import scalar
from nadi.functions.entries import Entry, ScalarFunction
from nadi.functions.signatures import NUMBERS, Parameter
from nadi.lang.tree import Type

_METRES = {
    "nm": ("nanometres", Fraction(1, 10**9)),
    "um": ("micrometres", Fraction(1, 10**6)),
    "mm": ("millimetres", Fraction(1, 1000)),
    "cm": ("centimetres", Fraction(1, 100)),
    "m": ("metres", Fraction(1)),
    "km": ("kilometres", Fraction(1000)),
    "Mm": ("megametres", Fraction(10**6)),
    "in": ("inches", Fraction(254, 10**4)),
    "ft": ("feet", Fraction(3048, 10**4)),
    "yd": ("yards", Fraction(9144, 10**4)),
    "mi": ("miles", Fraction(1609344, 1000)),
}
_KILOGRAMS = {
    "ug": ("micrograms", Fraction(1, 10**9)),
    "mg": ("milligrams", Fraction(1, 10**6)),
    "g": ("grams", Fraction(1, 1000)),
    "kg": ("kilograms", Fraction(1)),
    "t": ("tonnes", Fraction(1000)),
    "oz": ("ounces", Fraction(45359237, 16 * 10**8)),
    "lb": ("pounds", Fraction(45359237, 10**8)),
    "st": ("stones", Fraction(14 * 45359237, 10**8)),
    "LT": ("imperial tons", Fraction(2240 * 45359237, 10**8)),
    "ST": ("US tons", Fraction(2000 * 45359237, 10**8)),
}
_LITRES = {
    "ml": ("millilitres", Fraction(1, 1000)),
    "l": ("litres", Fraction(1)),
    "m3": ("cubic metres", Fraction(1000)),
}
_SECONDS = {
    "ns": ("nanoseconds", Fraction(1, 10**9)),
    "us": ("microseconds", Fraction(1, 10**6)),
    "ms": ("milliseconds", Fraction(1, 1000)),
    "s": ("seconds", Fraction(1)),
    "min": ("minutes", Fraction(60)),
    "h": ("hours", Fraction(3600)),
    "d": ("days", Fraction(86400)),
    "y": ("years", Fraction(3652425 * 86400, 10**4)),
}

_PAIRS: tuple[tuple[dict[str, tuple[str, Fraction]], str, str], ...] = (
    (_METRES, "cm", "ft in km m um mi mm nm yd"),
    (_METRES, "km", "cm ft in m um mi mm nm yd"),
    (_METRES, "Mm", "km"),
    (_METRES, "m", "cm ft mm yd"),
    (_METRES, "mi", "km"),
    (_KILOGRAMS, "g", "kg ug mg"),
    (_KILOGRAMS, "kg", "g LT oz lb st t ST"),
    (_KILOGRAMS, "t", "g kg"),
    (_LITRES, "m3", "l"),
    (_LITRES, "l", "m3 ml"),
    (_LITRES, "ml", "l"),
    (_SECONDS, "d", "h"),
    (_SECONDS, "h", "min s"),
    (_SECONDS, "min", "s"),
    (_SECONDS, "s", "us ms ns"),
    (_SECONDS, "y", "d"),
)


def _converter(factor: Fraction) -> Callable[[float], float]:
    """Divides where the inverse is the exact number: 1 cm is 0.01 m, not 0.010000000000000002."""
    if factor.numerator == 1 and factor.denominator > 1:
        divisor = float(factor.denominator)
        return lambda value: float(value) / divisor
    times = float(factor)
    return lambda value: float(value) * times


def _entry(units: dict[str, tuple[str, Fraction]], source: str, target: str) -> ScalarFunction:
    (what, size), (into, unit) = units[source], units[target]
    convert = _converter(size / unit)
    name = f"unitconversion:{source}To{target}"
    return scalar(
        name,
        f"Converts {what} to {into}.",
        (f"{name}(3) → {double_text(convert(3))}",),
        Type.DOUBLE,
        [(Parameter("p1", NUMBERS),)],
        convert,
    )


ENTRIES: tuple[Entry, ...] = tuple(
    _entry(units, source, target) for units, source, targets in _PAIRS for target in targets.split()
)
