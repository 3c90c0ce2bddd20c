"""Compiling ahead what reads and writes messages in loops, so that no batch waits for it. Who adds such loops adds a line to `_LOOPS`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from nadi.io.registry import connectors, map_type
from nadi.plan.nodes import App

_LOOPS = {
    "json": ("nadi.io.mappers.json_warming", ("nadi.io.mappers.json_scan", "nadi.io.mappers.json_write")),
    "kafka": ("nadi.io.kafkaloops", ("nadi.io.kafkaloops",)),
}
"""What an app may need: the module whose `warm()` compiles it, and the modules in which it is written."""


def needed(app: App) -> Iterator[str]:
    """Which loops the sources and sinks of an app may use."""
    both = (*connectors(app, "source"), *connectors(app, "sink"))
    if any(map_type(connector) == "json" for connector in both):
        yield "json"
    if any(connector.type == "kafka" for connector in both):
        yield "kafka"


def text(name: str) -> str:
    """The text of loops: as long as it is the same, so is what was compiled."""
    found = (find_spec(module) for module in _LOOPS[name][1])
    return name + "".join(Path(spec.origin).read_text("utf-8") for spec in found if spec is not None and spec.origin)


def warm(name: str) -> None:
    """Compile them."""
    work: Callable[[], None] = import_module(_LOOPS[name][0]).warm
    work()
