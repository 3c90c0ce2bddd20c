from __future__ import annotations

from pathlib import Path

from deliberate import ENTRIES

PAGE = Path(__file__).parents[2] / "docs/internals/differences.md"


def test_each_difference_that_stays_has_an_entry_in_the_docs_and_each_entry_a_predicate():
    headings = {line.removeprefix("## ") for line in PAGE.read_text().splitlines() if line.startswith("## ")}
    assert headings == set(ENTRIES)
    assert len(ENTRIES) <= 12
