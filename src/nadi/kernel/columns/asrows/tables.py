"""Tables as on rows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nadi.kernel.columns.asrows.texts import texts
from nadi.kernel.columns.flat import Block
from nadi.kernel.columns.stretch import DTYPES
from nadi.kernel.rows.payloads import Entry
from nadi.lang.tree import Type
from nadi.plan.nodes import Table


class TableState:
    """One table. Blocks come in the order of `contents`."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def entries(self, block: Block) -> Iterator[Entry]:
        """What a block comes to."""
        given, names = block.arrays, texts(block.arrays)
        types = self._table.schema.types
        words = given["words"].reshape(-1, len(types))
        columns = []
        for number, kind in enumerate(types):
            values = np.ascontiguousarray(words[:, number])
            if kind is Type.STRING:
                found = [names[place] if names else None for place in values.tolist()]
            else:
                floats = kind in (Type.FLOAT, Type.DOUBLE)
                found = (values.view(np.float64) if floats else values).astype(DTYPES[kind]).tolist()
            nulls = ((given["nulls"] >> number) & 1).tolist()
            columns.append([None if null else value for value, null in zip(found, nulls, strict=True)])
        rows = list(zip(given["number"].tolist(), zip(*columns, strict=True), strict=True))
        following, most = given["head"].tolist()
        cells = {"rows": ["m", False, rows, []], "next": ["v", following], "most": ["v", most]}
        yield self._table.id, "", cells
