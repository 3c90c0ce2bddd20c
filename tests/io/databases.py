"""The databases that tests write to."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from sqlalchemy import Engine


@dataclass(frozen=True, slots=True)
class Database:
    """Fresh and empty. `away()` makes it unreachable for a while; `engine` is the test's own way in."""

    url: str
    engine: Engine
    away: Callable[[], AbstractContextManager[None]]
