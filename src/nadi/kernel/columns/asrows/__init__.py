"""State of the columns kernel as that of the rows kernel, for queries that rows have to go on with: a module for each family of operators.

Columns have not kept events whole (`nadi.plan.keeping`): attributes that they have not are null in what is made here.
"""

from __future__ import annotations
