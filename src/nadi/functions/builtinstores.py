"""The types of store that nadi brings. They lie in `nadi.io.stores`, and are imported when an app first names one: with them come clients of databases."""

from __future__ import annotations

from importlib import import_module

from nadi.functions.stores import Store, StoreKind, StoreTable

STORES = {"rdbms": "nadi.io.stores.rdbms"}
"""By type the module that has its `KIND`."""


def _kind(name: str) -> StoreKind:
    def make(table: StoreTable) -> Store:
        kind: StoreKind = import_module(STORES[name]).KIND
        return kind.make(table)

    return StoreKind(name, make, f"rows in the tables of a relational database, see `{STORES[name]}`", once=True)


ENTRIES = tuple(map(_kind, STORES))
