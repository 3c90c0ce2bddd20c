"""Nothing on columns hangs on memory that nobody has written: where it has other contents, all gives what rows give."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]

FILLED = {"PYTHONMALLOC": "malloc", "ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_PERTURB_": "165"}
"""Every block of memory goes through the C library, which fills it with one value when it is given and with another one when it is given back."""

FAMILIES = (
    "invariant.py::test_columns_give_exactly_what_rows_give_for_every_split_and_restart",
    "invariant.py::test_each_key_group_gets_the_same_from_several_buckets",
    "joins.py::test_joins_give_exactly_what_rows_give_for_every_split_and_restart",
    "patterns.py::test_patterns_give_exactly_what_rows_give_for_every_split_and_restart",
    "mixed.py::test_a_mixed_app_gives_exactly_what_rows_give_for_every_split_and_restart",
    "tables.py::test_tables_on_columns_are_as_on_rows_for_every_split_and_restart",
    *(
        f"invariant.py::test_compiled_loops_give_exactly_what_rows_give[{name}]"
        for name in ("extremes", "session", "time batch", "partition")
    ),
    "joins.py::test_compiled_loops_of_joins_give_exactly_what_rows_give[totals]",
    "patterns_state.py::test_compiled_loops_give_what_rows_give",
)


@pytest.mark.slow
def test_columns_give_what_rows_give_whatever_fresh_memory_holds() -> None:
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    tests = [f"tests/kernel/columns/test_columns_{name}" for name in FAMILIES]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--hypothesis-seed=0", *tests],
        env={**own, **FILLED, "NADI_GENERATE": "8"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-6_000:]
