"""`wso2.metrics`, `wso2.metrics.jdbc` and `nadi: otlp:` of a deployment.yaml: what a node measures, and where it tells of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BeforeValidator, Field, SecretStr

from nadi.config.places import DataSource
from nadi.config.section import Section, unused
from nadi.errors import error

LevelName = Literal["OFF", "INFO", "DEBUG", "TRACE", "ALL"]
T = TypeVar("T")
_NO_JMX = "nadi has no JMX; Prometheus reads '/metrics'"
_NO_HDR = "it is for HDR_HISTOGRAM, which nadi does not have"
_TIMED = "SLIDING_TIME_WINDOW"


def _listed(given: Any) -> Any:
    """One reporter may stand without the list around it."""
    return [given] if isinstance(given, Mapping) else given


def _as_word(given: Any) -> Any:
    """`OFF` without quotes is false in YAML."""
    return "OFF" if given is False else given.upper() if isinstance(given, str) else given


Listed = Annotated[tuple[T, ...], BeforeValidator(_listed)]
Word = Annotated[LevelName, BeforeValidator(_as_word)]


class Levels(Section):
    """`levels`: which metrics there are. `levels` are those of names, and of all names below them."""

    root: Word = Field(default="INFO", alias="rootLevel")
    levels: Mapping[str, Word] = Field(default_factory=dict)


class ReservoirParameters(Section):
    """`reservoir.parameters`: how many values are kept; for SLIDING_TIME_WINDOW how long."""

    size: int = Field(default=1_028, ge=1, le=1_000_000)
    window: int = Field(default=1, ge=1)
    window_unit: Literal["SECONDS", "MINUTES", "HOURS", "DAYS"] = Field(default="SECONDS", alias="windowUnit")
    significant_digits: Any = unused("numberOfSignificantValueDigits", _NO_HDR, 2, "2")
    reset_on_snapshot: Any = unused("resetOnSnapshot", _NO_HDR, False, "false")

    @property
    def seconds(self) -> float:
        """The window in seconds."""
        return self.window * {"SECONDS": 1, "MINUTES": 60, "HOURS": 3_600, "DAYS": 86_400}[self.window_unit]


class Reservoir(Section):
    """`reservoir`: what histograms and timers keep."""

    type: Literal["EXPONENTIALLY_DECAYING", "UNIFORM", "SLIDING_WINDOW", "SLIDING_TIME_WINDOW", "HDR_HISTOGRAM"] = (
        "EXPONENTIALLY_DECAYING"
    )
    parameters: ReservoirParameters = ReservoirParameters()


class Reporter(Section):
    """What all reporters have: of names that match `includes` (none: all) and not `excludes` they tell; `useRegexFilters`: these are regular expressions."""

    name: str = ""
    enabled: bool = False
    includes: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()
    use_regex_filters: bool = Field(default=False, alias="useRegexFilters")


class Polled(Reporter):
    """A reporter that tells every `pollingPeriod` seconds."""

    polling_period: int = Field(default=60, ge=1, le=86_400, alias="pollingPeriod")


class ConsoleReporter(Polled):
    """To standard output."""

    name: str = "Console"


class CsvReporter(Polled):
    """A file for each metric, in the folder `location`; a relative one is in the home of the node."""

    name: str = "CSV"
    location: str = "logs/metrics"


class LogReporter(Polled):
    """To the log of the node, as `loggerName`."""

    name: str = "SLF4J"
    logger_name: str = Field(default="metrics", alias="loggerName")


class Reporting(Section):
    """`reporting`."""

    jmx: Any = unused("jmx", _NO_JMX)
    console: Listed[ConsoleReporter] = (ConsoleReporter(),)
    csv: Listed[CsvReporter] = (CsvReporter(),)
    slf4j: Listed[LogReporter] = (LogReporter(),)


class Metrics(Section):
    """`wso2.metrics`."""

    enabled: bool = True
    levels: Levels = Levels()
    reservoir: Reservoir = Reservoir()
    jmx: Any = unused("jmx", _NO_JMX)
    reporting: Reporting = Reporting()

    def notices(self) -> Iterator[str]:
        """What of it has no effect, or another one."""
        if self.reservoir.type == "HDR_HISTOGRAM":
            yield "'wso2.metrics.reservoir.type' is EXPONENTIALLY_DECAYING: nadi has no HDR_HISTOGRAM"
        if self.reservoir.type != _TIMED and self.reservoir.parameters.seconds != 1:
            yield f"'wso2.metrics.reservoir.parameters.window' has no effect: it is for {_TIMED}"


class Cleanup(Section):
    """`scheduledCleanup`: every so many seconds rows are deleted that are older than so many days."""

    enabled: bool = True
    period: int = Field(default=86_400, ge=1, alias="scheduledCleanupPeriod")
    days_to_keep: int = Field(default=7, ge=1, alias="daysToKeep")


class JdbcSource(Section):
    """One of `dataSource`: a data source of `wso2.datasources` by its JNDI name, and how long its rows are kept."""

    name: str = Field(default="java:comp/env/jdbc/WSO2MetricsDB", alias="dataSourceName")
    lookup: Any = unused("lookupDataSource", "'dataSourceName' is looked up in any case", True, "true")
    cleanup: Cleanup = Field(default=Cleanup(), alias="scheduledCleanup")


class JdbcReporter(Polled):
    """A reporter into the five tables of a database. `source` is who tells (empty: `wso2.carbon.id`); `dataSource` which of the data sources."""

    name: str = "JDBC"
    enabled: bool = True
    source: str = ""
    data_source: JdbcSource | str | None = Field(default=None, alias="dataSource")


class JdbcReporting(Section):
    """`reporting` of `wso2.metrics.jdbc`."""

    jdbc: Listed[JdbcReporter] = ()


class Jdbc(Section):
    """`wso2.metrics.jdbc`."""

    sources: Listed[JdbcSource] = Field(default=(), alias="dataSource")
    reporting: JdbcReporting = JdbcReporting()

    def places(
        self, named: Callable[[str, str], DataSource | None]
    ) -> tuple[tuple[JdbcReporter, JdbcSource, DataSource], ...]:
        """The reporters that are enabled, each with its database; `named(name, key)` finds the data source that a key names; where it is None there is no such
        reporter. Errors: INVALID_SETTING."""
        found = []
        for i, reporter in enumerate(self.reporting.jdbc):
            if reporter.enabled:
                key = f"wso2.metrics.jdbc.reporting.jdbc[{i}].dataSource"
                source = self._source(reporter, key)
                place = named(source.name, key)
                if place is not None:
                    found.append((reporter, source, place))
        return tuple(found)

    def _source(self, reporter: JdbcReporter, key: str) -> JdbcSource:
        given = reporter.data_source
        if isinstance(given, JdbcSource):
            return given
        if given is None:
            return self.sources[0] if self.sources else JdbcSource()
        for source in self.sources:
            if source.name == given:
                return source
        known = ", ".join(source.name for source in self.sources) or "none"
        raise error("INVALID_SETTING", name=key, value=given, wanted=f"one of wso2.metrics.jdbc.dataSource ({known})")


class Otlp(Polled):
    """`nadi.otlp`: OpenTelemetry's protocol over HTTP. `endpoint` is the whole URL, as in `http://127.0.0.1:4318/v1/metrics`; without one there is no such
    reporter."""

    name: str = "OTLP"
    enabled: bool = True
    endpoint: str = ""
    headers: Mapping[str, SecretStr] = Field(default_factory=dict)
    timeout: int = Field(default=10, ge=1, le=600)
