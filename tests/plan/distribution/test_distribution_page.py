"""The page on cutting says which test shows what."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parents[2] / "docs" / "internals" / "topology.md"


def test_the_tests_that_the_page_names_exist():
    named = set(re.findall(r"`(test_\w+)`", PAGE.read_text(encoding="utf-8")))
    assert len(named) > 15
    folders = (HERE, HERE.parents[1] / "channels")
    texts = "".join(f.read_text(encoding="utf-8") for folder in folders for f in folder.glob("test_*.py"))
    assert not {name for name in named if f"def {name}(" not in texts}


def test_the_page_names_all_conditions():
    page = PAGE.read_text(encoding="utf-8")
    conditions = (HERE.parents[2] / "src" / "nadi" / "errors" / "conditions.toml").read_text(encoding="utf-8")
    for name in re.findall(r"^\[(DIST_\w+)\]", conditions, re.MULTILINE):
        assert name in page or name.removesuffix("_OUTSIDE_PARTITION") in page, name
