"""The sources of a simulation: whether they can give events, and their events together."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from itertools import count

from nadi.errors import error
from nadi.plan.nodes import Schema
from nadi.server.simulation.chance import Make, makers
from nadi.server.simulation.configuration import Configuration, CsvSource, DatabaseSource, RandomSource, Source
from nadi.server.simulation.csvrows import csv_rows
from nadi.server.simulation.databases import Databases, Questions
from nadi.server.simulation.events import Event, merged
from nadi.server.simulation.rows import Judge
from nadi.server.simulation.shelf import Shelf
from nadi.server.simulation.targets import Targets, schema_of


class Sources:
    """What sources of simulations read from."""

    def __init__(self, targets: Targets, files: Shelf, databases: Databases, questions: Questions) -> None:
        self._targets = targets
        self._files = files
        self._databases = databases
        self._questions = questions

    def check(self, wanted: Configuration) -> None:
        """Whether all sources have what they need: apps, streams, files, databases. Errors: SIMULATION_INVALID, those of a database and of an app's text."""
        for number, source in enumerate(wanted.sources):
            schema = schema_of(self._targets, source.app, source.stream)
            try:
                self._check(source, schema, _seed(wanted, number))
            except ValueError as reason:
                raise error("SIMULATION_INVALID", reason=reason) from reason

    @contextmanager
    def opened(self, wanted: Configuration, now: int) -> Iterator[Iterator[Event]]:
        """All events of a simulation, in order. What has no timestamps gets them from its start on, else from `now` (ms).

        Errors, then and later: as `check`.
        """
        begin = wanted.start if wanted.start >= 0 else now
        with ExitStack() as held:
            each = []
            for number, source in enumerate(wanted.sources):
                schema = schema_of(self._targets, source.app, source.stream)
                events = self._events(source, schema, wanted, begin, _seed(wanted, number))
                each.append(held.enter_context(closing(events)))
            yield merged(each, wanted.end, wanted.count)

    def _check(self, source: Source, schema: Schema, seed: int | None) -> None:
        if isinstance(source, RandomSource):
            makers(source.attributes, schema, seed)
        elif isinstance(source, CsvSource):
            if not self._files.has(source.file):
                raise ValueError(f"there is no file '{source.file}'")
            if source.indices and len(source.indices) != len(schema):
                raise ValueError(f"the stream has {len(schema)} attributes, 'indices' has {len(source.indices)}")
        else:
            columns = _columns(source, schema)
            known = self._questions.ask(partial(self._databases.columns, source.address, source.table))
            for name in (*columns, *((source.timestamp,) if source.timestamp else ())):
                if name not in known:
                    raise ValueError(f"the table '{source.table}' has no column {name[:100]!r}")

    def _events(
        self, source: Source, schema: Schema, wanted: Configuration, begin: int, seed: int | None
    ) -> Generator[Event, None, None]:
        if isinstance(source, RandomSource):
            try:
                making = makers(source.attributes, schema, seed)
            except ValueError as reason:
                raise error("SIMULATION_INVALID", reason=reason) from reason
            return _random(making, source, begin)
        if isinstance(source, CsvSource):
            judge = Judge(f"the file {source.file}", source.app, source.stream, schema)
            rows = csv_rows(self._files, source, len(schema))
        else:
            judge = Judge(f"the table {source.table}", source.app, source.stream, schema)
            rows = self._databases.rows(source, _columns(source, schema), wanted.start, wanted.end)
        return judge.events(rows, wanted.start, source.interval, begin)


def _random(making: Sequence[Make], source: RandomSource, begin: int) -> Generator[Event, None, None]:
    for timestamp in count(begin, source.interval):
        yield Event(timestamp, source.app, source.stream, tuple(make() for make in making))


def _columns(source: DatabaseSource, schema: Schema) -> tuple[str, ...]:
    """The columns of the attributes, in their order. Raises ValueError."""
    if source.columns and len(source.columns) != len(schema):
        raise ValueError(f"the stream has {len(schema)} attributes, 'columnNamesList' has {len(source.columns)}")
    return source.columns or tuple(schema.names)


def _seed(wanted: Configuration, number: int) -> int | None:
    """A seed of its own for each source."""
    return None if wanted.seed is None else wanted.seed * 1_000 + number
