"""The tables of the coordination database. Those that tools of WSO2 SP look at have its names and columns, and some more; ours begin with NADI_.

Every row belongs to a cluster, by `GROUP_ID`. PostgreSQL folds names that are not quoted to lower case, as the statements of others are not.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, get_type_hints

import sqlalchemy as sa
from sqlalchemy.dialects import mysql

from nadi.cluster.rows import (
    KINDS,
    Actual,
    Agreed,
    App,
    AppChange,
    Beat,
    Beginning,
    Drained,
    Epoch,
    Event,
    Failure,
    InSync,
    Lease,
    ManagerRow,
    Membership,
    Part,
    Placement,
    Removed,
    Revision,
    Row,
    Stale,
    Waiting,
    WorkerRow,
)  # fmt: skip

GROUP = "GROUP_ID"
NAMES: dict[type[Row], str] = {
    Lease: "LEADER_STATUS_TABLE",
    ManagerRow: "CLUSTER_NODE_STATUS_TABLE",
    Membership: "MEMBERSHIP_EVENT_TABLE",
    Removed: "REMOVED_MEMBERS_TABLE",
    WorkerRow: "NADI_WORKER",
    Beat: "NADI_WORKER_BEAT",
    App: "NADI_APP",
    Part: "NADI_APP_PART",
    Placement: "NADI_PLACEMENT",
    Epoch: "NADI_EPOCH",
    Actual: "NADI_ACTUAL",
    Waiting: "NADI_WAITING",
    Failure: "NADI_FAILURE",
    Revision: "NADI_APP_REVISION",
    Beginning: "NADI_BEGINNING",
    Event: "NADI_EVENT",
    AppChange: "NADI_APP_CHANGE",
    Drained: "NADI_DRAINED",
    Stale: "NADI_STALE",
    InSync: "NADI_PAIR_IN_SYNC",
    Agreed: "NADI_PAIR_AGREED",
}
_COLUMNS: dict[type[Row], dict[str, str]] = {
    Lease: {"name": GROUP, "owner": "NODE_ID", "renewed": "LAST_HEARTBEAT"},
    ManagerRow: {"id": "NODE_ID", "heartbeat": "LAST_HEARTBEAT", "new": "IS_NEW_NODE"},
    Membership: {"reader": "NODE_ID", "change": "CHANGE_TYPE", "member": "CHANGED_MEMBER_ID"},
    Removed: {"reader": "NODE_ID", "member": "REMOVED_MEMBER_ID"},
    WorkerRow: {"id": "NODE_ID"},
    InSync: {"name": GROUP, "number": "CHANGE_NUMBER"},
    Part: {"group": "EXEC_GROUP"},
    Beat: {"at": "LAST_HEARTBEAT"},
    Event: {"at": "HAPPENED_AT"},
}
_LONG = {
    (App, "text"), (Part, "text"), (Part, "listens"), (Part, "heritage"), (Revision, "parts"), (AppChange, "text"), (AppChange, "parts"), (Stale, "text"),
    (InSync, "members"),
}  # fmt: skip
_PROSE = {"reason", "detail"}
_LATER = {(WorkerRow, "version")}  # columns that tables of older versions lack: they are added


@dataclass(frozen=True, slots=True)
class Mapped:
    """A table and the columns of a row's fields, in the order of the fields."""

    kind: type[Row]
    table: sa.Table
    columns: tuple[sa.Column[Any], ...]

    def key(self, group: str, values: tuple[Any, ...]) -> sa.ColumnElement[bool]:
        """The condition that finds a row."""
        by_name = dict(zip(self.names, self.columns))
        return sa.and_(self.of(group), *(by_name[n] == v for n, v in zip(self.kind.KEY, values)))

    def of(self, group: str) -> sa.ColumnElement[bool]:
        """The condition that finds a cluster's rows."""
        return self.table.c["group_"] == group

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f.name for f in fields(self.kind))  # type: ignore[arg-type]

    def values(self, group: str, row: Row) -> dict[str, Any]:
        """A row as parameters, by the keys of the columns."""
        found = {column.key: getattr(row, name) for name, column in zip(self.names, self.columns)}
        return {**found, "group_": group}

    def row(self, found: sa.Row[Any]) -> Row:
        return self.kind(*found)  # type: ignore[call-arg]  # each kind has as many fields


def mapped(dialect: str) -> dict[type[Row], Mapped]:
    """All tables, as a database of this kind spells them."""
    metadata = sa.MetaData()
    return {kind: _mapped(kind, metadata, dialect) for kind in KINDS}


def _mapped(kind: type[Row], metadata: sa.MetaData, dialect: str) -> Mapped:
    def spelled(name: str) -> str:
        return name.lower() if dialect == "postgresql" else name

    exact = "utf8mb4_bin" if dialect in ("mysql", "mariadb") else None  # names that differ in case are two
    hints = get_type_hints(kind)
    columns: list[sa.Column[Any]] = []
    own_group = _COLUMNS.get(kind, {}).get(kind.KEY[0]) == GROUP
    if not own_group:
        columns.append(sa.Column(spelled(GROUP), sa.String(120, exact), primary_key=True, key="group_"))
    for f in fields(kind):  # type: ignore[arg-type]
        name = _COLUMNS.get(kind, {}).get(f.name, f.name.upper())
        is_key = f.name in kind.KEY
        key = "group_" if own_group and is_key else f.name
        type_ = _type(kind, f.name, hints[f.name], exact)
        nullable = "None" in str(hints[f.name])
        default = "" if (kind, f.name) in _LATER else None  # for rows of managers that do not know the column
        columns.append(
            sa.Column(
                spelled(name),
                type_,
                primary_key=is_key,
                nullable=nullable,
                autoincrement=False,
                key=key,
                server_default=default,
            )
        )
    table = sa.Table(spelled(NAMES[kind]), metadata, *columns)
    return Mapped(kind, table, tuple(columns if own_group else columns[1:]))


def _type(kind: type[Row], name: str, hint: Any, exact: str | None) -> Any:
    if hint is int:
        return sa.BigInteger()
    if hint is bool:
        return sa.Boolean()
    if hint is not str:
        return sa.Double()
    if (kind, name) in _LONG:
        return sa.Text().with_variant(mysql.LONGTEXT(charset="utf8mb4"), "mysql", "mariadb")
    return sa.Text() if name in _PROSE else sa.String(255, exact)
