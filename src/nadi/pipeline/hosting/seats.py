"""Where on a cluster a bucket is: in which executor, and the door of the host that has its kernel (`nadi.pipeline.hosting.doors`)."""

from __future__ import annotations

import os
from typing import NamedTuple

PLACE = "NADI_PLACE"
"""The environment variable in which the connector tells a host what Spark calls its executor: `executor_<machine>_<id>`."""
_PREFIX = "executor_"
_DRIVER = "_driver"


class Seat(NamedTuple):
    """`place` is what Spark understands as a preferred location, `address` the host's door, `host:port`, `host` its number."""

    place: str
    address: str
    host: int


def own_place() -> str:
    """What Spark calls the executor of this host; "" where that is the driver, which needs no doors.

    >>> import os
    >>> os.environ[PLACE] = "executor_10.0.0.7_3"; own_place(), machine_of(own_place())
    ('executor_10.0.0.7_3', '10.0.0.7')
    >>> os.environ[PLACE] = "executor_10.0.0.7_driver"; own_place()
    ''
    >>> del os.environ[PLACE]; own_place()
    ''
    """
    told = os.environ.get(PLACE, "")
    return "" if told.endswith(_DRIVER) else told


def machine_of(place: str) -> str:
    """The machine of an executor, as Spark names it."""
    return place.removeprefix(_PREFIX).rpartition("_")[0]
