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

    @property
    def known(self) -> bool:
        """Whether its loops were compiled once."""
        return is_compiled(inner_text(self.app.text), self.outputs)


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


class Compiling:
    """The process, while Spark starts. `tell` is called with the name of an app and a sentence, from another thread."""

    def __init__(self, apps: Sequence[Compiled], tell: Callable[[str, str], None]) -> None:
        self._apps = [one for one in apps if islands(one.app).order and not one.known]
        needed = dict.fromkeys(loops for one in apps for loops in warmup.needed(one.app))
        self._loops = [loops for loops in needed if not is_compiled(warmup.text(loops), ())]
        self._tell = tell
        self.process: subprocess.Popen[str] | None = None
        self._following: threading.Thread | None = None

    def start(self, behind: bool = False) -> None:
        """Begin; returns at once. `behind`: apps run already, and go before. Whatever goes wrong there goes wrong in a host, too, and is told there."""
        if not self._apps and not self._loops:
            return
        self.process = subprocess.Popen(
            [sys.executable, "-m", "nadi.pipeline.loopcompiler", *([BEHIND] if behind else [])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._following = threading.Thread(target=self._follow, args=(self.process,), daemon=True)
        self._following.start()

    def _follow(self, process: subprocess.Popen[str]) -> None:
        begin = time.monotonic()
        lines = [json.dumps({"text": one.app.text, "outputs": one.outputs}) for one in self._apps]
        lines += [json.dumps({"loops": asdict(loops)}) for loops in self._loops]
        assert process.stdin is not None
        assert process.stdout is not None
        late = threading.Timer(PATIENCE, self._say_all, ["compiling its queries for the first time"])
        late.start()
        try:
            with process:
                process.stdin.write("\n".join(lines))
                process.stdin.close()
                for line in process.stdout:
                    if (took := time.monotonic() - begin) > PATIENCE and int(line) < len(self._apps):
                        self._tell(self._apps[int(line)].app.name, f"its queries are compiled ({took:.0f} s)")
        except (OSError, ValueError):
            return  # it was ended, or died: hosts compile for themselves
        finally:
            late.cancel()

    def _say_all(self, what: str) -> None:
        for one in self._apps:
            self._tell(one.app.name, what)

    def wait(self) -> None:
        """Until it has ended, by itself or by `close`."""
        if self._following is not None:
            self._following.join()

    def close(self) -> None:
        """End it, if it still runs."""
        if self.process is not None and self._following is not None:
            self.process.kill()
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
