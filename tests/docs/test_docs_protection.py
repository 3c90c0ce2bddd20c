"""The page on what is protected against whom has all chapters of the standard, and each claim names a test that is there."""

from __future__ import annotations

import re

from docpages import ROOT

PAGE = (ROOT / "docs/internals/protection.md").read_text(encoding="utf-8")
CLAIM = re.compile(r"^\| (?!claim |---)(?P<claim>[^|]+) \| (?P<tests>[^|]+) \|$", re.MULTILINE)
CHAPTERS = 14
TRUST = "## Whom nadi trusts"


def claims() -> list[tuple[str, list[str]]]:
    _before, _heading, after = PAGE.partition("## V1 ")
    return [(found["claim"], re.findall(r"`([^`]+)`", found["tests"])) for found in CLAIM.finditer(after)]


def test_each_chapter_of_the_standard_is_there_once_and_in_order():
    assert TRUST in PAGE
    assert re.findall(r"^## V(\d+) ", PAGE, re.MULTILINE) == [str(n) for n in range(1, CHAPTERS + 1)]


def test_each_claim_names_tests_that_are_there():
    found = claims()
    assert len(found) > CHAPTERS
    for claim, tests in found:
        assert tests, claim
        for test in tests:
            assert "def test_" in (ROOT / test).read_text(encoding="utf-8"), (claim, test)
