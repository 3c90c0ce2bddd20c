"""The namespace unitconversion: known quantities."""

from __future__ import annotations

from typing import Any

import pytest

from nadi.errors import NadiError
from nadi.functions.registry import default_registry
from nadi.lang.tree import Type
from nadi.plan.catalog import Argument


def call(name: str, value: Any) -> Any:
    function = default_registry().function(f"unitconversion:{name}")
    assert function is not None
    return function.make((Argument(Type.DOUBLE),), Type.DOUBLE)(value)


@pytest.mark.parametrize(
    ("name", "value", "result"),
    [
        ("kmTomi", 1.609344, 1.0),
        ("cmTom", 1, 0.01),
        ("mToft", 0.3048, 1.0),
        ("kgTolb", 0.45359237, 1.0),
        ("kgTost", 6.35029318, 1.0),
        ("tTog", 1, 1e6),
        ("m3Tol", 2, 2000.0),
        ("mlTol", 500, 0.5),
        ("dToh", 2, 48.0),
        ("sToms", 1.5, 1500.0),
        ("yTod", 1, 365.2425),
        ("MmTokm", 1, 1000.0),
        ("kmTonm", 1, 1e12),
    ],
)
def test_a_quantity_is_converted(name: str, value: float, result: float) -> None:
    assert call(name, value) == pytest.approx(result, rel=1e-15)
    assert isinstance(call(name, value), float)


def test_null_is_an_error() -> None:
    with pytest.raises(NadiError, match="met null"):
        call("cmTom", None)
