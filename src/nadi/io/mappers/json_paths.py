"""JSONPath as far as mappings use it: `$`, `.name`, `['name']` and `[0]`."""

from __future__ import annotations

import re

from nadi.errors import error

Path = tuple[str | int, ...]

_STEP = re.compile(r"""\.([^.\[\]*?@()'"]+)|\[\s*(\d+)\s*\]|\[\s*'([^']*)'\s*\]|\[\s*"([^"]*)"\s*\]""")


def parse_path(text: str) -> Path:
    """The steps of a path. Errors: NOT_SUPPORTED for wildcards, filters, slices, functions.

    >>> parse_path("$.stock['company name'][0]")
    ('stock', 'company name', 0)
    """
    rest = text.strip()
    rest = rest[1:] if rest.startswith("$") else rest if rest.startswith("[") else "." + rest
    steps: list[str | int] = []
    at = 0
    while at < len(rest):
        found = _STEP.match(rest, at)
        if found is None:
            raise error(
                "NOT_SUPPORTED",
                what=f"the JSON path {text}",
                alternative="write it as $.name['name'][0], without wildcards, filters, slices or functions",
            )
        name, index, single, double = found.groups()
        steps.append(int(index) if index is not None else next(n for n in (name, single, double) if n is not None))
        at = found.end()
    return tuple(steps)
