"""The examples in the docstrings of this package are true."""

from __future__ import annotations

import doctest
from types import ModuleType

import pytest

from tests import naming
from tests.suites import choice, outcome, quick


@pytest.mark.parametrize("module", [choice, naming, outcome, quick], ids=lambda module: module.__name__)
def test_the_examples_of_a_module_are_true(module: ModuleType):
    found = doctest.testmod(module)
    assert found.attempted
    assert not found.failed
