"""Whether the tables of an app may be where it says, on one node. Nothing is opened."""

from __future__ import annotations

from collections.abc import Iterator

from nadi.errors import NadiError, placed
from nadi.functions.builtinstores import STORES
from nadi.functions.stores import StoreTable
from nadi.io.reach import Reach
from nadi.plan.annotations import first
from nadi.plan.nodes import App, Table


def beyond_reach(app: App, reach: Reach) -> Iterator[NadiError]:
    """For each table of a type of store that nadi brings, why apps of a node may not have it there, with its place in the text.

    Conditions: OPTION_INVALID, for a data source; PATH_NOT_ALLOWED, DATABASE_NOT_ALLOWED; those of the options.
    """
    for table in app.tables.values():
        if table.storage is not None and table.storage.type in STORES:
            try:
                _check(app, table, reach)
            except NadiError as problem:
                written = first(table.annotations, "store")
                name = str(problem.parameters.get("name", ""))
                yield problem if written is None else placed(problem, written.place(name))


def _check(app: App, table: Table, reach: Reach) -> None:
    # with them comes SQLAlchemy, which takes half a second
    from nadi.io.stores.options import target_of
    from nadi.io.stores.surroundings import check_place, place_of, sources_of

    assert table.storage is not None  # the caller asks for tables that have one
    target = target_of(StoreTable.of(app.name, table, table.storage))
    check_place(target, place_of(target, sources_of(reach)), reach)
