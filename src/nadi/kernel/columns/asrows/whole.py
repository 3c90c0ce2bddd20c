"""Blocks of one query, table or partition's keys as segments of the rows kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from nadi.kernel.columns.arrivals import Clocks
from nadi.kernel.columns.asrows.keys import KeysState
from nadi.kernel.columns.asrows.matches import ChainState, RunState
from nadi.kernel.columns.asrows.parcels import BatchState, RateState
from nadi.kernel.columns.asrows.tables import TableState
from nadi.kernel.columns.asrows.windows import WindowState
from nadi.kernel.columns.flat import Block
from nadi.kernel.contract import Segment
from nadi.kernel.rows.payloads import Entry, encode_entries
from nadi.plan.nodes import App, Query, SingleInput, StateInput, Table
from nadi.plan.windowtraits import BATCHES


def as_rows(query: Query, app: App, blocks: Iterable[Block], clocks: Clocks) -> Iterator[Segment]:
    """The state of a query that `nadi.plan.columns.keptattributes` knows.

    Args:
        query: it, of the app that has made the state.
        app: that app.
        blocks: as `contents` of its operator gives them.
        clocks: those of the kernel that has made it.
    """
    state = _state(query, app)
    limiting = None if query.rate is None else RateState(query, query.rate, clocks)

    def of(block: Block) -> _Entries | None:
        return limiting if query.rate is not None and block.element == query.rate.id else state

    return _segments(blocks, of)


def table_as_rows(table: Table, blocks: Iterable[Block]) -> Iterator[Segment]:
    """The rows of a table: `blocks` as its `contents` gives them."""
    state = TableState(table)
    return _segments(blocks, lambda _block: state)


def keys_as_rows(element: str, interval: int, blocks: Iterable[Block], clocks: Clocks) -> Iterator[Segment]:
    """The keys of a partition that are purged: `blocks` as their `contents` gives them."""
    state = KeysState(element, interval, clocks.arrivals)
    return _segments(blocks, lambda _block: state)


class _Entries(Protocol):
    def entries(self, block: Block) -> Iterator[Entry]: ...


def _segments(blocks: Iterable[Block], of: Callable[[Block], _Entries | None]) -> Iterator[Segment]:
    seen: set[tuple[str, str]] = set()
    for block in blocks:
        mine = of(block)
        by_element: dict[str, list[Entry]] = {}
        for element, key, cells in mine.entries(block) if mine is not None else ():
            by_element.setdefault(element, []).append(("", key, cells))
        for element, entries in by_element.items():
            continued = (element, entries[0][1]) in seen
            seen.update((element, key) for _element, key, _cells in entries)
            yield Segment(element, block.group, encode_entries(entries, continued))


def _state(query: Query, app: App) -> WindowState | BatchState | ChainState | RunState | None:
    """That of the operator, None where it has none."""
    if isinstance(query.input, StateInput):
        return RunState(query, app) if query.input.sequence else ChainState(query, app)
    assert isinstance(query.input, SingleInput)  # as `nadi.plan.columns.keptattributes` says
    if query.input.window is not None and query.input.window.has(BATCHES):
        return BatchState(query, app)
    return WindowState(query, app) if query.selection.aggregates else None
