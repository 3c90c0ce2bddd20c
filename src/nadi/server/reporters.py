"""Makes the statistics of a node, with its reporters, out of its deployment.yaml."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from nadi.config.deployment import Deployment
from nadi.config.metrics import CsvReporter, Reporter, Reservoir
from nadi.databases import Address
from nadi.metrics.filters import Filter, Shown
from nadi.metrics.registry import Registry, Snapshot
from nadi.metrics.reporters import poll
from nadi.metrics.reporters.poll import Polling
from nadi.metrics.reservoirs import DecayingReservoir, SlidingReservoir, UniformReservoir
from nadi.metrics.reservoirs import Reservoir as Sample
from nadi.metrics.system import NodeGauges
from nadi.pipeline.jvmfacts import JvmFacts
from nadi.pipeline.node import NodeOptions
from nadi.server.statistics import Starts, Statistics

Make = Callable[[], poll.Reporter]


def statistics_for(deployment: Deployment, options: NodeOptions, home: Path) -> Statistics:
    """The statistics of a node. Nothing is connected, and no file is made, before they are started."""
    config = deployment.sections.metrics
    registry = Registry(partial(_sample, config.reservoir))
    shown = Shown(config.levels.root, config.levels.levels)
    reporters = tuple(_reporters(deployment, home))
    return Statistics(options, registry, NodeGauges(JvmFacts(), shown), reporters, config.enabled, shown)


def _sample(config: Reservoir, now: float) -> Sample:
    """What a timer that begins now keeps its values in."""
    size = config.parameters.size
    match config.type:
        case "UNIFORM":
            return UniformReservoir(size)
        case "SLIDING_WINDOW":
            return SlidingReservoir(size)
        case "SLIDING_TIME_WINDOW":
            return SlidingReservoir(size, config.parameters.seconds)
    return DecayingReservoir(now, size)


def _reporters(deployment: Deployment, home: Path) -> Iterator[Starts]:
    """What starts each reporter that is enabled. Libraries are imported then: they take a while, and a node may have none of them."""
    reporting, own = deployment.sections.metrics.reporting, deployment.sections.own.otlp
    for console in reporting.console:
        if console.enabled:
            yield _starts(console, console.polling_period, _console)
    for files in reporting.csv:
        if files.enabled:
            yield _starts(files, files.polling_period, partial(_csv, files, home))
    for logged in reporting.slf4j:
        if logged.enabled:
            yield _starts(logged, logged.polling_period, partial(_log, logged.logger_name))
    for reporter, source, place in deployment.metrics_places:
        name = reporter.source or deployment.sections.carbon.id
        address = Address.of(place)
        days = source.cleanup.days_to_keep if source.cleanup.enabled else 0
        make = partial(_tables, address, name, days, source.cleanup.period)
        yield _starts(reporter, reporter.polling_period, make)
    if own.enabled and own.endpoint:
        headers = {header: value.get_secret_value() for header, value in own.headers.items()}
        make = partial(_otlp, own.endpoint, headers, own.timeout, deployment.sections.carbon.id)
        yield _starts(own, own.polling_period, make)


def _starts(config: Reporter, period: float, make: Make) -> Starts:
    wanted = Filter(config.includes, config.excludes, config.use_regex_filters)

    def start(collect: Callable[[], Snapshot]) -> Polling:
        return Polling(config.name, make(), wanted, period, collect)

    return start


def _console() -> poll.Reporter:
    from nadi.metrics.reporters.console import ConsoleReporter

    return ConsoleReporter()


def _csv(config: CsvReporter, home: Path) -> poll.Reporter:
    from nadi.metrics.reporters.csvfiles import CsvFiles

    return CsvFiles(home / config.location)


def _log(name: str) -> poll.Reporter:
    from nadi.metrics.reporters.logged import LogReporter

    return LogReporter(name)


def _tables(address: Address, source: str, days: int, period: float) -> poll.Reporter:
    from nadi.metrics.reporters.tables import Cleanup, TablesReporter

    return TablesReporter(address, source, Cleanup(days, period) if days else None)


def _otlp(endpoint: str, headers: dict[str, str], timeout: float, node: str) -> poll.Reporter:
    from nadi.metrics.reporters.otlp import OtlpReporter

    return OtlpReporter(endpoint, headers, timeout, node)
