"""What tests of the worker have in common."""

from __future__ import annotations

import threading
from collections.abc import Callable

from nadi.errors import error
from nadi.metrics import AppProgress
from nadi.pipeline.node import AppText
from nadi.server.appfiles import AppFile


class FakeHost:
    """Runs nothing, and notes what it was asked. An app whose text has `fails` is refused, one with `hangs` waits for `free`."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.runs: dict[str, str] = {}
        self.free = threading.Event()
        self.lock = threading.Lock()

    def add(self, text: AppText) -> AppProgress:
        name = text.file.removesuffix(".siddhi")
        with self.lock:
            self.asked.append(("add", name))
        if "hangs" in text.text:
            self.free.wait()
        if "fails" in text.text:
            raise error("SERVER_NOT_STARTED", server="http", reason="the port is taken")
        with self.lock:
            self.runs[name] = text.text
        return AppProgress(name, "running")

    def remove(self, name: str) -> object:
        with self.lock:
            self.asked.append(("remove", name))
            if name not in self.runs:
                raise error("APP_NOT_ON_NODE", app=name, folder="x", hint="none")
            return self.runs.pop(name)


class FakePreparation:
    """Texts are right unless they have `wrong`."""

    def checked(self, file: AppFile) -> AppText:
        if file.problem or "wrong" in file.text:
            raise error("APP_NOT_READABLE", reason=file.problem or "wrong")
        return AppText(file.text, f"{file.name}.siddhi")


def waits(holds: Callable[[], object], seconds: float = 30.0) -> None:
    """Wait until something holds that nobody rings for."""
    ended = threading.Event()
    for _ in range(int(seconds / 0.01)):
        if holds():
            return
        ended.wait(0.01)
    raise AssertionError("too late")
