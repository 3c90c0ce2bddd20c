"""A pool of connections with the bounds of a data source: how many there are, how long a free one is waited for, how old and how idle one may get."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from sqlalchemy.exc import TimeoutError as NoneFree
from sqlalchemy.pool import ConnectionPoolEntry, PoolProxiedConnection, QueuePool
from sqlalchemy.util.queue import Empty

from nadi.config.places import Bounds
from nadi.errors import error

_UNUSED_SINCE = "nadi.unused.since"

Later = Callable[[float, Callable[[], None]], threading.Timer]


def pooled(shown: str, bounds: Bounds) -> dict[str, Any]:
    """What SQLAlchemy's `create_engine` takes for a pool with these bounds; `shown` is the database as messages name it."""
    return {
        "poolclass": BoundedPool,
        "pool_size": bounds.size,
        "max_overflow": 0,
        "pool_timeout": bounds.wait,
        "pool_recycle": -1 if bounds.lifetime is None else bounds.lifetime,
        "pool_pre_ping": True,
        "shown": shown,
        "idle": bounds.idle,
    }


def later(seconds: float, do: Callable[[], None]) -> threading.Timer:
    """Do something once, from a thread that holds up no process's end."""
    timer = threading.Timer(seconds, do)
    timer.daemon = True
    timer.start()
    return timer


class BoundedPool(QueuePool):
    """SQLAlchemy's pool, with a named error where no connection gets free, and with an end for connections that lie unused for `idle` seconds.

    One timer runs at most, and only while there are connections that lie unused.
    """

    def __init__(
        self,
        creator: Any,
        shown: str = "",
        idle: float | None = None,
        clock: Callable[[], float] = time.monotonic,
        later: Later = later,
        **options: Any,
    ) -> None:
        super().__init__(creator, **options)
        self._shown, self._idle, self._clock, self._later = shown, idle, clock, later
        self._timer: threading.Timer | None = None
        self._arming = threading.Lock()

    def connect(self) -> PoolProxiedConnection:
        """A connection. Errors: CONNECTION_UNAVAILABLE, where none gets free in time; the driver's."""
        try:
            return super().connect()
        except NoneFree as reason:
            wait = f"none of its {self.size()} connections got free within {self.timeout():g} s"
            said = f"{wait} ('maxPoolSize' and 'connectionTimeout' of its data source)"
            raise error("CONNECTION_UNAVAILABLE", connector=self._shown, reason=said) from reason

    def recreate(self) -> BoundedPool:
        """A pool with the same bounds, and nothing in it."""
        made = super().recreate()
        assert isinstance(made, BoundedPool)
        made._shown, made._idle, made._clock, made._later = self._shown, self._idle, self._clock, self._later
        return made

    def dispose(self) -> None:
        """Close what is unused."""
        with self._arming:
            timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
        super().dispose()

    def _do_return_conn(self, record: ConnectionPoolEntry) -> None:
        record.record_info[_UNUSED_SINCE] = self._clock()  # type: ignore[index]  # None only where there is no record
        super()._do_return_conn(record)
        if self._idle is not None:
            self._arm(self._idle)

    def _arm(self, seconds: float) -> None:
        with self._arming:
            if self._timer is None:
                self._timer = self._later(seconds, self._end_idle)

    def _end_idle(self) -> None:
        """Close what was unused for too long. Each is out of the queue meanwhile, so that nobody takes it; who comes then waits for a moment."""
        assert self._idle is not None
        with self._arming:
            self._timer = None
        now, left = self._clock(), []
        for _ in range(self.checkedin()):
            try:
                record = self._pool.get(False)
            except Empty:
                break
            if record.dbapi_connection is not None:
                rest = self._idle - (now - record.record_info[_UNUSED_SINCE])  # type: ignore[index]
                if rest > 0:
                    left.append(rest)
                else:
                    record.close()
            self._pool.put(record, False)
        if left:
            self._arm(min(left))


# SQLAlchemy tells of every pool that it closes
logging.getLogger(f"{__name__}.{BoundedPool.__name__}").setLevel(logging.WARNING)
