"""What stands beside a node's figures while it idles: a Java machine with a session of Spark and nothing else, a NATS server and nothing else."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.checkouts import MARK
from bench.children import Child, broker
from bench.live import Say
from bench.many_traffic import SETTLE
from bench.processtree import memory, processes, used

STARTS_WITHIN = 120.0


def measure_beside(folder: Path, master: str, seconds: float, say: Say) -> dict[str, Any]:
    """Share of a core, processes and memory of each, idle for so many seconds. Errors: ChildFailedError."""
    spark, server = folder / "spark", folder / "nats"
    spark.mkdir(parents=True)
    session = Child("bench.idle_spark", _plan(spark, master), spark / "log", {MARK: str(spark)})
    try:
        session.until("ready", STARTS_WITHIN, lambda _: None)
        of_spark = _idle(spark, seconds, "an idle session of Spark", session, say)
    finally:
        session.end()
    with _marked(server), broker(server):
        of_server = _idle(server, seconds, "an idle NATS server", None, say)
    return {"spark": of_spark, "nats": of_server}


def _plan(folder: Path, master: str) -> Path:
    path = folder / "master"
    path.write_text(master)
    return path


@contextmanager
def _marked(folder: Path) -> Iterator[None]:
    """What is started in the block carries the mark."""
    os.environ[MARK] = str(folder)
    try:
        yield
    finally:
        del os.environ[MARK]


def _idle(folder: Path, seconds: float, what: str, child: Child | None, say: Say) -> dict[str, Any]:
    _wait(SETTLE, f"{what}, settling", child, say)
    before, begin = processes(folder), time.monotonic()
    _wait(seconds, what, child, say)
    shares = used(before, processes(folder), time.monotonic() - begin)
    held = memory(folder)
    told = {"cores": round(sum(shares.values()), 4), "by_kind": shares}
    return {**told, "processes": held.processes, "pss": held.pss, "pss_by_kind": held.by_kind}


def _wait(seconds: float, what: str, child: Child | None, say: Say) -> None:
    begin = time.monotonic()
    while (gone := time.monotonic() - begin) < seconds:
        if child is not None:
            child.check()
        say(f"{what}: {seconds - gone:.0f} s left")
        time.sleep(min(1.0, max(0.01, seconds - gone)))
