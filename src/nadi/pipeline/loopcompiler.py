"""Compiling the loops of apps beside the start of Spark, in a process of its own: hosts that want them find them in the cache, or wait for the one at hand.

`python -m nadi.pipeline.loopcompiler` reads a JSON line for each app (`text`, `outputs`) or set of ready loops (`loops`), and writes a line with its number
when that is done.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace

import msgspec

from nadi.functions.registry import default_registry
from nadi.io import warmup
from nadi.io.loops import Loops
from nadi.kernel.columns.cached import is_compiled, note_compiled
from nadi.lang import parse, print_app
from nadi.lang.tree import Annotation
from nadi.plan import plan_app
from nadi.plan.columns.islands import islands
from nadi.plan.nodes import App

BEHIND = "--behind"
NICE = 15  # of a process that leaves the cores to apps that run
_AROUND = {"source", "sink", "app:name", "app:description"}
"""Annotations that say how an app is called and what it is connected with, and nothing of its loops."""
PATIENCE = 1.5  # seconds, after which somebody is told: with what an earlier start has compiled it takes less


@dataclass(frozen=True, slots=True)
class Compiled:
    """An app of which columns run something, and the streams whose rows are wanted."""

    app: App
    outputs: tuple[str, ...]


def inner_text(text: str) -> str:
    """The text of an app as far as it decides on its loops: they are not compiled again for another port, or for another instance of a distributed app.

    >>> print(inner_text("@app:name('A') @source(type='http', port='8006') define stream S (v int); from S select v insert into Out; -- all"), end="")
    define stream S (v int);
    <BLANKLINE>
    from S
    select v
    insert into Out;
    """
    app = parse(text)
    definitions = tuple(replace(one, annotations=_without(one.annotations)) for one in app.definitions)
    return print_app(replace(app, annotations=_without(app.annotations), definitions=definitions, comments=()))


def _without(annotations: tuple[Annotation, ...]) -> tuple[Annotation, ...]:
    return tuple(one for one in annotations if one.name.lower() not in _AROUND)


@dataclass(frozen=True, slots=True)
class Job:
    """One line for the process: an app, or a set of ready loops. `mark` is the text and the outputs by which the cache knows that it was compiled."""

    line: str
    mark: tuple[str, tuple[str, ...]]
    app: str = ""

    @property
    def known(self) -> bool:
        """Whether it was compiled, by whomever."""
        return is_compiled(*self.mark)


def jobs(apps: Sequence[Compiled]) -> list[Job]:
    """What is to be compiled for apps, without what was compiled once."""
    found = [
        Job(
            json.dumps({"text": one.app.text, "outputs": one.outputs}),
            (inner_text(one.app.text), one.outputs),
            one.app.name,
        )
        for one in apps
        if islands(one.app).order
    ]
    needed = dict.fromkeys(loops for one in apps for loops in warmup.needed(one.app))
    found += [Job(json.dumps({"loops": asdict(loops)}), (warmup.text(loops), ())) for loops in needed]
    return [job for job in found if not job.known]


class CompilerProcess:
    """The process. One thread talks to it; another one may kill it. `behind`: apps run already, and go before."""

    def __init__(self, behind: bool = False) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "nadi.pipeline.loopcompiler", *([BEHIND] if behind else [])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def compile(self, job: Job) -> bool:
        """Compile, and wait; whether it did. Whatever goes wrong there goes wrong in a host, too, and is told there."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(f"{job.line}\n")
            self._process.stdin.flush()
            return bool(self._process.stdout.readline())
        except (OSError, ValueError):
            return False

    @property
    def has_ended(self) -> bool:
        """Whether it is gone, and was seen to be."""
        return self._process.returncode is not None

    def kill(self) -> None:
        """End what it is at."""
        self._process.kill()

    def close(self) -> None:
        """End it and wait for its end, which is near."""
        self._process.kill()
        with self._process:
            pass


class Compiling:
    """What apps need, in a process that begins now and ends with it. `tell` is called with the name of an app and a sentence, from another thread."""

    def __init__(self, apps: Sequence[Compiled], tell: Callable[[str, str], None]) -> None:
        self._jobs = jobs(apps)
        self._tell = tell
        self._over = False
        self._process: CompilerProcess | None = None
        self._following: threading.Thread | None = None

    @property
    def has_work(self) -> bool:
        """Whether there is something to compile."""
        return bool(self._jobs)

    def start(self, behind: bool = False) -> None:
        """Begin; returns at once."""
        if self._jobs:
            self._process = process = CompilerProcess(behind)
            self._following = threading.Thread(target=self._follow, args=(process,), daemon=True)
            self._following.start()

    def _follow(self, process: CompilerProcess) -> None:
        begin = time.monotonic()
        late = threading.Timer(PATIENCE, self._say_all, ["compiling its queries for the first time"])
        late.start()
        for job in self._jobs:
            if self._over or not process.compile(job):
                break
            if job.app and (took := time.monotonic() - begin) > PATIENCE:
                self._tell(job.app, f"its queries are compiled ({took:.0f} s)")
        late.cancel()
        process.close()

    def _say_all(self, what: str) -> None:
        for job in self._jobs:
            if job.app:
                self._tell(job.app, what)

    def wait(self) -> None:
        """Until it has ended, by itself or by `close`."""
        if self._following is not None:
            self._following.join()

    def close(self) -> None:
        """End it, if it still runs."""
        self._over = True
        if self._process is not None and self._following is not None:
            self._process.kill()
            self._following.join()


def main() -> None:
    """What the process does."""
    if BEHIND in sys.argv[1:]:
        os.nice(NICE)
    from nadi.kernel.columns.warming import warm

    for number, line in enumerate(sys.stdin):
        told = json.loads(line)
        if "loops" in told:
            loops = msgspec.convert(told["loops"], Loops)
            warmup.warm(loops)
            note_compiled(warmup.text(loops), ())
            print(number, flush=True)
            continue
        registry = default_registry()
        warm(plan_app(told["text"], registry), registry, told["outputs"])
        note_compiled(inner_text(told["text"]), told["outputs"])
        print(number, flush=True)


if __name__ == "__main__":
    main()
