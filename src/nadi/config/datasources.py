"""`wso2.datasources`: the databases of a node, by name.

H2 runs in Java only. A data source of a file of H2 is a file of SQLite beside it, and a notice says so; databases that H2 serves or keeps in memory are
refused where something wants them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, Field

from nadi.config.places import JNDI, Bounds, DataSource
from nadi.config.section import Section, unused
from nadi.errors import error

SHORTEST_WAIT = 250  # ms: a shorter time to wait for a connection would refuse one that is being made

_H2 = re.compile(r"jdbc:h2:(?:file:|split:(?:\d+:)?|nio:|zip:)?(?!mem:|tcp:|ssl:|mem$)([^;]+)", re.IGNORECASE)


class Configuration(Section):
    """`definition.configuration`. The bounds hold for each pool: what uses a data source has one in each process that it runs in. Each connection is checked by
    its driver before it is used again. Times are in ms."""

    model_config = ConfigDict(extra="allow", frozen=True, populate_by_name=True, coerce_numbers_to_str=True)

    jdbc_url: str = Field(default="", alias="jdbcUrl")
    username: str = ""
    password: str = Field(default="", repr=False)
    driver: str = Field(default="", alias="driverClassName")
    max_pool_size: int = Field(default=10, ge=1, alias="maxPoolSize")
    connection_timeout: int = Field(default=10_000, ge=SHORTEST_WAIT, alias="connectionTimeout")
    max_lifetime: int = Field(default=0, ge=0, alias="maxLifetime")
    idle_timeout: int = Field(default=0, ge=0, alias="idleTimeout")
    minimum_idle: Any = unused("minimumIdle", "connections are made when they are first needed", 0, "0")
    test_query: Any = unused("connectionTestQuery", "the driver asks the database in its own way", "SELECT 1")
    validation_timeout: Any = unused("validationTimeout", "a connection is checked within 10 s", 30_000, "30000")
    auto_commit: Any = unused(
        "isAutoCommit", "what belongs together is committed together, whatever it says", False, "false"
    )

    @property
    def bounds(self) -> Bounds:
        """As a pool takes them; 0 ms: without a bound."""
        return Bounds(
            self.max_pool_size,
            self.connection_timeout / 1000,
            self.max_lifetime / 1000 or None,
            self.idle_timeout / 1000 or None,
        )


class Definition(Section):
    """`definition`."""

    type: Any = unused("type", "every data source is a relational database", "RDBMS")
    configuration: Configuration = Configuration()


class JndiName(Section):
    """`jndiConfig`: a second name."""

    name: str = ""
    use_jndi_reference: bool = Field(default=False, alias="useJndiReference")


class DataSourceEntry(Section):
    """One of `dataSources`."""

    name: str = Field(min_length=1)
    description: str = ""
    jndi: JndiName = Field(default=JndiName(), alias="jndiConfig")
    definition: Definition = Definition()

    @property
    def names(self) -> tuple[str, ...]:
        """Its name, and that of `jndiConfig`, if there is one."""
        return tuple(dict.fromkeys(name for name in (self.name, self.jndi.name) if name))

    @property
    def source(self) -> DataSource:
        """As nadi uses it."""
        given = self.definition.configuration
        return DataSource(self.name, replaced(given.jdbc_url), given.username, given.password, given.bounds)


class DataSources(Section):
    """`wso2.datasources`."""

    entries: tuple[DataSourceEntry, ...] = Field(default=(), alias="dataSources")

    def find(self, name: str) -> DataSource | None:
        """The one of a name, if there is one; `java:comp/env/<JNDI name>` and the JNDI name itself are names, too."""
        bare = name.removeprefix(JNDI)
        return next((entry.source for entry in self.entries if bare in (entry.name, entry.jndi.name)), None)

    def source(self, name: str, wanted_by: str) -> DataSource:
        """The one of a name, as `find` has it. Errors: INVALID_SETTING, which names the key `wanted_by`."""
        found = self.find(name)
        if found is not None:
            return found
        known = ", ".join(entry.name for entry in self.entries) or "none"
        wanted = f"a data source of wso2.datasources (there are: {known})"
        raise error("INVALID_SETTING", name=wanted_by, value=name, wanted=wanted)

    def files(self) -> tuple[Path, ...]:
        """The files of SQLite that stand in for those of H2."""
        urls = (entry.definition.configuration.jdbc_url for entry in self.entries)
        return tuple(Path(replaced(url).removeprefix("jdbc:sqlite:")) for url in urls if is_h2_file(url))

    def notices(self) -> Iterator[str]:
        """What is done in another way than the file says."""
        stand_ins = [e.name for e in self.entries if is_h2_file(e.definition.configuration.jdbc_url)]
        if stand_ins:
            what = f"data source {stand_ins[0]} is" if len(stand_ins) == 1 else f"data sources {_joined(stand_ins)} are"
            yield f"{what} in SQLite, as H2 runs in Java only: the file has the name that H2 would give it, with .sqlite at its end"


def is_h2_file(url: str) -> bool:
    """Whether a JDBC URL is one of a file of H2.

    >>> is_h2_file("jdbc:h2:./database/X;AUTO_SERVER=TRUE"), is_h2_file("jdbc:h2:mem:x")
    (True, False)
    """
    return _H2.match(url.strip()) is not None


def replaced(url: str) -> str:
    """The URL that stands in for one of a file of H2; others stay.

    >>> replaced("jdbc:h2:/home/nadi/wso2/worker/database/X;AUTO_SERVER=TRUE")
    'jdbc:sqlite:/home/nadi/wso2/worker/database/X.sqlite'
    """
    found = _H2.match(url.strip())
    if found is None:
        return url
    return f"jdbc:sqlite:{Path(found[1].strip()).expanduser()}.sqlite"


def _joined(names: list[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"
