"""What the nodes of a pair know each other by: `nadi.cluster.secret`, or a random text that the first of them puts into the coordination database.

Whoever may read that database may make himself the active node anyway: the lease is there.
"""

from __future__ import annotations

import asyncio
import secrets

from nadi.cluster.contract import Change, Seen, StoreAway
from nadi.cluster.rows import Agreed
from nadi.cluster.sqlstore import SqlStore
from nadi.errors import error

NAME = "secret"


def secret_of(configured: str, store: SqlStore) -> str:
    """In no event loop. Errors: CONNECTION_UNAVAILABLE."""
    if configured:
        return configured
    fresh = secrets.token_hex(32)

    def agreed(seen: Seen) -> Change:
        found = seen.get(Agreed, NAME)
        return Change(put=() if found else (Agreed(NAME, fresh),), said=found.value if found else fresh)

    try:
        return str(asyncio.run(store.transact([(Agreed, (NAME,))], agreed)).said)
    except StoreAway as reason:
        raise error("CONNECTION_UNAVAILABLE", connector="the coordination database", reason=str(reason)) from reason
