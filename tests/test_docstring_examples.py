"""The examples in docstrings are tests (design: a public function's example runs)."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import nadi

_NEEDS_SPARK = ("nadi.pipeline", "nadi.app", "nadi.__main__")
MODULES = [
    m.name for m in pkgutil.walk_packages(nadi.__path__, "nadi.") if not m.name.startswith(_NEEDS_SPARK) and not m.ispkg
]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_are_true(name: str) -> None:
    found = doctest.testmod(importlib.import_module(name))
    assert found.failed == 0
