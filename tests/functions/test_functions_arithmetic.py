"""Java's numbers (semantics/expressions.md#numbers)."""

from __future__ import annotations

import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nadi.functions import arithmetic as a
from nadi.lang.tree import Type

ints = st.integers(a.INT_MIN, a.INT_MAX)
longs = st.integers(a.LONG_MIN, a.LONG_MAX)


@given(st.integers())
def test_wrapping_keeps_the_low_bits(value: int) -> None:
    assert a.wrap_int(value) == struct.unpack("<i", struct.pack("<I", value & 0xFFFFFFFF))[0]
    assert a.wrap_long(value) == struct.unpack("<q", struct.pack("<Q", value & 0xFFFFFFFFFFFFFFFF))[0]


@given(longs, longs.filter(bool))
def test_division_truncates_and_the_remainder_has_the_dividends_sign(left: int, right: int) -> None:
    quotient, rest = a.divide_ints(left, right), a.remainder_ints(left, right)
    assert quotient * right + rest == left
    assert abs(rest) < abs(right)
    assert rest == 0 or (rest < 0) == (left < 0)


def test_the_remainder_of_floats_is_that_of_java() -> None:
    assert a.remainder_floats(-7.5, 2.0) == -1.5
    assert a.remainder_floats(5.0, math.inf) == 5.0
    assert math.isnan(a.remainder_floats(math.inf, 2.0))


@given(longs)
def test_a_long_is_rounded_to_float_once(value: int) -> None:
    rounded = a.to_float32(value)
    near = (
        [rounded, *(struct.unpack("<f", struct.pack("<I", _bits(rounded) + d))[0] for d in (-1, 1))]
        if rounded
        else [rounded]
    )
    assert min(abs(int(n) - value) for n in near) == abs(int(rounded) - value)


def _bits(value: float) -> int:
    return int(struct.unpack("<I", struct.pack("<f", value))[0])


def test_a_double_too_great_for_a_float_is_infinite() -> None:
    assert a.to_float32(1e39) == math.inf


@pytest.mark.parametrize(
    ("value", "kind", "narrowed"),
    [
        (1e10, Type.INT, 2147483647),
        (-1e10, Type.INT, -2147483648),
        (-3.9, Type.INT, -3),
        (math.nan, Type.INT, 0),
        (1e30, Type.LONG, 2**63 - 1),
        (2**32 + 5, Type.INT, 5),
        (16777217, Type.FLOAT, 16777216.0),
        (3, Type.DOUBLE, 3.0),
    ],
)
def test_numbers_are_narrowed_as_java_casts_them(value: float, kind: Type, narrowed: float) -> None:
    found = a.number_as(value, kind)
    assert found == narrowed
    assert type(found) is type(narrowed)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (55.6, "55.6"),
        (1e10, "1.0E10"),
        (100.0, "100.0"),
        (1e7, "1.0E7"),
        (9999999.0, "9999999.0"),
        (12345678.9, "1.23456789E7"),
        (0.001, "0.001"),
        (0.00012, "1.2E-4"),
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (-2.5, "-2.5"),
        (5e-324, "4.9E-324"),
        (math.inf, "Infinity"),
        (math.nan, "NaN"),
    ],
)
def test_doubles_are_written_as_java_writes_them(value: float, text: str) -> None:
    assert a.double_text(value) == text


@given(st.floats(allow_nan=False))
def test_the_text_of_a_double_means_that_double(value: float) -> None:
    assert a.parse_double(a.double_text(value)) == value


@given(st.floats(allow_nan=False, width=32))
def test_the_text_of_a_float_means_that_float(value: float) -> None:
    assert a.parse_float(a.float_text(value)) == value


def test_a_float_is_written_shorter_than_the_double_it_is() -> None:
    assert a.float_text(a.to_float32(55.6)) == "55.6"
    assert a.java_text(a.to_float32(0.1), Type.FLOAT) == "0.1"
    assert a.java_text(a.to_float32(0.1), Type.DOUBLE) == "0.10000000149011612"


def test_maps_and_lists_are_written_as_java_writes_them() -> None:
    value = {"a": [1, None, 2.0], "on": True, "in": {7: "x"}, "none": {}}
    assert a.java_text(value) == "{a=[1, null, 2.0], on=true, in={7=x}, none={}}"
    assert a.java_text((1, "x")) == "[1, x]"


@pytest.mark.parametrize("text", ["", " 5", "5.0", "0x5", "2147483648", "five", "𝟘", "-", "１_0"])
def test_text_that_is_no_int_parses_to_null(text: str) -> None:
    assert a.parse_int(text) is None


@pytest.mark.parametrize(("text", "value"), [("5", 5), ("-2147483648", -(2**31)), ("+7", 7), ("١٢", 12), ("-１2", -12)])
def test_text_that_is_an_int_parses(text: str, value: int) -> None:
    assert a.parse_int(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (" 5.5 ", 5.5),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("5d", 5.0),
        ("NaNf", None),
        ("x", None),
        ("\x00\t5\x1f", 5.0),
        ("\xa05", None),
        ("١", None),
        ("0x1.8p1", 3.0),
        ("-0X.8P+3D", -4.0),
        ("0x1.f", None),
        ("0xp1", None),
        ("0x1p1f", 2.0),
        ("0x1p1024", math.inf),
        ("-0x1p99999999999999999999", -math.inf),
        ("0x1p-99999999999999999999", 0.0),
        ("0x1p-1074", 5e-324),
    ],
)
def test_doubles_are_parsed_in_javas_forms(text: str, value: float | None) -> None:
    assert a.parse_double(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1.000000059604644775390625", 1.0),
        ("1.00000005960464477539062500001", 1.0000001192092896),
        ("-1.00000005960464477539062500001", -1.0000001192092896),
        ("1.00000017881393432617187499999", 1.0000001192092896),
        ("0x1.00000100000000000001p0", 1.0000001192092896),
        ("7.0064923216240853546186479164495e-46", 0.0),
        ("7.0064923216240853546186479164496e-46", 1.401298464324817e-45),
        ("3.4028235e38", 3.4028234663852886e38),
        ("3.4028235677973366e38", 3.4028234663852886e38),
        ("-3.4028235677973366e38", -3.4028234663852886e38),
        ("3.4028235677973367e38", math.inf),
        ("1e39", math.inf),
        ("NaNf", None),
    ],
)
def test_a_float_is_rounded_once_from_its_text(text: str, value: float | None) -> None:
    assert a.parse_float(text) == value
