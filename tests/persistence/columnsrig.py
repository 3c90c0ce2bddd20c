"""`restorerig` with kernels in which each query runs where it can; loops run as Python."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from nadi.kernel.columns.choosing import chosen
from nadi.kernel.columns.engine import ColumnsKernel
from nadi.kernel.columns.jit import interpreted
from nadi.kernel.rows.engine import RowsKernel
from nadi.plan.columns.islands import Islands
from nadi.plan.nodes import App
from tests.persistence.restorerig import REGISTRY, Node


class Makes:
    """Kernels of one bucket."""

    def __init__(self, bucket: int) -> None:
        self._bucket = bucket

    def rows(self, app: App, outputs: Collection[str]) -> RowsKernel:
        return RowsKernel(app, REGISTRY, outputs, self._bucket)

    def columns(self, app: App, outputs: Collection[str], part: Islands) -> ColumnsKernel:
        with interpreted():
            return ColumnsKernel(app, REGISTRY, outputs, part)


class ColumnsNode(Node):
    """A node whose queries run on columns, as far as they can, or where their state is."""

    mode = "auto"

    def kernel(self, app: App, bucket: int) -> Any:
        if app is not self.app:  # what is new in a restored state begins as on rows
            return super().kernel(app, bucket)
        return chosen(app, self.mode, self.outputs, Makes(bucket))

    @property
    def on_columns(self) -> set[str]:
        """The queries that the first bucket has on columns."""
        part = getattr(self.kernels[0], "part", None)
        return set() if part is None else set(part.order)
