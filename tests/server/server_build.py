"""What tests of the worker have in common."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx
from servers import asking

from nadi.errors import error
from nadi.io.httpserver import Application, HttpServer
from nadi.metrics import AppProgress
from nadi.pipeline.node import AppText
from nadi.server.appfiles import AppFile


class FakeHost:
    """Runs nothing, and notes what it was asked. An app whose text has `fails` is refused, one with `hangs` waits for `free`, one with `stays` does not go."""

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

    def remove(self, name: str, revision: bool = True) -> object:
        with self.lock:
            self.asked.append(("remove" if revision else "remove without revision", name))
            if "stays" in self.runs.get(name, ""):
                raise error("SERVER_NOT_STARTED", server="http", reason="it is busy")
            if name not in self.runs:
                raise error("APP_NOT_ON_NODE", app=name, folder="x", hint="none")
            return self.runs.pop(name)


class FakePreparation:
    """Texts are right unless they have `wrong`."""

    def checked(self, file: AppFile) -> AppText:
        if file.problem or "wrong" in file.text:
            raise error("APP_NOT_READABLE", reason=file.problem or "wrong")
        return AppText(file.text, f"{file.name}.siddhi")


@contextmanager
def served(application: Application) -> Iterator[httpx.Client]:
    """A server of an application on a port of its own, and a client of it."""
    server = HttpServer(application, "127.0.0.1", 0)
    server.start()
    try:
        with asking.client(base_url=f"http://127.0.0.1:{server.port}") as client:
            yield client
    finally:
        server.stop()


def waits(holds: Callable[[], object], seconds: float = 100.0) -> None:
    """Wait until something holds that nobody rings for; the machine may be busy with something else."""
    ended = threading.Event()
    for _ in range(int(seconds / 0.01)):
        if holds():
            return
        ended.wait(0.01)
    raise AssertionError("too late")
