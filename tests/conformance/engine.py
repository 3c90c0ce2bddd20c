"""The adapter that the conformance runner drives: its ten methods on `nadi.runtime`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from nadi import lang
from nadi.kernel.rows.events import EXPIRED
from nadi.kernel.rows.events import Event as Row
from nadi.lang.tree import Annotation
from nadi.runtime import Runtime, RuntimeManager
from nadi.runtime.values import Double, float32
from tests.conformance.stores import registry

_PARSERS: dict[str, Callable[[str], object]] = {
    "parse": lang.parse,
    "parseQuery": lang.parse_query,
    "parseStreamDefinition": lang.parse_stream_definition,
    "parseTableDefinition": lang.parse_table_definition,
    "parseWindowDefinition": lang.parse_window_definition,
    "parseAggregationDefinition": lang.parse_aggregation_definition,
    "parseFunctionDefinition": lang.parse_function_definition,
    "parsePartition": lang.parse_partition,
    "parseExpression": lang.parse_expression,
    "parseOnDemandQuery": lang.parse_on_demand,
    "parseStoreQuery": lang.parse_on_demand,
}


class Engine:
    """One case's engine: several runtimes on one clock and broker."""

    caches_last = True

    def __init__(self) -> None:
        self.check: Any = sys.modules["check"]
        self._manager: RuntimeManager | None = None
        self._registry = registry(self.caches_last)
        self._runtimes: dict[int, Runtime] = {}
        self._revisions: dict[str, bytes] = {}
        self._snapshots: dict[str, bytes] = {}
        self._subscribed: dict[int, tuple[str, Callable[[object], None]]] = {}
        self.evr: Any = None  # the evaluator of the case, set by the runner

    @property
    def manager(self) -> RuntimeManager:
        if self._manager is None:
            start = self.evr.case["config"]["virtual_start_ms"]
            self._manager = RuntimeManager(now=start, registry=self._registry)
        return self._manager

    # ---- what the runner calls

    def create(self, rt: int, text: str, sandbox: bool = False) -> None:
        app = lang.substitute(text, {})
        self._runtimes[rt] = self.manager.create(sandboxed(app) if sandbox else app)

    def validate(self, text: str) -> None:
        Runtime(lang.substitute(text, {}), registry=self._registry).start()

    def parse(self, text: str, what: str) -> None:
        if what == "updateVariables":
            lang.parse(lang.substitute(text, {}))
            return
        parser = _PARSERS.get(what)
        if parser is None:
            raise self.check.Unsupported(f"parse as {what}")
        parser(text)

    def start(self, rt: int) -> None:
        self._runtimes[rt].start(self.manager.now)

    def shutdown(self, rt: int | str) -> None:
        if rt == "all":
            self.manager.shutdown()
        else:
            self._runtimes[int(rt)].shutdown()

    def add_callback(self, rt: int, kind: str, name: str, fn: Callable[..., None]) -> None:
        if kind == "query":
            self._runtimes[rt].on_query(
                name, lambda ts, current, expired: fn(ts, self._events(current), self._events(expired))
            )
        elif kind == "stream":
            self._runtimes[rt].on_stream(name, lambda events: fn(self._events(events)))
        else:
            raise self.check.Unsupported(f"callback {kind}")

    def send(self, rt: int, stream: str, events: list[tuple[int | None, list[Any]]]) -> None:
        self._runtimes[rt].send(stream, [(ts, [self._plain(v) for v in row]) for ts, row in events])

    def query(self, rt: int, text: str) -> list[Any] | None:
        return self._events(self._runtimes[rt].query(text))

    def advance(self, ms: int) -> None:
        self.manager.advance(ms)

    def other(self, rt: int, step: dict[str, Any]) -> None:
        kind = next(iter(step))
        action = getattr(self, f"_{kind}", None)
        if action is None:
            raise self.check.Unsupported(kind)
        action(rt, step)

    # ---- rarer steps

    def _persistence_store(self, rt: int, step: dict[str, Any]) -> None:
        """Any store will do: revisions are kept here."""

    def _config_manager(self, rt: int, step: dict[str, Any]) -> None:
        """The third part is the node's properties; the others configure extensions."""
        *_extensions, properties = step["config_manager"]
        self.manager.properties.update(self.check.decode(properties))

    def _persist(self, rt: int, step: dict[str, Any]) -> None:
        runtime = self._runtimes[rt]
        self._revisions[runtime.app.name] = runtime.persist()

    def _snapshot(self, rt: int, step: dict[str, Any]) -> None:
        """A state in the hands of the case, by the name that it gives it; "last" means what was persisted."""
        self._snapshots[str(step["snapshot"])] = self._runtimes[rt].persist()

    def _restore(self, rt: int, step: dict[str, Any]) -> None:
        runtime = self._runtimes[rt]
        state = self._snapshots.get(str(step["restore"]), self._revisions.get(runtime.app.name))
        if state is not None:
            runtime.restore(state)

    def _broker_subscribe(self, rt: int, step: dict[str, Any]) -> None:
        number = step["broker_subscribe"]
        fn = self.evr.callback(number)
        topic = self.evr.case["callbacks"][number]["name"]

        def heard(message: object) -> None:
            fn(self._message(message))

        self._subscribed[number] = topic, heard
        self.manager.broker.subscribe(topic, heard)

    def _broker_unsubscribe(self, rt: int, step: dict[str, Any]) -> None:
        topic, heard = self._subscribed.pop(step["broker_unsubscribe"])
        self.manager.broker.unsubscribe(topic, heard)

    def _broker_publish(self, rt: int, step: dict[str, Any]) -> None:
        message = self.check.decode(step["message"])
        self.manager.broker.publish(step["broker_publish"], self._published(message))

    # ---- values

    def _published(self, message: Any) -> object:
        if isinstance(message, self.check.Ev):
            return Row(0, int(message.ts), tuple(self._plain(v) for v in message.data))
        if isinstance(message, list):
            return [self._published(m) for m in message]
        return self._plain(message)

    def _message(self, message: object) -> object:
        if isinstance(message, Row):
            return self.check.Ev(list(message.row), message.ts, message.kind == EXPIRED)
        if isinstance(message, list):
            return [self._message(m) for m in message]
        return message

    def _events(self, events: list[Row] | None) -> list[Any] | None:
        if events is None:
            return None
        return [self.check.Ev(list(e.row), e.ts, e.kind == EXPIRED) for e in events]

    def _plain(self, value: Any) -> Any:
        """Java's Float and Long, which the cases mark by subclasses, as plain numbers; a plain float is a Double whatever it is given for."""
        if isinstance(value, self.check.JF):
            return float32(float(value))
        if isinstance(value, float):
            return Double(value)
        if isinstance(value, self.check.JL):
            return int(value)
        return value


