"""Where revisions and the rows of error stores go, as all processes of a node know it.

The models that read it are in `nadi.config.persistence`: with them comes pydantic, which hosts do not need.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

FILES, DATABASE = "FileSystemPersistenceStore", "DBPersistenceStore"
JNDI = "java:comp/env/"
"""What a JNDI name of a data source may begin with."""

ERRORS_TABLE = "ERROR_STORE_TABLE"


@dataclass(frozen=True, slots=True)
class Bounds:
    """How many connections a pool may have, for how many seconds a free one is waited for (and a server that does not answer a new one), how old one may get,
    and for how long one may lie unused; None: without a bound."""

    size: int = 10
    wait: float = 10.0
    lifetime: float | None = None
    idle: float | None = None


@dataclass(frozen=True, slots=True)
class DataSource:
    """A data source of `wso2.datasources`."""

    name: str
    jdbc_url: str
    username: str = ""
    password: str = ""
    bounds: Bounds = Bounds()

    def __repr__(self) -> str:
        return f"DataSource({self.name!r}, {self.jdbc_url!r})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Persistence:
    """`state.persistence`. `store` is FILES or DATABASE (their `Incremental…` forms mean the same here: every store writes only what changed); `interval` is
    in minutes, 0: only on demand; `keep` counts revisions. `alone` is whether a node makes and deletes them by itself; else somebody does so for all nodes,
    and each that is asked for is read back whole. With a `secret_key` revisions are signed, and others refused.
    """

    enabled: bool = False
    interval: int = 1
    keep: int = 3
    alone: bool = True
    store: str = FILES
    location: str = field(default="siddhi-app-persistence", repr=False)  # a URL may have a password
    datasource: DataSource | None = None
    table: str = "PERSISTENCE_TABLE"
    secret_key: str = field(default="", repr=False)

    @property
    def is_absolute(self) -> bool:
        """Whether the location is the same place for every node that reaches it: a URL or an absolute path."""
        return "://" in self.location or Path(self.location).is_absolute()


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorStoring:
    """Where rows of the error store go: the database of `datasource`, or the state folder of each app where there is none."""

    datasource: DataSource | None = None
    table: str = ERRORS_TABLE
