"""The options of `@store(type='rdbms', …)`: which there are, what they mean, and what they come to for one table."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from nadi.config.places import Bounds
from nadi.databases import Address
from nadi.errors import NOWHERE, did_you_mean, error
from nadi.functions.stores import StoreTable
from nadi.lang.tree import Type
from nadi.plan.options import Option, check_options

LENGTH = 254
"""Characters of a text where `field.length` says nothing, as with the reference's databases."""

OPTIONS = (
    Option(
        "jdbc.url", doc="the database: `jdbc:postgresql://…`, `jdbc:mysql://…`, `jdbc:mariadb://…`, `jdbc:sqlite:file`"
    ),
    Option("username", doc="the user of the database", secret=True),
    Option("password", doc="the user's password", secret=True),
    Option("jdbc.driver.name", doc="Siddhi's; the URL decides here"),
    Option("datasource", doc="a data source of the node, in place of URL, user and password"),
    Option("jndi.resource", doc="the same by its JNDI name"),
    Option(
        "pool.properties",
        doc="`name:value, …` of the connections: `maximumPoolSize`, and in ms `connectionTimeout`, `idleTimeout`, `maxLifetime`",
    ),
    Option("table.name", doc="the table; by default it is called as in the app"),
    Option("field.length", doc="`name:characters, …` of attributes that are texts; by default 254"),
    Option("table.check.query", doc="a query that fails where the table is not there, which is then made"),
    Option("use.collation", kind="bool", doc="without effect: texts are always compared character by character"),
    Option("allow.null.values", kind="bool", doc="`false`: rows with a null are refused; by default they are taken"),
)
"""None is required by itself: it takes `jdbc.url`, `datasource` or `jndi.resource`."""

POOL_WITHOUT_EFFECT = frozenset(
    {"minimumidle", "autocommit", "connectiontestquery", "validationtimeout", "leakdetectionthreshold", "poolname"}
    | {"driverclassname", "isautocommit", "initializationfailtimeout", "keepalivetime"}
)
_POOL = {"maximumpoolsize": 1, "maxpoolsize": 1, "connectiontimeout": 250, "idletimeout": 0, "maxlifetime": 0}
"""What is understood of a pool, with the least value."""


@dataclass(frozen=True, slots=True)
class Target:
    """What the options of a table come to. `address` is None where a data source (`source`) has it. `lengths` are those of texts, by column."""

    where: str
    table: str
    source: str
    address: Address | None
    bounds: Bounds | None
    lengths: Mapping[str, int]
    check_query: str
    nulls: bool


def target_of(table: StoreTable) -> Target:
    """The options of a table, checked. Nothing is opened.

    Errors: OPTION_UNKNOWN, OPTION_MISSING, OPTION_INVALID, DATABASE_UNKNOWN; NOT_SUPPORTED for an attribute that is an object.
    """
    where, options = f"@store of {table.name} (rdbms)", table.options
    check_options(where, options, OPTIONS, NOWHERE)
    for column in table.schema.columns:
        if column.type is Type.OBJECT:
            what = f"the attribute '{column.name}' of '{table.name}', an object, in a relational database"
            raise error("NOT_SUPPORTED", what=what, alternative="give it another type, or leave @store out")
    return Target(
        where,
        _table_name(where, options.get("table.name", table.name)),
        options.get("datasource", "").strip() or options.get("jndi.resource", "").strip(),
        _address(where, options),
        _bounds(where, options.get("pool.properties", "")),
        _lengths(where, options.get("field.length", ""), table),
        _query(where, options.get("table.check.query", "").strip()),
        options.get("allow.null.values", "true").strip().lower() == "true",
    )


def _address(where: str, options: Mapping[str, str]) -> Address | None:
    if options.get("datasource", "").strip() or options.get("jndi.resource", "").strip():
        return None
    url = options.get("jdbc.url", "").strip()
    if not url:
        raise error("OPTION_MISSING", where=where, name="jdbc.url")
    address = Address(url, options.get("username", ""), options.get("password", ""))
    parsed = address.parsed
    if parsed.get_backend_name() == "sqlite" and parsed.database in (None, "", ":memory:"):
        wanted = "a file: a database in memory would be another one for each connection"
        raise error("OPTION_INVALID", where=where, name="jdbc.url", value=url, wanted=wanted)
    return address


def _table_name(where: str, name: str) -> str:
    if not name.strip() or "\0" in name:
        raise error("OPTION_INVALID", where=where, name="table.name", value=name, wanted="the name of a table")
    return name.strip()


def _query(where: str, query: str) -> str:
    """A query that only reads: an app shall do no more with a data source of the node than with its table."""
    if query and (";" in query.rstrip("; \n\t") or not re.match(r"select\b", query, re.IGNORECASE)):
        raise error("OPTION_INVALID", where=where, name="table.check.query", value=query, wanted="one SELECT")
    return query.rstrip("; \n\t")


def _pairs(where: str, option: str, text: str) -> dict[str, int]:
    """`name:number, …`; names that end in no number keep 0."""
    found: dict[str, int] = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        name, _colon, number = (piece.strip() for piece in part.partition(":"))
        if not name or not re.fullmatch(r"\d{1,9}", number):
            raise error("OPTION_INVALID", where=where, name=option, value=text, wanted="'name:number, …'")
        found[name] = int(number)
    return found


def _lengths(where: str, text: str, table: StoreTable) -> Mapping[str, int]:
    texts = {column.name: LENGTH for column in table.schema.columns if column.type is Type.STRING}
    for name, length in _pairs(where, "field.length", text).items():
        if name not in texts or not length:
            wanted = f"attributes that are texts, each with a length ({did_you_mean(name, list(texts))})"
            raise error("OPTION_INVALID", where=where, name="field.length", value=text, wanted=wanted)
        texts[name] = length
    return texts


def _bounds(where: str, text: str) -> Bounds | None:
    """What `pool.properties` says; None where it says nothing."""
    kept = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        name = part.partition(":")[0].strip().lower()
        if name in POOL_WITHOUT_EFFECT:
            continue
        value = _pairs(where, "pool.properties", part).get(part.partition(":")[0].strip(), 0)
        if name not in _POOL or value < _POOL[name]:
            wanted = "maximumPoolSize, connectionTimeout, idleTimeout, maxLifetime, each as 'name:number'"
            raise error("OPTION_INVALID", where=where, name="pool.properties", value=part, wanted=wanted)
        kept["maximumpoolsize" if name == "maxpoolsize" else name] = value
    if not kept:
        return None
    return Bounds(
        kept.get("maximumpoolsize", Bounds().size),
        kept.get("connectiontimeout", round(Bounds().wait * 1000)) / 1000,
        kept.get("maxlifetime", 0) / 1000 or None,
        kept.get("idletimeout", 0) / 1000 or None,
    )
