"""When the last revision of any app was made."""

from __future__ import annotations

from pathlib import Path

from nadi.config import Persistence
from nadi.errors import NadiError
from nadi.persistence.contract import time_of_name
from nadi.persistence.stores import store_of


def last_revision(persistence: Persistence, state: Path) -> int:
    """Its time (ms since the epoch); 0 where there is none, or its store does not answer."""
    if not persistence.enabled:
        return 0
    try:
        store = store_of(persistence, state)
        try:
            names = {app: store.names(app)[-1:] for app in store.apps()}
        finally:
            store.close()
    except (NadiError, OSError):
        return 0
    return max((time_of_name(name, app) or 0 for app, found in names.items() for name in found), default=0)
