"""Where revisions and the rows of error stores go, as all processes of a node know it.

The models that read it are in `nadi.config.persistence`: with them comes pydantic, which hosts do not need.
"""

from __future__ import annotations

from dataclasses import dataclass, field

FILES, DATABASE = "FileSystemPersistenceStore", "DBPersistenceStore"
ERRORS_TABLE = "ERROR_STORE_TABLE"


@dataclass(frozen=True, slots=True)
class DataSource:
    """A data source of `wso2.datasources`."""

    name: str
    jdbc_url: str
    username: str = ""
    password: str = ""

    def __repr__(self) -> str:
        return f"DataSource({self.name!r}, {self.jdbc_url!r})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Persistence:
    """`state.persistence`. `store` is FILES or DATABASE (their `Incremental…` forms mean the same here: every store writes only what changed); `interval` is
    in minutes, 0: only on demand; `keep` counts revisions. With a `secret_key` revisions are signed, and others refused.
    """

    enabled: bool = False
    interval: int = 1
    keep: int = 3
    store: str = FILES
    location: str = "siddhi-app-persistence"
    datasource: DataSource | None = None
    table: str = "PERSISTENCE_TABLE"
    secret_key: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorStoring:
    """Where rows of the error store go: the database of `datasource`, or the state folder of each app where there is none."""

    datasource: DataSource | None = None
    table: str = ERRORS_TABLE
