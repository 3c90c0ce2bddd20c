"""An app in this process, on a virtual clock: for tests, the editor, previews, and small work without Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from nadi.errors import NadiError, error
from nadi.functions.registry import default_registry
from nadi.kernel.contract import Failure, Segment
from nadi.kernel.rows.engine import RowsKernel
from nadi.kernel.rows.events import CURRENT, Chunk, Event
from nadi.kernel.rows.queries import QueryCallback
from nadi.lang import parse_on_demand
from nadi.lang.refs import with_refs
from nadi.plan import plan_app
from nadi.plan.nodes import Script
from nadi.plan.on_demand import bind_on_demand, condition_of
from nadi.runtime import inmemorysinks, transport
from nadi.runtime.broker import Broker, TypedSubscriber
from nadi.runtime.errors import Errors
from nadi.runtime.inmemorysinks import Unpublished
from nadi.runtime.persisted import packed, unpacked
from nadi.runtime.sandbox import Sandbox
from nadi.runtime.values import row_of

if TYPE_CHECKING:
    from nadi.functions.registry import Registry
    from nadi.lang.refs import Refs

Given = tuple[int | None, Sequence[object]] | Sequence[object]


class Runtime:
    """One app. Time passes only through `advance`, or, in playback, with the timestamps of events.

    >>> app = Runtime("define stream S (a int); from S[a > 1] select a * 2 as b insert into Out;")
    >>> rows = []
    >>> app.on_stream("Out", lambda events: rows.extend(e.row for e in events))
    >>> app.start()
    >>> app.send("S", [(None, (1,)), (None, (2,))])
    >>> rows
    [(4,)]
    """

    def __init__(
        self,
        text: str,
        *,
        registry: Registry | None = None,
        broker: Broker | None = None,
        now: int = 0,
        properties: Mapping[str, str] | None = None,
        connected: bool = True,
        refs: Refs | None = None,
        clock: Callable[[], int] | None = None,
    ) -> None:
        """Make an app of a text.

        Args:
            text: the Siddhi app.
            registry: functions, aggregators and windows; the built-in ones if None.
            broker: shared by the apps whose inMemory sources and sinks are to meet; one of its own if None.
            now: where the clock stands, ms.
            properties: of the node, as in a deployment.yaml: "aggTimeZone".
            connected: whether its inMemory sources and sinks meet the broker.
            refs: of the node, as in a deployment.yaml: by name the type and the options of sources, sinks and stores with `ref='name'`. Where there
                are none, such annotations stay as they are.
            clock: one that several apps share, ms. What one of them sends to another one while the clock moves finds it at the new time.

        Raises:
            NadiError: what Siddhi would raise for the text; a ref that is unknown.
        """
        self.registry = registry or default_registry()
        self.broker = broker or Broker()
        self.app = plan_app(text if refs is None else with_refs(text, refs), self.registry)
        self._properties = dict(properties or {})
        self._sandbox: Sandbox | None = None
        self.kernel = self._new_kernel()
        self._listening: list[
            Callable[[RowsKernel], None]
        ] = []  # what was asked for, to be asked of the next kernel too
        self._now = now
        self._clock = clock or (lambda: self._now)
        self._state = "new"
        self._begun = self._restored = False
        self._failures: list[Failure] = []
        self.errors = Errors(self.app.name, self.app.streams, self._deliver_again, self._collect)
        self._sources: list[tuple[str, TypedSubscriber]] = []
        self._known = transport.sources(self.app, self.send, self._refuse) if connected else []
        for key, publish in inmemorysinks.sinks(self.app, self.broker, self._unpublished) if connected else ():
            self.on_stream(key, publish)

    def _new_kernel(self) -> RowsKernel:
        return RowsKernel(self.app, self.registry, properties=self._properties, scripts=self._new_sandbox)

    def _new_sandbox(self, scripts: Mapping[str, Script]) -> Sandbox:
        """For a new kernel: that of the one before it ends."""
        if self._sandbox is not None:
            self._sandbox.close()
        self._sandbox = Sandbox(scripts)
        return self._sandbox

    # ---- life

    @property
    def now(self) -> int:
        """The arrival clock, ms."""
        return self._now

    @property
    def running(self) -> bool:
        """Whether it was started and not stopped."""
        return self._state == "running"

    @property
    def failures(self) -> tuple[Failure, ...]:
        """Events that queries could not process, so far."""
        self._collect()
        return tuple(self._failures)

    def _collect(self) -> None:
        """Take over what the kernel has noted."""
        taken = self.kernel.delivery.take_failures()
        self._failures.extend(taken)
        self.errors.keep_events(taken)

    def start(self, now: int | None = None) -> None:
        """Begin: timers of the start, `at 'start'` triggers, then the sources. After a `restore` the app goes on instead.

        After a `shutdown` it goes on with what it had, and with triggers that begin anew (semantics/time.md#triggers).
        """
        if self._state == "running":
            return
        self._now = self._now if now is None else max(now, self._now)
        self._state = "running"
        if self._restored:
            self.kernel.advance(self._now)
        elif self._begun:
            self.kernel.resume(self._now)
        else:
            self.kernel.start(self._now)
        self._begun, self._restored = True, False
        self._sources = list(self._known)
        for topic, receive in self._sources:
            self.broker.subscribe_typed(topic, receive)

    def shutdown(self) -> None:
        """Stop: nothing is flushed, nothing goes in until it is started again."""
        self._state = "stopped"
        for topic, receive in self._sources:
            self.broker.unsubscribe(topic, receive)
        self._sources = []
        if self._sandbox is not None:
            self._sandbox.close()

    # ---- events and time

    def send(self, stream: str, events: Iterable[Given]) -> None:
        """Send events as one chunk: rows, or pairs (timestamp in ms or None for now, row).

        As in Siddhi, values that a row lacks are null, and values that it has too many are ignored.

        Raises:
            SiddhiAppRuntimeException: NOT_RUNNING.
            SiddhiAppCreationException: STREAM_NOT_DEFINED.
        """
        if self._state != "running":
            raise self._not_running("sending events")
        if (now := self._clock()) > self._now:
            self.advance_to(now)
        chunk = [self._event(stream, given) for given in events]
        if chunk:
            self.kernel.deliver(stream, chunk)

    def _event(self, stream: str, given: Given) -> Event:
        found = self.app.streams.get(stream)
        if found is None:
            raise error("STREAM_NOT_DEFINED", name=stream, hint="events can be sent to streams that are defined")
        ts, values = _parts(given)
        if ts is None:  # 4.x stamps with the app's clock, 5.1 with the machine's, also in playback
            ts = self.kernel.flow.now if self.app.compat == 4 else self._now
        return Event(CURRENT, ts, row_of(found.schema, tuple(values)))

    def advance(self, ms: int) -> None:
        """Let time pass: timers fire on the way, each at its due time."""
        self.advance_to(self._now + ms)

    def advance_to(self, until: int) -> None:
        """Move the clock to `until` (ms); it never goes back."""
        self._now = max(self._now, until)
        if self._state == "running":
            self.kernel.advance(self._now)

    def next_timer(self) -> int | None:
        """When the next timer is due, ms; None where none waits or the app does not run."""
        return self.kernel.next_timer() if self._state == "running" else None

    def _unpublished(self, message: Unpublished) -> None:
        """A sink could not publish events (`on.error`)."""
        self._collect()
        self.kernel.fail(message.stream, message.events, message.problem, message.action == "STREAM")
        taken = self.kernel.delivery.take_failures()
        self._failures.extend(taken)
        mine, others = taken[: len(message.events)], taken[len(message.events) :]
        if message.action in ("STREAM", "STORE") and not mine[0].routed:
            reason = f"[{mine[0].condition}] {mine[0].message}"
            self.errors.keep_message(message.stream, message.events, reason, message.publish)
        self.errors.keep_events(others)

    def _refuse(self, stream: str, rows: transport.Rows, problem: NadiError) -> None:
        """Events of a topic are none of a stream: as on a node its fault stream gets them with attributes that are null."""
        nothing = (None,) * len(self.app.streams[stream].schema)
        self.kernel.fail(stream, [self._event(stream, (ts, nothing)) for ts, _row in rows], problem)

    def _deliver_again(self, stream: str, chunk: Chunk) -> None:
        if self._state != "running":
            raise self._not_running("sending events")
        self.kernel.deliver(stream, chunk)

    # ---- listening

    def on_stream(self, stream: str, callback: Callable[[Chunk], None]) -> None:
        """Call back with each chunk on a stream, after the queries that read it."""
        self._listen(lambda kernel: kernel.on_stream(stream, callback))

    def on_query(self, name: str, callback: QueryCallback) -> None:
        """Call back with each result of a query: (timestamp, C events or None, X events or None)."""
        self._listen(lambda kernel: kernel.on_query(name, callback))

    def _listen(self, ask: Callable[[RowsKernel], None]) -> None:
        ask(self.kernel)
        self._listening.append(ask)

    def query(self, text: str) -> list[Event] | None:
        """Run an on-demand query on tables and named windows: the rows found, or None where there are none; [] after a change.

        Raises:
            SiddhiParserException: the text is no on-demand query.
            OnDemandQueryCreationException: it contradicts the app, or fails on a value (in an app by the rules of 4.x StoreQueryCreationException).
        """
        asked = bind_on_demand(parse_on_demand(text), self.app, self.registry, text=text)
        try:
            return self.kernel.ask(asked)
        except NadiError as problem:  # as in Siddhi: what fails while it runs has the class of what cannot be made
            found = problem.diagnostic
            raise error(condition_of(self.app), reason=found.message, hint=found.next_step) from problem

    # ---- state

    def persist(self) -> bytes:
        """The whole state of the app."""
        return packed(self.kernel.dump())

    def restore(self, state: bytes) -> None:
        """Put a persisted state back, before or after `start`. In playback the clock of events stays where it is.

        Raises:
            CannotRestoreSiddhiAppStateException: STATE_NOT_READABLE.
        """
        self.kernel.restore(unpacked(state))
        self._restored = True
        if self._state == "running":
            self.kernel.advance(self._now)

    def move(self, state: Iterable[Segment | bytes]) -> None:
        """Go on with a new kernel that is given a state (a dump, or one and the deltas since), as after a restart. Nothing must come of it."""
        self._collect()
        self.kernel = self._new_kernel()
        for ask in self._listening:
            ask(self.kernel)
        self.kernel.load(state)

    def _not_running(self, what: str) -> Exception:
        return error("NOT_RUNNING", app=self.app.name, what=what)


def _parts(given: Given) -> tuple[int | None, Sequence[object]]:
    if len(given) == 2 and isinstance(given[1], (tuple, list)) and (given[0] is None or isinstance(given[0], int)):
        return given[0], given[1]
    return None, given
