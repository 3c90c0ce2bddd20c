"""Differences as text: expected and actual rows side by side, and the queries that they come from."""

from __future__ import annotations

from dataclasses import dataclass

from nadi.testing.origins import Origin
from nadi.testing.rows import Pair, shown

_WIDE = 60  # an expected row wider than this is laid above the actual one


@dataclass(frozen=True, slots=True)
class Difference:
    """What was not as expected: `what` it is about, both sides, the queries that it comes from, the line of the test file (0: none).

    `start` is that of the scenario: times are shown since then.
    """

    what: str
    pairs: tuple[Pair, ...] = ()
    origins: tuple[Origin, ...] = ()
    start: int = 0
    line: int = 0
    app_file: str = ""


class Unexpected(AssertionError):
    """An expectation that does not hold."""

    def __init__(self, difference: Difference) -> None:
        super().__init__("\n".join(plain(difference)))
        self.difference = difference


def headline(found: Difference) -> str:
    """`stream Out: 1 row missing, 2 differ`."""
    if not found.pairs:
        return found.what
    marks = [pair.mark for pair in found.pairs]
    counts = (("≠", "differ", "differs"), ("-", "rows missing", "row missing"), ("+", "rows too many", "row too many"))
    parts = [f"{n} {one if n == 1 else many}" for mark, many, one in counts if (n := marks.count(mark))]
    same = marks.count("=")
    return f"{found.what}: {', '.join(parts)}" + (f" ({same} as expected)" if same else "")


def lines(found: Difference) -> list[tuple[str, str, str]]:
    """(mark, expected, came) per row; the time of a row is shown where one is expected on its line or it stands alone."""
    times = any(pair.expected is not None and pair.expected.at is not None for pair in found.pairs)
    return [(p.mark, shown(p.expected, found.start, times), shown(p.actual, found.start, times)) for p in found.pairs]


def plain(found: Difference) -> list[str]:
    """A difference without colours, a line each."""
    made = [headline(found)]
    rows = lines(found)
    if rows:
        made += _side_by_side(rows)
    return made + origin_lines(found)


def _side_by_side(rows: list[tuple[str, str, str]]) -> list[str]:
    width = max(len("expected"), *(len(wanted) for _mark, wanted, _came in rows))
    if width <= _WIDE:
        head = f"    {'expected':<{width}}  came"
        return [head, *(f"  {mark} {wanted:<{width}}  {came}".rstrip() for mark, wanted, came in rows)]
    made = []
    for mark, wanted, came in rows:
        if mark in "=≠-":
            made.append(f"  {mark} expected {wanted}")
        if mark in "≠+":
            made.append(f"  {mark} came     {came}")
    return made


def origin_lines(found: Difference) -> list[str]:
    """The queries, with their texts."""
    if not found.origins:
        return []
    about = found.what.split()[1] if found.pairs and found.what.startswith("stream ") else "it"
    made = [f"  {about} comes from"]
    for origin in found.origins:
        file = f" of {found.app_file}" if found.app_file else ""
        made.append(f"    query {origin.name}, line {origin.line}{file}")
        made += [f"      {line}" for line in origin.text.splitlines()]
    return made
