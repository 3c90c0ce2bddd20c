"""The table of weaknesses: each has a row, and each test that shows something is there."""

from __future__ import annotations

import re

from docpages import ROOT

PAGE = (ROOT / "docs" / "internals" / "weaknesses.md").read_text(encoding="utf-8")


def test_each_weakness_has_a_row_with_a_test():
    rows = [line.split(" | ") for line in PAGE.splitlines() if re.match(r"\| \d+ \|", line)]
    assert [int(row[0].strip("| ")) for row in rows] == list(range(1, 34))
    assert all("`test_" in row[-1] for row in rows)


def test_the_tests_that_the_table_names_exist():
    named = set(re.findall(r"`(test_\w+)`", PAGE))
    texts = "\n".join(file.read_text(encoding="utf-8") for file in (ROOT / "tests").rglob("test_*.py"))
    texts += (ROOT / "tests/cluster/storesuite.py").read_text(encoding="utf-8")
    assert not {name for name in named if f"def {name}(" not in texts}
