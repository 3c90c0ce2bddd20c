from __future__ import annotations

import pytest
from naming import LONGEST, again, short


def test_a_test_that_a_plain_run_leaves_out_is_run_again_with_all_marks() -> None:
    assert again("tests/a.py::test_b", ["slow"], {}) == ".venv/bin/python -m pytest -n 0 -m '' tests/a.py::test_b"
    assert again("tests/a.py::test_b", ["spark"], {}) == ".venv/bin/python -m pytest -n 0 tests/a.py::test_b"


@pytest.mark.parametrize("value", ["a" * LONGEST, b"a" * LONGEST, 7, None, ("a" * 1000,)])
def test_short_parameters_keep_the_names_that_pytest_gives(value: object) -> None:
    assert short(value) is None


def test_long_parameters_that_begin_alike_have_names_of_their_own() -> None:
    values = ["a" * 800_000 + end for end in "xy"] + [b"a" * 800_000, "\ud800" * 800_000]
    names = [str(short(value)) for value in values]
    assert len(set(names)) == 4
    assert max(map(len, names)) < 100


@pytest.mark.parametrize("value", ["b" * 800_000])
def test_the_name_of_a_test_with_a_long_parameter_is_short(value: str, request: pytest.FixtureRequest) -> None:
    assert len(value) == 800_000
    assert len(request.node.nodeid) < 250
