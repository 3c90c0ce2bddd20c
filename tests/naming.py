"""What tests are called: how to run one again, and short names for long parameters."""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Collection, Mapping

LONGEST = 300  # characters of a parameter that stand in a name
SHOWN = 60
DESELECTED = ("slow", "long")
"""Marks of tests that a plain run leaves out."""


def again(nodeid: str, marks: Collection[str], options: Mapping[str, object]) -> str:
    """The command that runs one test again, with these options of pytest.

    >>> again("tests/io/test_io_http.py::test_it[a b]", (), {})
    ".venv/bin/python -m pytest -n 0 'tests/io/test_io_http.py::test_it[a b]'"
    >>> again("tests/chaos/test_a.py::test_b", (), {"rounds": 4, "seed": 7})
    '.venv/bin/python -m pytest -n 0 tests/chaos/test_a.py::test_b --rounds 4 --seed 7'
    """
    all_marks = " -m ''" if any(mark in marks for mark in DESELECTED) else ""
    given = "".join(f" --{name} {value}" for name, value in options.items())
    return f".venv/bin/python -m pytest -n 0{all_marks} {shlex.quote(plain(nodeid))}{given}"


def plain(nodeid: str) -> str:
    """The name that pytest takes: with several processes xdist puts a test's group behind it.

    >>> plain("tests/io/test_io_http.py::test_it[a@b]@spark")
    'tests/io/test_io_http.py::test_it[a@b]'
    """
    return re.sub(r"@[\w-]+$", "", nodeid)


def short(value: object) -> str | None:
    """A name for a parameter of which pytest would write all, a megabyte where it is so long, into each report of the test; None where it is short."""
    if not isinstance(value, (str, bytes)) or len(value) <= LONGEST:
        return None
    whole = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
    start = value[:SHOWN] if isinstance(value, str) else value[:SHOWN].decode("latin-1")
    return f"{start}... {len(value)} {hashlib.sha256(whole).hexdigest()[:8]}"
