"""`state.persistence`, `error.store` and `wso2.datasources` of a deployment.yaml: where revisions go, how often one is made, how many are kept; where the
rows of error stores go."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from nadi.errors import error, nearest

FILES, DATABASE = "FileSystemPersistenceStore", "DBPersistenceStore"
_STORES = {kind: kind for kind in (FILES, DATABASE)} | {f"Incremental{kind}": kind for kind in (FILES, DATABASE)}
_SECTION = "state.persistence"
_ERRORS = "error.store"
_DB_ERRORS = "DBErrorStore"
ERRORS_TABLE = "ERROR_STORE_TABLE"
_PLACEHOLDER = re.compile(r"\$\{(\w+):([^}]*)\}")


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
    """The block. `store` is FILES or DATABASE (their `Incremental…` forms mean the same here: every store writes only what changed); `interval` is
    in minutes, 0: only on demand; `keep` counts revisions.
    """

    enabled: bool = False
    interval: int = 1
    keep: int = 3
    store: str = FILES
    location: str = "siddhi-app-persistence"
    datasource: DataSource | None = None
    table: str = "PERSISTENCE_TABLE"


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorStoring:
    """Where rows of the error store go: the database of `datasource`, or the state folder of each app where there is none."""

    datasource: DataSource | None = None
    table: str = ERRORS_TABLE


def read_persistence(path: Path, environment: Mapping[str, str] | None = None) -> Persistence:
    """The block of a deployment.yaml; defaults where it has none. `${env:…}` and `${sys:…}` in values come from the environment.

    Raises:
        CannotLoadConfigurationException: INVALID_SETTING, where a value cannot be, or the file is no YAML.
    """
    return persistence_of(_content(path), os.environ if environment is None else environment)


def read_error_storing(path: Path, environment: Mapping[str, str] | None = None) -> ErrorStoring:
    """`error.store` of a deployment.yaml; the state folder where it has none, or where it is not enabled. Raises as `read_persistence`."""
    return error_storing_of(_content(path), os.environ if environment is None else environment)


def _content(path: Path) -> Mapping[str, Any]:
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as problem:
        raise _invalid("deployment.yaml", path, f"a file in YAML ({' '.join(str(problem).split())})") from problem
    return content if isinstance(content, dict) else {}


def persistence_of(content: Mapping[str, Any], environment: Mapping[str, str]) -> Persistence:
    """The block of the content of a deployment.yaml.

    >>> persistence_of({"state.persistence": {"enabled": True, "revisionsToKeep": 2}}, {}).keep
    2
    """
    block = content.get(_SECTION) or {}
    config = block.get("config") or {}
    chosen = str(block.get("persistenceStore", FILES)).rpartition(".")[2]
    if chosen not in _STORES:
        near = nearest(chosen, list(_STORES)) or FILES
        raise _invalid(f"{_SECTION}.persistenceStore", chosen, f"'{near}', or another of {', '.join(_STORES)}")
    store = _STORES[chosen]
    source = None
    if store == DATABASE:
        source = _datasource(
            content, _text(config.get("datasource", "WSO2_CARBON_DB"), environment), environment, _SECTION
        )
    return Persistence(
        enabled=_flag(_SECTION, block.get("enabled", False)),
        interval=_number("intervalInMin", block.get("intervalInMin", 1), 0),
        keep=_number("revisionsToKeep", block.get("revisionsToKeep", 3), 1),
        store=store,
        location=_text(config.get("location", "siddhi-app-persistence"), environment),
        datasource=source,
        table=_text(config.get("table", "PERSISTENCE_TABLE"), environment),
    )


def error_storing_of(content: Mapping[str, Any], environment: Mapping[str, str]) -> ErrorStoring:
    """`error.store` of the content of a deployment.yaml.

    >>> error_storing_of({"error.store": {"enabled": False}}, {})
    ErrorStoring(datasource=None, table='ERROR_STORE_TABLE')
    """
    block = content.get(_ERRORS) or {}
    config = block.get("config") or {}
    if not _flag(_ERRORS, block.get("enabled", False)):
        return ErrorStoring()
    chosen = str(block.get("errorStore", _DB_ERRORS)).rpartition(".")[2]
    if chosen != _DB_ERRORS:
        raise _invalid(
            f"{_ERRORS}.errorStore", chosen, f"'{_DB_ERRORS}'; without this block errors are kept in the state folder"
        )
    name = _text(config.get("datasource", "ERROR_STORE_DB"), environment)
    return ErrorStoring(
        datasource=_datasource(content, name, environment, _ERRORS),
        table=_text(config.get("table", ERRORS_TABLE), environment),
    )


def _datasource(content: Mapping[str, Any], name: str, environment: Mapping[str, str], section: str) -> DataSource:
    listed = (content.get("wso2.datasources") or {}).get("dataSources") or []
    for source in listed:
        if source.get("name") == name:
            given = (source.get("definition") or {}).get("configuration") or {}
            url, user, password = (_text(given.get(k) or "", environment) for k in ("jdbcUrl", "username", "password"))
            return DataSource(name, url, user, password)
    known = ", ".join(str(s.get("name")) for s in listed) or "none"
    raise _invalid(f"{section}.config.datasource", name, f"a data source of wso2.datasources (there are: {known})")


def _text(value: object, environment: Mapping[str, str]) -> str:
    """A value with its placeholders filled in."""

    def filled(found: re.Match[str]) -> str:
        kind, name = found.groups()
        if kind not in ("env", "sys") or name not in environment:
            wanted = "an environment variable, ${env:name}" if kind in ("env", "sys") else "${env:name} or ${sys:name}"
            raise _invalid(found[0], name, wanted)
        return environment[name]

    return _PLACEHOLDER.sub(filled, str(value))


def _flag(section: str, value: object) -> bool:
    if isinstance(value, bool) or str(value).lower() in ("true", "false"):
        return str(value).lower() == "true"
    raise _invalid(f"{section}.enabled", value, "true or false")


def _number(name: str, value: object, least: int) -> int:
    if isinstance(value, bool) or not str(value).isdecimal() or int(str(value)) < least:
        raise _invalid(f"{_SECTION}.{name}", value, f"a whole number, {least} or more")
    return int(str(value))


def _invalid(name: str, value: object, wanted: str) -> Exception:
    return error("INVALID_SETTING", name=name, value=value, wanted=wanted)
