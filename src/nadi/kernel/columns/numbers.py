"""Constants of an app as parameters of its loops, so that apps that differ in them have the same loop."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from nadi.kernel.columns.stretch import Array, Column


@dataclass(slots=True, eq=False)
class Numbers:
    """The whole numbers of a loop, or its floats: the loop gets them as one array, and loads each once, before it begins."""

    dtype: str
    values: list[float] = field(default_factory=list)
    _made: Array | None = None

    @property
    def columns(self) -> tuple[int, ...]:
        """It reads none."""
        return ()

    def made(self, columns: tuple[Column, ...] = ()) -> Array:
        """The array, the same one whenever the loop is called."""
        if self._made is None:
            self._made = np.array(self.values, self.dtype)
        return self._made
