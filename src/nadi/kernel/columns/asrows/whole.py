"""Blocks of one query or table as segments of the rows kernel."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from nadi.kernel.columns.asrows.matches import ChainState, RunState
from nadi.kernel.columns.asrows.tables import TableState
from nadi.kernel.columns.asrows.windows import WindowState
from nadi.kernel.columns.flat import Block
from nadi.kernel.contract import Segment
from nadi.kernel.rows.payloads import Entry, encode_entries
from nadi.plan.nodes import App, Query, StateInput, Table


def as_rows(query: Query, app: App, blocks: Iterable[Block]) -> Iterator[Segment]:
    """The state of a query that `nadi.plan.keeping` knows.

    Args:
        query: it, of the app that has made the state.
        app: that app.
        blocks: as `contents` of its operator gives them.
    """
    return _segments(_state(query, app), blocks)


def table_as_rows(table: Table, blocks: Iterable[Block]) -> Iterator[Segment]:
    """The rows of a table: `blocks` as its `contents` gives them."""
    return _segments(TableState(table), blocks)


class _State(Protocol):
    def entries(self, block: Block) -> Iterator[Entry]: ...


def _segments(state: _State, blocks: Iterable[Block]) -> Iterator[Segment]:
    seen: set[tuple[str, str]] = set()
    for block in blocks:
        by_element: dict[str, list[Entry]] = {}
        for element, key, cells in state.entries(block):
            by_element.setdefault(element, []).append(("", key, cells))
        for element, entries in by_element.items():
            continued = (element, entries[0][1]) in seen
            seen.update((element, key) for _element, key, _cells in entries)
            yield Segment(element, block.group, encode_entries(entries, continued))


def _state(query: Query, app: App) -> WindowState | ChainState | RunState:
    if isinstance(query.input, StateInput):
        return RunState(query, app) if query.input.sequence else ChainState(query, app)
    return WindowState(query, app)
