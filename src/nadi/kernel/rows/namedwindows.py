"""Named windows (semantics/windows.md#named-windows): one window for the whole app, fed by inserts, read like a stream and searched like a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from nadi.kernel.rows.events import CURRENT, EXPIRED, Chunk, Row
from nadi.kernel.rows.flow import Flow
from nadi.kernel.rows.junctions import Junction
from nadi.kernel.rows.windows import make_window
from nadi.lang.tree import Events
from nadi.plan.nodes import NamedWindow

if TYPE_CHECKING:
    from nadi.kernel.rows.compile import Searchable

_PASSED = {Events.CURRENT: (CURRENT,), Events.EXPIRED: (EXPIRED,), Events.ALL: (CURRENT, EXPIRED)}


class NamedWindowRuntime:
    """The window keeps one state, under the flow key "", whoever feeds it; R and T never leave it."""

    def __init__(self, window: NamedWindow, flow: Flow, tables: Mapping[str, Searchable], junction: Junction) -> None:
        self.window = window
        self._flow = flow
        self._junction = junction
        self._passed = _PASSED[window.output]
        self._processor = make_window(
            window.window, flow, self._out, window.schema, window.output is not Events.CURRENT, True, tables
        )

    def insert(self, chunk: Chunk) -> None:
        """Feed the window with C events."""
        before, self._flow.key = self._flow.key, ""
        try:
            self._processor.process(chunk)
        finally:
            self._flow.key = before

    def begin(self) -> None:
        self._processor.begin()

    def rows(self) -> Iterable[Row]:
        """What a join, `in` or a find sees."""
        before, self._flow.key = self._flow.key, ""
        try:
            return [e[2] for e in self._processor.content()]
        finally:
            self._flow.key = before

    def _out(self, chunk: Chunk) -> None:
        passed = [e for e in chunk if e.kind in self._passed]
        if passed:
            self._junction.send(passed)
