"""State of one element under another plan: new attributes in the rows it holds, timers at other times.

Works on what cells are outside of a kernel, whole contents and deltas alike (`nadi.kernel.rows.state`): `("v", value)`, `("d", taken, [appended…])`,
`("m", cleared, [(key, value)…], [removed…])`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nadi.kernel.rows.cells import Change
from nadi.plan.migration import Positions
from nadi.plan.restore import Fate

Cells = dict[str, Change]
Rewrite = Callable[[Cells], Cells]
Value = Callable[[Any], Any]

_EVENTS = ("held", "batch", "previous", "sent", "events")
"""The cells of windows that hold (timestamp, row)."""


def rewrite_of(fate: Fate, rest: str) -> Rewrite | None:
    """How the cells of an element, or of the part `rest` of it ("/timer"), are written anew; None where they stay as they are."""
    if rest.endswith("/timer"):
        later = fate.change.later
        return _cells(("due",), lambda due: due + later) if later else None
    if not any(fate.change.rows):
        return None
    rows = [_row(positions) for positions in fate.change.rows]
    if fate.kind == "window":
        return _cells(_EVENTS, lambda held: (held[0], rows[0](held[1]))) if not rest else None
    if fate.kind == "table":
        return _cells(("rows",), rows[0])
    if fate.kind == "pattern":
        return lambda cells: _of_chain(_cells(("partials",), lambda partial: _partial(partial, rows))(cells), rows)
    if fate.kind == "aggregation" and rest.endswith("/latest"):
        return _cells(("latest",), lambda latest: (latest[0], rows[0](latest[1]), *latest[2:]))
    return None


def _row(positions: Positions | None) -> Value:
    if positions is None:
        return lambda row: row
    return lambda row: tuple(None if p is None else row[p] for p in positions)


def _partial(partial: list[Any], rows: list[Value]) -> list[Any]:
    """A partial match: `[id, timestamp, expired, slots, places]`, a slot None or a list of (kind, timestamp, row)."""
    number, ts, expired, slots, places = partial
    made = [
        None if bound is None else [(kind, at, widen(row)) for kind, at, row in bound]
        for bound, widen in zip(slots, rows, strict=True)
    ]
    return [number, ts, expired, made, places]


def _of_chain(cells: Cells, rows: list[Value]) -> Cells:
    """The matches of a chain, of which event i is that of slot i (`nadi.kernel.rows.patterns.matches`)."""
    if "matches" not in cells:
        return cells
    *head, places = cells["matches"]
    if head[0] == "p":
        made = [
            [
                moved,
                [[n, *([k, ts, *rows[i](tuple(row))] for i, (k, ts, *row) in enumerate(bound))] for n, *bound in held],
            ]
            for moved, held in places
        ]
        return {**cells, "matches": [*head, made]}
    return {**cells, "matches": [*head, tuple([(n, _match(match, rows)) for n, match in held] for held in places)]}


def _match(match: tuple[Any, ...], rows: list[Value]) -> tuple[Any, ...]:
    return tuple(
        None if bound is None else ((bound[0][0], bound[0][1], rows[i](bound[0][2])),) for i, bound in enumerate(match)
    )


def _cells(names: tuple[str, ...], change: Value) -> Rewrite:
    """Change every value in some cells."""

    def rewritten(cells: Cells) -> Cells:
        return {name: _changed(cell, change) if name in names else cell for name, cell in cells.items()}

    return rewritten


def _changed(cell: Change, change: Value) -> Change:
    match cell:
        case ["d", taken, appended]:
            return ["d", taken, [change(item) for item in appended]]
        case ["m", cleared, kept, removed]:
            return ["m", cleared, [(key, change(value)) for key, value in kept], removed]
        case _:
            return cell
