"""A topology that runs in this process: a runtime per instance on one clock, and channels that deliver at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import groupby

from nadi.kernel.keys import java_text, key_group
from nadi.kernel.rows.events import Chunk
from nadi.lang import parse
from nadi.lang.tree import Annotation, StreamDefinition, TriggerDefinition
from nadi.plan.distribution import Topology
from nadi.plan.distribution.connectors import TYPE
from nadi.plan.distribution.shares import partition_of
from nadi.runtime import Runtime, RuntimeManager

Rows = list[tuple[int, tuple[object, ...]]]


@dataclass(frozen=True)
class _Reader:
    """A source of an instance: what it takes, and where that goes."""

    runtime: Runtime
    stream: str
    producers: frozenset[str] = frozenset()
    assigned: frozenset[int] | None = None
    share: tuple[int, int] = (1, 1)

    def take(self, producer: str, part: int, rows: Rows) -> None:
        if producer in self.producers and (self.assigned is None or part in self.assigned):
            self.runtime.send(self.stream, rows)

    def take_message(self, number: int, rows: Rows) -> None:
        mine, of = self.share
        if number % of == mine - 1:
            self.runtime.send(self.stream, rows)


class Cluster:
    """All instances of a topology. `listen` gets (instance, stream, chunk) of every stream that a group makes and nobody gets by a channel."""

    def __init__(self, topology: Topology, outputs: Iterable[str], listen: Callable[[str, Chunk], None]) -> None:
        self.manager = RuntimeManager()
        self._readers: dict[str, list[_Reader]] = defaultdict(list)
        self._entries: dict[str, list[tuple[Runtime, str]]] = defaultdict(list)
        self._outside: dict[str, list[str]] = defaultdict(list)  # the subjects or topics by which a stream comes
        for c in topology.channels:
            self._outside[c.stream] += c.places if c.outside else ()
        self._sent: dict[object, int] = defaultdict(int)
        for group in topology.groups:
            entered = [i.name for i in group.inputs if i.user_given]
            made = {o for o in outputs if any(o == w for e in group.instances for w in _made(e.text))}
            for instance in group.instances:
                runtime = self.manager.create(instance.text)
                self._connect(runtime, instance.name, instance.text, entered)
                for stream in made:
                    runtime.on_stream(stream, lambda chunk, stream=stream: listen(stream, chunk))
        for runtime in self.manager.runtimes:
            runtime.start()

    def _connect(self, runtime: Runtime, name: str, text: str, entered: list[str]) -> None:
        for definition in parse(text).definitions:
            if not isinstance(definition, (StreamDefinition, TriggerDefinition)):
                continue
            stream = definition.name if isinstance(definition, TriggerDefinition) else definition.source.name
            for a in definition.annotations:
                channel = a.get("type") == TYPE
                if a.name.lower() == "source" and channel:
                    self._readers[a.get("name")].append(self._reader(runtime, stream, a))
                elif a.name.lower() == "source" and (outside := _outside(a)) in self._outside[_plain(stream)]:
                    self._readers[outside].append(_Reader(runtime, stream, share=_share(a)))
                elif a.name.lower() == "source":
                    (given,) = (e for e in entered if e == stream or stream == f"passthrough{e}")
                    if (runtime, stream) not in self._entries[given]:
                        self._entries[given].append((runtime, stream))
                elif a.name.lower() == "sink" and channel:
                    runtime.on_stream(stream, self._filler(runtime, name, stream, a))

    def _reader(self, runtime: Runtime, stream: str, source: Annotation) -> _Reader:
        assigned = source.get("assigned")
        parts = None if assigned is None else frozenset(map(int, assigned.split(",")))
        producers = frozenset((source.get("producers") or "").split(","))
        return _Reader(runtime, stream, producers, parts)

    def _filler(self, runtime: Runtime, name: str, stream: str, sink: Annotation) -> Callable[[Chunk], None]:
        key, channel, partitions = sink.get("key"), sink.get("name"), int(sink.get("partitions"))
        names = runtime.app.streams[stream].schema.names

        def fill(chunk: Chunk) -> None:
            rows = [(e.ts, tuple(e.row)) for e in chunk]
            if key is None:
                self._sent[name, channel] += 1
                self._publish(channel, name, self._sent[name, channel] % partitions, rows)
                return
            place = names.index(key)
            # a chunk is cut where the part changes, as channels do it: runs of equal keys stay apart
            for part, run in groupby(rows, lambda of: partition_of(key_group(java_text(of[1][place])), partitions)):
                self._publish(channel, name, part, list(run))

        return fill

    def _publish(self, channel: str, producer: str, part: int, rows: Rows) -> None:
        for reader in self._readers[channel]:
            reader.take(producer, part, rows)

    def send(self, stream: str, *given: tuple[object, ...]) -> None:
        """Events from outside, in one message: by one of the sources of the stream, or by its channel."""
        rows = [(self.manager.now, row) for row in given]
        self._sent[stream] += 1
        entries = self._entries[stream]
        if entries:
            runtime, entry = entries[self._sent[stream] % len(entries)]
            runtime.send(entry, rows)
        elif places := self._outside[stream]:
            for reader in self._readers[places[self._sent[stream] % len(places)]]:  # whoever fills it chooses one
                reader.take_message(self._sent[stream], rows)


def _plain(stream: str) -> str:
    """The stream that a receiver group has under another name."""
    return stream.removeprefix("passthrough")


def _outside(source: Annotation) -> str | None:
    return source.get("destination") or source.get("topic.list")


def _share(source: Annotation) -> tuple[int, int]:
    mine, of = (source.get("share") or "1/1").split("/")
    return int(mine), int(of)


def _made(text: str) -> set[str]:
    app = parse(text)
    queries = [q for e in app.elements for q in getattr(e, "queries", (e,))]
    return {q.output.target.name for q in queries}
