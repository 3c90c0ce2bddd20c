"""Possessive groups that an old Python misreads are refused, and others are not."""

from __future__ import annotations

import re

import pytest

from nadi.functions import javaregex, possessive
from nadi.functions.possessive import MENDED, is_misread

OLD = (3, 11, 4)


@pytest.mark.parametrize(
    "pattern", ["((?!c))*+", "(?:b*?a)++", "a(?:c+c++(?!a))?+", "(?>a*((a|.*+a*?)*b(?:c.+a)?+))+[ab]?"]
)
def test_a_possessive_group_in_which_something_steps_back_is_misread(pattern: str) -> None:
    assert is_misread(pattern, re.ASCII, OLD)
    assert not is_misread(pattern, re.ASCII, MENDED)


@pytest.mark.parametrize("pattern", ["a++b", "[ab]?+c*", "(?:ab|c)*+", "(?>a+b*)c", "(?:a+b)+", r"a\+(?:b+)?"])
def test_other_patterns_are_read_as_they_are_meant(pattern: str) -> None:
    assert not is_misread(pattern, re.ASCII, OLD)


def test_an_app_is_told_that_the_python_is_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(javaregex, "is_misread", lambda pattern, flags: is_misread(pattern, flags, OLD))
    with pytest.raises(javaregex.PatternError, match="misreads a possessive group"):
        javaregex.compiled("(?:x?y)++nowhere else")
    assert possessive.MISREAD.endswith("3.11.5 and later ones do not")
