"""`state.persistence` and `error.store` of a deployment.yaml."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from nadi.config.datasources import DataSources
from nadi.config.places import DATABASE, ERRORS_TABLE, FILES, ErrorStoring, Persistence
from nadi.config.section import Section, unused
from nadi.errors import error, nearest

_STORES = {kind: kind for kind in (FILES, DATABASE)} | {f"Incremental{kind}": kind for kind in (FILES, DATABASE)}
KEY_CHARACTERS = 32
_DB_ERRORS = "DBErrorStore"


class RevisionPlace(Section):
    """`state.persistence.config`."""

    location: str = "siddhi-app-persistence"
    datasource: str = "WSO2_CARBON_DB"
    table: str = "PERSISTENCE_TABLE"
    secret_key: str = Field(default="", alias="secretKey", repr=False)
    queries: Any = unused("queries", "nadi has its own statements for each database")


class StatePersistence(Section):
    """`state.persistence`. Every store writes only what changed, so the `Incremental…` names mean the same as the others."""

    enabled: bool = False
    interval: int = Field(default=1, ge=0, alias="intervalInMin")
    keep: int = Field(default=3, ge=1, alias="revisionsToKeep")
    store: str = Field(default=FILES, alias="persistenceStore")
    config: RevisionPlace = RevisionPlace()

    def resolved(self, sources: DataSources) -> Persistence:
        """With the data source that it names. Errors: INVALID_SETTING."""
        chosen = self.store.rpartition(".")[2]
        if chosen not in _STORES:
            near = nearest(chosen, list(_STORES)) or FILES
            wanted = f"'{near}', or another of {', '.join(_STORES)}"
            raise error("INVALID_SETTING", name="state.persistence.persistenceStore", value=chosen, wanted=wanted)
        store, config = _STORES[chosen], self.config
        if config.secret_key and len(config.secret_key) < KEY_CHARACTERS:
            wanted = f"a text of at least {KEY_CHARACTERS} random characters"
            raise error("INVALID_SETTING", name="state.persistence.config.secretKey", value="…", wanted=wanted)
        wanted_by = "state.persistence.config.datasource"
        return Persistence(
            enabled=self.enabled,
            interval=self.interval,
            keep=self.keep,
            store=store,
            location=config.location,
            datasource=sources.source(config.datasource, wanted_by) if store == DATABASE else None,
            table=config.table,
            secret_key=config.secret_key,
        )


class ErrorPlace(Section):
    """`error.store.config`."""

    datasource: str = "ERROR_STORE_DB"
    table: str = ERRORS_TABLE


class ErrorStoreSection(Section):
    """`error.store`. Rows are written with the batch that they belong to, so there is no buffer."""

    enabled: bool = False
    store: str = Field(default=_DB_ERRORS, alias="errorStore")
    config: ErrorPlace = ErrorPlace()
    buffer_size: Any = unused("bufferSize", "rows are written with their batch, without a buffer", 8192, "8192")
    drop_when_full: Any = unused("dropWhenBufferFull", "no row is dropped", True, False, "true", "false")

    def resolved(self, sources: DataSources) -> ErrorStoring:
        """With the data source that it names. Errors: INVALID_SETTING."""
        if not self.enabled:
            return ErrorStoring()
        chosen = self.store.rpartition(".")[2]
        if chosen != _DB_ERRORS:
            wanted = f"'{_DB_ERRORS}'; without this block errors are kept in the state folder"
            raise error("INVALID_SETTING", name="error.store.errorStore", value=chosen, wanted=wanted)
        source = sources.source(self.config.datasource, "error.store.config.datasource")
        return ErrorStoring(datasource=source, table=self.config.table)
