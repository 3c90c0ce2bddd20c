"""What the state of each query is made of, told with it: an app may be started again with another text, and its state be taken for something else."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

import numpy as np

from nadi.errors import error
from nadi.kernel.columns.flat import Block
from nadi.plan.columns.keptattributes import of_table, signature
from nadi.plan.elements import of_query
from nadi.plan.nodes import App, Query

LAYOUTS = "app/layouts"
"""The element that tells them: one block with the letter `l`, whose array `text` is JSON, query id to signature."""


class Layouts:
    """Of the queries that columns run, and of tables, which have ids as queries do."""

    def __init__(self, queries: Iterable[Query], app: App, tables: Iterable[str] = ()) -> None:
        self._own = {q.id: signature(q, app) for q in queries if any(True for _ in of_query(app, q))}
        self._own |= {app.tables[name].id: of_table(app.tables[name]) for name in tables}
        self._told = False

    def changes(self) -> Iterator[Block]:
        """They are told once."""
        if not self._told:
            yield from self.contents()

    def contents(self) -> Iterator[Block]:
        """All of them."""
        self._told = True
        if self._own:
            text = np.frombuffer(json.dumps(self._own, sort_keys=True).encode(), np.uint8)
            yield Block(LAYOUTS, 0, "l", {"text": text})

    def clear(self) -> None:
        """What is loaded now may not tell them."""
        self._told = False

    def apply(self, block: Block) -> None:
        """Compare them with those of the queries as they are now. Errors: STATE_NOT_READABLE."""
        told = json.loads(block.arrays["text"].tobytes())
        other = [query for query, mark in told.items() if self._own.get(query, mark) != mark]
        if other:
            names = ", ".join(other)
            reason = f"{names} keeps something else now; go back to the text that made it, ask for a revision, and restore that into this one"
            raise error("STATE_NOT_READABLE", reason=reason)
        self._told = True
