"""What neighbours have of an app with an event that hosts die of: how long they wait while it is found and set aside, and afterwards.

The bad apps call functions of a package that is made for the run. One is killed at the event, one comes to no end with it, one takes memory until there is no
more: at the limit of its host, or, where that has none, until it is killed, as the system does with who has most.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench.checks import WrongOutputError
from bench.children import ChildFailedError
from bench.live import Say
from bench.many import POISONS, NodeSetting
from bench.many_add import Answer
from bench.many_apps import SmallApp, small_apps
from bench.many_client import Client
from bench.many_start import Running, running
from bench.many_traffic import Traffic, percentiles_ms

GOOD = 10  # apps beside the bad ones
BEFORE, AFTER = 20.0, 30.0  # seconds of events of the good apps before the bad event, and after it was set aside
WITHIN = 600.0  # seconds: a loop is taken for one after 20 s, and at its message after as long, twice
MEMORY = 500  # MB that are meant for a host
POISON = 2  # the number of the bad event
BAD = 13  # the value that is bad

_PACKAGE = f'''
import os
import signal
import time

from nadi.functions import function

BAD = {BAD}
MEGABYTES = 8_000


def _die():
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)


@function("bad:crash")
def crash(n: int) -> int:
    """Dies of one value."""
    if n == BAD:
        _die()
    return n


@function("bad:loop")
def loop(n: int) -> int:
    """Comes to no end with one value."""
    while n == BAD:
        pass
    return n


@function("bad:memory")
def memory(n: int) -> int:
    """Takes memory at one value, until there is no more."""
    if n == BAD:
        _held = [bytearray(b"x" * 1_000_000) for _ in range(MEGABYTES)]
        _die()
    return n


ENTRIES = [crash, loop, memory]
'''


@dataclass(frozen=True, slots=True)
class BadApp(SmallApp):
    """An app whose event number POISON its host dies of.

    >>> BadApp(7, 8080, Path("/tmp/7.jsonl"), "loop").message(2)
    b'{"event":{"id":2,"n":13}}'
    """

    kind: str = ""

    @property
    def name(self) -> str:
        return f"bad-{self.kind}"

    @property
    def text(self) -> str:
        return (
            f"@app:name('{self.name}')\n"
            f"@source(type='http', receiver.url='http://127.0.0.1:{self.port}{self.path}', @map(type='json'))\n"
            "define stream In (id long, n long);\n"
            f"@sink(type='file', file.uri='{self.target}', append='false', @map(type='json'))\n"
            "define stream Out (id long, n long);\n"
            f"from In select id, bad:{self.kind}(n) as n insert into Out;\n"
        )

    def value(self, event: int) -> int:
        return BAD if event == POISON else 0

    def message(self, event: int) -> bytes:
        return b'{"event":{"id":%d,"n":%d}}' % (event, self.value(event))


def write_package(folder: Path) -> Path:
    """The package of the bad functions, as it were installed in a folder; -> the folder."""
    about = folder / "nadi_bench_bad-1.dist-info"
    about.mkdir(parents=True)
    (folder / "nadi_bench_bad.py").write_text(_PACKAGE)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: nadi_bench_bad\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[nadi.functions]\nbad = nadi_bench_bad:ENTRIES\n")
    return folder


def bad_apps(folder: Path, first: int) -> list[BadApp]:
    """One of each kind; their numbers begin at `first`."""
    free = small_apps(len(POISONS), folder)
    return [
        BadApp(first + i, app.port, folder / f"{first + i}.jsonl", kind)
        for i, (app, kind) in enumerate(zip(free, POISONS, strict=True))
    ]


def of_poisons(setting: NodeSetting, cache: Path | None, say: Say) -> dict[str, Any]:
    """The figures of each kind, all in one node. Errors: TooSlowError, ChildFailedError, WrongOutputError."""
    label = "poison"
    folder = setting.folder / label
    packages = write_package(setting.folder / "poison-packages")
    checkout = replace(setting.checkout, packages=(packages,))
    there = replace(setting, checkout=checkout, conf={**setting.conf, "nadi.host.memory": str(MEMORY)})
    apps = bad_apps(folder / "out", GOOD)
    files = [setting.folder / f"{app.name}.siddhi" for app in apps]
    for file, app in zip(files, apps, strict=True):
        file.write_text(app.text)
    erring = frozenset(app.name for app in apps)
    told: dict[str, Any] = {}
    with running(there, label, GOOD, cache, say, files, erring) as made, ExitStack() as stack:
        made.patience = max(made.patience, WITHIN)
        for app in apps:
            client = Client(app)
            stack.callback(client.close)
            told[app.kind] = of_poison(made, client)
    return told


def of_poison(made: Running, bad: Client) -> dict[str, Any]:
    """Seconds from a bad event until its app has answered the next one; how long the others, who have an event a second each, waited for theirs (ms)."""
    number = bad.app.number
    made.node.until(lambda: bad.accepts() or None, made.patience, f"server of {bad.app.name}")
    _send(made, bad)
    made.wait_for([(number, 1)], time.monotonic())
    with Traffic(list(made.senders), made.patience) as traffic:
        time.sleep(BEFORE)
        begin = time.monotonic()
        _send(made, bad)
        _send(made, bad)
        made.wait_for([(number, POISON + 1)], begin)
        aside = time.monotonic()
        time.sleep(AFTER)
    if made.outputs.came((number, POISON)) is not None:
        raise WrongOutputError(f"{made.label}: {bad.app.name} gave a row for its bad event")
    asked = [a for a in traffic.asked if a.accepted]
    made.wait_for([(a.app, a.event) for a in asked], time.monotonic())
    answers = [Answer(a.due, made.outputs.came((a.app, a.event)) or 0.0) for a in asked]
    refused = len(traffic.asked) - len(asked)
    return {"aside_s": aside - begin, "refused": refused, **waits(answers, begin, aside)}


def waits(answers: Sequence[Answer], begin: float, aside: float) -> dict[str, dict[str, float]]:
    """How long answers took (ms) that were due before a moment, until another one, and after that.

    >>> found = waits([Answer(0.0, 0.1), Answer(1.0, 3.0), Answer(2.0, 2.2)], 1.0, 2.0)
    >>> [(when, found[when]["p99"]) for when in ("before", "meanwhile", "after")]
    [('before', 100.0), ('meanwhile', 2000.0), ('after', 200.0)]
    """
    spans = {
        "before": [a for a in answers if a.due < begin],
        "meanwhile": [a for a in answers if begin <= a.due < aside],
        "after": [a for a in answers if a.due >= aside],
    }
    return {when: percentiles_ms([a.came - a.due for a in some]) for when, some in spans.items() if some}


def _send(made: Running, client: Client) -> None:
    if not client.send().accepted:
        raise ChildFailedError(f"{made.label}: {client.app.name} took no event: {client.trouble}")
