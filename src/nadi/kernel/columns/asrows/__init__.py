"""Makes state of the rows kernel out of state of the columns kernel, where rows go on with a query. Each family of operators has a module.

Columns have not kept events whole (`nadi.plan.columns.keptattributes`): attributes that they have not are null in what is made here.

Start with `whole`.
"""

from __future__ import annotations
