"""Compiling ahead what reads and writes messages in loops, so that no batch waits for it. Who has such loops names them in its `KIND`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from nadi.io.loops import Loops
from nadi.io.registry import connectors, map_type, mapper_kind, sink_kind, source_kind
from nadi.plan.nodes import App


def needed(app: App) -> Iterator[Loops]:
    """Which loops the sources and sinks of an app may use, each once."""
    sources, sinks = connectors(app, "source"), connectors(app, "sink")
    found = [one for source in sources for one in source_kind(source.type).loops]
    found += [one for sink in sinks for one in sink_kind(sink.type).loops]
    found += [one for connector in (*sources, *sinks) for one in mapper_kind(map_type(connector)).loops]
    yield from dict.fromkeys(found)


def text(loops: Loops) -> str:
    """The text of loops: as long as it is the same, so is what was compiled."""
    found = (find_spec(module) for module in loops.written)
    return loops.name + "".join(
        Path(spec.origin).read_text("utf-8") for spec in found if spec is not None and spec.origin
    )


def warm(loops: Loops) -> None:
    """Compile them."""
    work: Callable[[], None] = import_module(loops.warmed).warm
    work()
