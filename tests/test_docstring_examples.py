"""The examples in docstrings are tests (design: a public function's example runs)."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from importlib.util import find_spec
from pathlib import Path

import pytest

import nadi

_NEEDS_SPARK = ("nadi.pipeline", "nadi.app", "nadi.__main__")
MODULES = [
    m.name for m in pkgutil.walk_packages(nadi.__path__, "nadi.") if not m.name.startswith(_NEEDS_SPARK) and not m.ispkg
]


def _text(name: str) -> str:
    found = find_spec(name)
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).read_text(encoding="utf-8")


WITH_EXAMPLES = [name for name in MODULES if ">>>" in _text(name)]


def test_every_module_can_be_imported():
    assert [name for name in MODULES if importlib.import_module(name).__name__ != name] == []


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_the_examples_of_a_module_are_true(name: str) -> None:
    # `testmod` runs docstrings without examples, too, and looks before each whether any file that was ever read has changed: thousands by then.
    examples = [found for found in doctest.DocTestFinder().find(importlib.import_module(name)) if found.examples]
    assert examples
    runner = doctest.DocTestRunner()
    for found in examples:
        runner.run(found)
    assert runner.failures == 0
