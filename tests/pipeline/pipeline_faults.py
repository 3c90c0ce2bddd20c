"""An engine for hosts whose snapshots a test can hold up and break: frames of some bytes, and orders in the file that the property `orders` names.

Orders for the child that dumps: "hold" (go no further until the order is another one) or "die" (by kill -9, in the middle of the dump).
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from nadi.kernel.contract import Kernel, Segment
from nadi.pipeline import engine
from nadi.pipeline.state.layout import Policy
from nadi.pipeline.statelog import lines
from nadi.plan.nodes import App

LOG_POLICY = lines.Policy(floor=2048, piece=0, inline=1024)
POLICY = Policy(frame_bytes=128, floor=2048, frame=0, inline=1024, share=0, removed=1)

plan_app = engine.plan_app
plan_on_demand = engine.plan_on_demand


def order(orders: Path, what: str) -> None:
    """Write it at once: a child reads at any moment."""
    beside = orders.with_name(orders.name + ".new")
    beside.write_text(what)
    beside.replace(orders)


class Ordered:
    """A kernel whose dump in a child does what it is told to."""

    def __init__(self, inner: Kernel, orders: Path) -> None:
        self._inner = inner
        self._orders = orders
        self._host = os.getpid()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def dump(self) -> Iterable[Segment]:
        for number, segment in enumerate(self._inner.dump()):
            if number == 1 and os.getpid() != self._host:
                self._obey()
            yield segment

    def _obey(self) -> None:
        while (order := self._orders.read_text()) == "hold":
            time.sleep(0.002)
        if order == "die":
            os.kill(os.getpid(), signal.SIGKILL)


def make_kernel(
    app: App, outputs: tuple[str, ...], bucket: int = 0, properties: Mapping[str, str] | None = None
) -> Kernel:
    return Ordered(engine.make_kernel(app, outputs, bucket), Path((properties or {})["orders"]))