def sandboxed(text: str) -> str:
    """The app without what reaches out of the process: stores, and sources and sinks that are not inMemory."""
    app = lang.parse(text)
    kept = (replace(d, annotations=tuple(a for a in d.annotations if _stays(a))) for d in app.definitions)
    return lang.print_app(replace(app, definitions=tuple(kept)))


def _stays(annotation: Annotation) -> bool:
    name = annotation.name.lower()
    if name in ("source", "sink"):
        return (annotation.get("type") or "").lower() == "inmemory"
    return name != "store"


class Restarting(Engine):
    """After each step every app gets a new kernel, from the last dump and the deltas since: results must not change."""

    caches_last = False

    def __init__(self) -> None:
        super().__init__()
        self._saved: dict[int, list[Any]] = {}

    def start(self, rt: int) -> None:
        super().start(rt)
        self._saved[rt] = list(self._runtimes[rt].kernel.dump())

    def send(self, rt: int, stream: str, events: list[tuple[int | None, list[Any]]]) -> None:
        super().send(rt, stream, events)
        self._move()

    def advance(self, ms: int) -> None:
        super().advance(ms)
        self._move()

    def query(self, rt: int, text: str) -> list[Any] | None:
        found = super().query(rt, text)
        self._move()
        return found

    def _restore(self, rt: int, step: dict[str, Any]) -> None:
        super()._restore(rt, step)
        self._saved[rt] = list(self._runtimes[rt].kernel.dump())

    def _persist(self, rt: int, step: dict[str, Any]) -> None:
        super()._persist(rt, step)
        self._saved[rt] = list(self._runtimes[rt].kernel.dump())

    def _move(self) -> None:
        for rt, runtime in self._runtimes.items():
            if runtime.running:
                saved = self._saved[rt]
                if len(saved) % 7 == 6:
                    saved[:] = list(runtime.kernel.dump())
                else:
                    saved.append(runtime.kernel.delta())
                runtime.move(saved)


def folder() -> Path | None:
    """Where the cases are: NADI_CONFORMANCE, or beside the checkout; None where they are nowhere."""
    import os

    given = os.environ.get("NADI_CONFORMANCE")
    if given:
        return Path(given)
    beside = Path(__file__).resolve().parents[3] / "shared" / "conformance"
    return beside if beside.is_dir() else None
