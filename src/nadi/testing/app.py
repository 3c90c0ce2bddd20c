"""An app under test: events go in by name of stream, time passes when told to, rows are compared with the expected ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from nadi.errors import did_you_mean, error
from nadi.functions.builtinstores import STORES
from nadi.functions.registry import default_registry
from nadi.functions.stores import Store, StoreKind, StoreTable
from nadi.kernel.contract import Failure
from nadi.kernel.rows.events import CURRENT, Chunk
from nadi.kernel.rows.memorystore import MemoryStore
from nadi.lang import parse_on_demand, substitute
from nadi.plan.nodes import Schema
from nadi.plan.on_demand import bind_on_demand
from nadi.runtime import Runtime
from nadi.testing.origins import origins
from nadi.testing.report import Difference, Unexpected
from nadi.testing.rows import Arrived, Pair, compare, expected, sent, several
from nadi.testing.times import Time, duration, instant, words

if TYPE_CHECKING:
    from nadi.functions.registry import Registry

TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class ExpectedError:
    """An event that no query could process and no fault stream took. None: not looked at; `message` is a part of the message."""

    condition: str | None = None
    stream: str | None = None
    message: str | None = None

    def fits(self, failure: Failure) -> bool:
        return (
            self.condition in (None, failure.condition)
            and self.stream in (None, failure.stream)
            and (self.message is None or self.message in failure.message)
        )

    def __str__(self) -> str:
        return " ".join(filter(None, (self.condition, self.stream and f"in {self.stream}", self.message))) or "an error"


@dataclass(slots=True)
class _Heard:
    """What came on a stream; the first `told` rows were expected already."""

    schema: Schema
    rows: list[Arrived] = field(default_factory=list)
    told: int = 0
    expected: bool = False


def _without_databases() -> Registry:
    """What is built in. A test begins with empty tables, and changes none of a database."""
    registry = default_registry()
    registry.add(*map(_in_memory, filter(None, map(registry.store, STORES))))
    return registry


def _in_memory(kind: StoreKind) -> StoreKind:
    def make(table: StoreTable) -> Store:
        kind.make(table)  # it checks the options
        return MemoryStore(table)

    return replace(kind, make=make)


class AppUnderTest:
    """One app on a virtual clock. Its sources and sinks are not opened.

    >>> app = AppUnderTest("define stream S (a int); from S[a > 1] select a * 2 as b insert into Out;")
    >>> app.send("S", [[1], [2]], at="1 sec")
    >>> app.expect("Out", [[4]])
    >>> app.expect("Out", [[5]])
    Traceback (most recent call last):
        ...
    nadi.testing.report.Unexpected: stream Out: 1 row missing
        expected  came
      - [5]
      Out comes from
        query 1, line 1
          from S[a > 1] select a * 2 as b insert into Out
    """

    def __init__(
        self,
        text: str,
        *,
        file: str = "",
        start: Time = 0,
        variables: Mapping[str, str] | None = None,
        tolerance: float = TOLERANCE,
        registry: Registry | None = None,
    ) -> None:
        """Make and start an app.

        Args:
            text: the app.
            file: its name, for messages.
            start: where the clock begins: ms since 1970, or `2013-01-01T06:00:00Z`.
            variables: for `${name}`.
            tolerance: by how much floats may differ from expected ones, times their size where that is above 1.
            registry: functions and windows; if None the built-in ones, and tables that are in databases are in memory.

        Raises:
            NadiError: no app can be made of the text.
        """
        self.text = substitute(text, variables or {}, file=file)
        self.file = file
        self.tolerance = tolerance
        self._registry = registry or _without_databases()
        self.start = instant(start, 0)
        self.runtime = Runtime(self.text, registry=self._registry, now=self.start, connected=False)
        self._time = self.start
        self._claimed = 0
        app = self.runtime.app
        schemas = {key: stream.schema for key, stream in app.streams.items() if stream.partition is None}
        schemas |= {name: window.schema for name, window in app.windows.items()}
        self._heard = {key: _Heard(schema) for key, schema in schemas.items()}
        for key in self._heard:
            self.runtime.on_stream(key, self._listener(key))
        self.runtime.start()

    def _listener(self, stream: str) -> Callable[[Chunk], None]:
        rows = self._heard[stream].rows

        def listen(chunk: Chunk) -> None:
            now = self.runtime.kernel.flow.now
            rows.extend(Arrived(e.row, now, e.ts) for e in chunk if e.kind == CURRENT)

        return listen

    # ---- what happens

    def at(self, time: Time) -> AppUnderTest:
        """Let it be `time`: since the start, or a date with its time. In playback an earlier time is that of the events to come.

        Raises:
            TEST_TIME; TEST_CLOCK: the clock has passed it.
        """
        wanted = instant(time, self.start)
        if wanted < self.runtime.now and self.runtime.app.playback is None:
            now, then = words(self.runtime.now - self.start), words(wanted - self.start)
            raise error("TEST_CLOCK", now=now, time=then)
        self._time = wanted
        self.runtime.advance_to(wanted)
        return self

    def advance(self, time: Time) -> None:
        """Let time pass (in playback: that of the arrival clock, which fires triggers and `idle.time`)."""
        self.runtime.advance(duration(time))
        self._time = self.runtime.now

    def send(self, stream: str, rows: object, at: Time | None = None) -> None:
        """Send one row (a list of values, a dict by attribute), or a list of rows as one chunk; first let it be `at`.

        A row may also be `{"row": …, "timestamp": …}`: it then has a timestamp of its own.

        Raises:
            STREAM_NOT_DEFINED, TEST_ROW, TEST_VALUE, ATTRIBUTE_NOT_FOUND, TEST_TIME, TEST_CLOCK.
        """
        if at is not None:
            self.at(at)
        known = self.runtime.app.streams
        if stream not in known:
            raise error("STREAM_NOT_DEFINED", name=stream, hint=did_you_mean(stream, known))
        given = [sent(row, stream, known[stream].schema, self.start) for row in several(rows)]
        self.runtime.send(stream, [(self._time if ts is None else ts, row) for ts, row in given])

    # ---- what is so

    def rows(self, stream: str) -> list[tuple[object, ...]]:
        """The rows of a stream or named window since the last `expect` on it."""
        heard = self._of(stream)
        return [came.row for came in heard.rows[heard.told :]]

    def expect(
        self, stream: str, rows: Sequence[object], *, unordered: bool = False, tolerance: float | None = None
    ) -> None:
        """These rows, no others, came on a stream (`!S`: a fault stream) or named window since the last `expect` on it.

        A row is a list of values, a dict (attributes that it leaves out are not looked at), or `{"row": …, "at": …, "timestamp": …}` with the
        clock at which it came.

        Raises:
            Unexpected: it is not so.
            STREAM_NOT_DEFINED, TEST_ROW, ATTRIBUTE_NOT_FOUND, TEST_TIME.
        """
        heard = self._of(stream)
        wanted = [expected(row, stream, heard.schema, self.start) for row in rows]
        came = heard.rows[heard.told :]
        heard.told, heard.expected = len(heard.rows), True
        pairs = compare(wanted, came, self.tolerance if tolerance is None else tolerance, unordered)
        self._judge(f"stream {stream}", stream, pairs)

    def query(self, text: str) -> list[tuple[object, ...]]:
        """The rows that an on-demand query finds.

        Raises:
            SiddhiParserException, OnDemandQueryCreationException.
        """
        return [e.row for e in self.runtime.query(text) or ()]

    def expect_query(
        self, text: str, rows: Sequence[object], *, unordered: bool = False, tolerance: float | None = None
    ) -> None:
        """An on-demand query finds these rows.

        Raises:
            Unexpected: it does not.
        """
        asked = bind_on_demand(parse_on_demand(text), self.runtime.app, self._registry, text=text)
        wanted = [expected(row, "the query", asked.selection.schema, self.start) for row in rows]
        came = [Arrived(row, self.runtime.now, 0) for row in self.query(text)]
        pairs = compare(wanted, came, self.tolerance if tolerance is None else tolerance, unordered)
        self._judge(f"query {text.strip()}", asked.store, pairs)

    def expect_errors(self, wanted: Iterable[ExpectedError]) -> None:
        """These errors, in this order and no others, came since the last call; those that went to a fault stream are rows there.

        Raises:
            Unexpected: it is not so.
        """
        came = self._new_failures()
        wanted = list(wanted)
        if len(wanted) == len(came) and all(w.fits(c) for w, c in zip(wanted, came, strict=True)):
            return
        said = [*(f"  expected: {w}" for w in wanted), *(f"  came:     {_told(c)}" for c in came)]
        what = "\n".join([f"errors: {len(came)} came, {len(wanted)} expected", *said])
        streams = dict.fromkeys(f"!{c.stream}" for c in came)
        reading = dict.fromkeys(o for s in streams for o in origins(self.text, s))
        raise Unexpected(Difference(what, (), tuple(reading), self.start, 0, self.file))

    def _new_failures(self) -> list[Failure]:
        failures = [f for f in self.runtime.failures if not f.routed]
        new, self._claimed = failures[self._claimed :], len(failures)
        return new

    def finish(self) -> tuple[Difference, ...]:
        """End: what came on streams that were expected on, after their last `expect`, and errors that nobody expected."""
        self.runtime.shutdown()
        checks = [partial(self.expect, name, ()) for name, heard in self._heard.items() if heard.expected]
        left = []
        for check in (*checks, partial(self.expect_errors, ())):
            try:
                check()
            except Unexpected as found:
                left.append(found.difference)
        return tuple(left)

    def _judge(self, what: str, target: str, pairs: tuple[Pair, ...]) -> None:
        if not all(pair.same for pair in pairs):
            made = origins(self.text, target)
            raise Unexpected(Difference(what, pairs, made, self.start, 0, self.file))

    def _of(self, stream: str) -> _Heard:
        heard = self._heard.get(stream)
        if heard is None:
            raise error("STREAM_NOT_DEFINED", name=stream, hint=did_you_mean(stream, self._heard))
        return heard


def _told(failure: Failure) -> str:
    place = f" in {failure.stream}" if failure.stream else ""
    return f"{failure.condition}{place}: {failure.message} (row {list(failure.row)})"
