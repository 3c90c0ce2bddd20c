"""What windows hold that is no queue: the sorted, the unique and the sessions."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from nadi.kernel.columns.contract import Input
from nadi.kernel.columns.groups import Groups
from nadi.kernel.columns.windows.contract import Held
from nadi.kernel.columns.windows.sorting import Sorted
from nadi.kernel.columns.windows.unique import Unique
from nadi.plan.nodes import WindowCall

HELD: dict[str, Callable[[WindowCall, Input, Groups, Mapping[str, str], Mapping[str, Groups]], Held]] = {
    "sort": Sorted,
    "unique:ever": Unique,
    "unique:first": Unique,
    "unique:length": Unique,
    "unique:time": Unique,
}
"""By window: made of its call, what the query reads, its groups, and the columns of an event that it holds; see `contract.Held`."""
