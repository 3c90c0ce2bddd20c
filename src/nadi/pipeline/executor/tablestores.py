"""What tables in stores have around them in a host, where an app has such."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nadi.io.contract import Place
from nadi.pipeline.spec import AppSpec
from nadi.plan.nodes import App

if TYPE_CHECKING:
    from nadi.io.stores.surroundings import Surroundings


def has_stores(app: App) -> bool:
    """Whether any table of an app is in a store."""
    return any(table.storage is not None for table in app.tables.values())


def open_stores(spec: AppSpec, app: App, place: Place) -> Surroundings | None:
    """The databases of an app, none of them open; None where no table is in a store."""
    if not has_stores(app):
        return None
    from nadi.io.stores.surroundings import Surroundings  # with it comes SQLAlchemy, which takes half a second

    return Surroundings.of_node(spec.reach, place)
