"""Compiling and loading what the apps of the passive node need: the loops that a process beside compiles are loaded by the hosts, so that a take-over finds
them there."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module

from nadi.config.settings import KERNEL
from nadi.pipeline.loopcompiler import Compiled, Compiling
from nadi.pipeline.node import AppText, NodeOptions, needed_outputs
from nadi.pipeline.spec import Engine

Tell = Callable[[str, str], None]
Expect = Callable[[Sequence[AppText]], object]


class Compiles:
    """Implements `nadi.server.pair.passiveapps.Compiles`. `tell` is called with the name of an app and a sentence, `expect` with all texts when they are
    compiled; both from other threads, and the second one may take long."""

    def __init__(self, options: NodeOptions, tell: Tell, expect: Expect) -> None:
        self._rows = options.settings().of_kernels().get(KERNEL, "rows") == "rows"
        self._engine: Engine = import_module(options.engine)
        self._tell = tell
        self._expect = expect

    def __call__(self, texts: Mapping[str, AppText]) -> Loading:
        compiling: Compiling | None = None
        if not self._rows:
            apps = [text.planned(self._engine) for text in texts.values()]
            compiling = Compiling([Compiled(app, needed_outputs(app)) for app in apps], self._tell)
            compiling.start(behind=True)
        return Loading(compiling, lambda: self._expect(tuple(texts.values())))


class Loading:
    """Under way until everything is loaded. Implements `nadi.server.pair.passiveapps.Work`."""

    def __init__(self, compiling: Compiling | None, load: Callable[[], object]) -> None:
        self._compiling = compiling
        self._load = load
        self._over = False
        self._thread = threading.Thread(target=self._run, name="passive-loading", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        if self._compiling is not None:
            self._compiling.wait()
        if not self._over:
            self._load()

    @property
    def is_over(self) -> bool:
        return not self._thread.is_alive()

    def close(self) -> None:
        """End the compiling. What is being loaded is no harm to apps that come."""
        self._over = True
        if self._compiling is not None:
            self._compiling.close()
