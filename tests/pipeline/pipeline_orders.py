"""An engine whose kernels obey orders in the file that the property `orders` names, as long as it is there, at each cut that has events:

compute <s>     use the processor for so long, in Python
hold            use the processor until the order is another one; `<file>-at` is there as soon as it does
memory          there is none left
die             the host process is killed
fill <n>        there is no memory left, if an event has the value n
loop <n>        use the processor for ever, if an event has the value n
poison <n>      the host process is killed, if an event has the value n
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nadi.kernel.contract import Arrivals, Kernel, Outputs
from nadi.pipeline import engine
from nadi.plan.nodes import App

plan_app = engine.plan_app
plan_on_demand = engine.plan_on_demand


class Ordered:
    """See the module's text."""

    def __init__(self, inner: Kernel, orders: Path) -> None:
        self._inner = inner
        self._orders = orders

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def process(self, arrivals: Arrivals, until: int) -> Outputs:
        if any(True for _ in arrivals):
            self._obey(*self._order().split(), arrivals=arrivals)
        return self._inner.process(arrivals, until)

    def _order(self) -> str:
        try:
            return self._orders.read_text()
        except FileNotFoundError:
            return ""

    def _obey(self, what: str = "", seconds: str = "0", arrivals: Arrivals = ()) -> None:
        if what == "compute":
            end = time.thread_time() + float(seconds)
            while time.thread_time() < end:
                sum(range(1_000))
        elif what == "hold":
            Path(f"{self._orders}-at").touch()
            while self._order() == "hold":
                sum(range(20_000))
        elif what == "loop":
            while any(int(seconds) in a.batch.column("n").to_pylist() for a in arrivals):
                pass
        elif what == "memory" or (
            what == "fill" and any(int(seconds) in a.batch.column("n").to_pylist() for a in arrivals)
        ):
            raise MemoryError
        elif what == "die" or (
            what == "poison" and any(int(seconds) in a.batch.column("n").to_pylist() for a in arrivals)
        ):
            os.kill(os.getpid(), signal.SIGKILL)


def make_kernel(
    app: App, outputs: tuple[str, ...], bucket: int = 0, properties: Mapping[str, str] | None = None
) -> Kernel:
    inner = engine.make_kernel(app, outputs, bucket, {"nadi.kernel": "rows"})
    return Ordered(inner, Path((properties or {})["orders"]))
