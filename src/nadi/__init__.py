"""nadi: Siddhi apps on Apache Spark.

Start with `app.App` for PySpark; the command `nadi` begins in `__main__`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nadi.app import App

__all__ = ["App"]


def __getattr__(name: str) -> object:
    """`nadi.App`, imported when it is first asked for: the commands and the hosts do not need it."""
    if name == "App":
        from nadi.app import App

        return App
    raise AttributeError(f"module 'nadi' has no attribute '{name}'")
