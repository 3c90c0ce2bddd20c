"""An engine whose kernels of the app "Heavy" compute, in Python, as long as the file is there that the property `busy` names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nadi.kernel.contract import Arrivals, Kernel, Outputs
from nadi.pipeline import engine
from nadi.plan.nodes import App

plan_app = engine.plan_app
plan_on_demand = engine.plan_on_demand


class Busy:
    """A kernel that tells that it is at work (`<file>-<bucket>`) and comes to no end while the file is there."""

    def __init__(self, inner: Kernel, file: Path, bucket: int) -> None:
        self._inner = inner
        self._file = file
        self._told = Path(f"{file}-{bucket}")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def process(self, arrivals: Arrivals, until: int) -> Outputs:
        while self._file.exists():
            self._told.touch()
            sum(range(20_000))  # holds the interpreter's lock but for its switches
        return self._inner.process(arrivals, until)


def make_kernel(
    app: App, outputs: tuple[str, ...], bucket: int = 0, properties: Mapping[str, str] | None = None
) -> Kernel:
    made = engine.make_kernel(app, outputs, bucket, properties)
    return Busy(made, Path((properties or {})["busy"]), bucket) if app.name == "Heavy" else made
