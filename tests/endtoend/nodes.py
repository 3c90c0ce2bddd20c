"""Nodes as users have them: `nadi run …` in a process group of its own, looked at from outside, and killed.

Every process of a node has inherited a mark in its environment, so that all of them are found, whoever their parent is by now.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nadi.pipeline.hosting.standby import STANDBY

MARK = "NADI_ENDTOEND"
PATIENCE = 400.0  # seconds: the machine of the tests may be busy with something else
LOOK = 0.05  # seconds: a look takes milliseconds, of the processors that nodes need
COMMAND = (sys.executable, "-m", "nadi")
HOST = "nadi.pipeline.executor.host"
TRACE = "Traceback (most recent call last)"


class Late(AssertionError):
    """A condition did not come true in time; the text has what the node has said."""


def environment(**variables: str) -> dict[str, str]:
    """The environment of a command, without what depends on the terminal of the tests."""
    kept = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES", "FORCE_COLOR", "TTY_COMPATIBLE")}
    return {**kept, "NO_COLOR": "1", **variables}


def nadi(*arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
    """A short command to its end."""
    command = [*COMMAND, *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE, env=environment(**variables), check=False
    )


@dataclass(slots=True)
class Node:
    """A running `nadi run`; everything it prints goes to `screen`."""

    process: subprocess.Popen[bytes]
    mark: str
    state: Path
    screen: Path

    # ---- looking

    def said(self) -> str:
        return self.screen.read_text(errors="replace")

    def processes(self) -> set[int]:
        """All that are alive, the command itself included."""
        return marked(self.mark)

    def commands(self) -> dict[int, str]:
        """The command line of each process that is alive."""
        return {pid: text for pid in self.processes() if (text := _command(pid))}

    def server(self) -> int:
        """The process id of the embedded NATS server."""
        return only(lambda: [pid for pid, text in self.commands().items() if text.split()[0].endswith("nats-server")])

    def host(self, index: int = 0) -> int:
        """The process id of an executor host."""

        def found() -> list[int]:
            words = {p: t.split() for p, t in self.commands().items()}
            return [p for p, w in words.items() if HOST in w and w[-2] == str(index)]

        return only(found)

    def progress(self, app: str) -> dict[str, Any]:
        """What the write stage noted last; {} before the first cut."""
        try:
            found: dict[str, Any] = json.loads((self.state / app / "progress.json").read_bytes())
        except (FileNotFoundError, ValueError):
            return {}
        return found

    def read_to(self, app: str) -> int:
        """Up to which position the first input was read by cuts that are done, over all partitions."""
        done = self.progress(app).get("n", -1)
        ends = next((cut["ends"] for cut in reversed(self.cuts(app)) if cut["n"] <= done), {})
        return sum(ends.get("0", {}).values())

    def taken(self, app: str) -> int:
        """Events of all inputs so far, over all runs, as the node shows it. Killed directly behind a commit it forgets those of that cut (`read_to`)."""
        found = self.progress(app)
        parts = [found[part]["events_in"] for part in ("before", "counts")] if found else []
        return sum(n for part in parts for n in part.values())

    def cuts(self, app: str) -> list[dict[str, Any]]:
        return cuts(self.state, app)

    # ---- waiting

    def until(self, holds: Callable[[], object], seconds: float = PATIENCE, alive: bool = True) -> None:
        """Wait until something holds. `alive`: the node must not end meanwhile."""
        until(holds, seconds, self.said, (lambda: self.process.poll() is None) if alive else lambda: True)

    def wait(self, seconds: float = PATIENCE) -> int:
        """The exit status."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired as reason:
            raise Late(f"the command has not ended\n{self.said()}") from reason

    def gone(self, seconds: float = 120) -> None:
        """Wait until no process of the node is left."""
        until(lambda: not self.processes(), seconds, lambda: f"left over: {self.commands()}")

    # ---- ending

    def signal(self, number: signal.Signals) -> None:
        """To the whole process group, as a terminal does."""
        os.killpg(self.process.pid, number)

    def kill_tree(self) -> None:
        """`kill -9` of every process of the node, all at once."""
        while found := self.processes():
            for pid in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(0.2)
        self.process.wait()  # one that has ended is found no more, and is still to be waited for

    def kill_driver(self) -> None:
        """`kill -9` of the command alone."""
        self.process.kill()
        self.process.wait()


def start(
    *apps: Path,
    state: Path,
    until_end: bool = False,
    conf: Mapping[str, object] | None = None,
    terminal: int | None = None,
    before: Sequence[str] = (),
    config: Path | None = None,
    nadi: Sequence[str] = COMMAND,
    master: str = "local[2,4]",
    **variables: str,
) -> Node:
    """Start `nadi run` on apps; `conf` without "nadi." before the names of nadi's own settings.

    `terminal` is a descriptor to print to instead of a file, `before` a command that executes what follows it, `nadi` what runs nadi.
    """
    mark = secrets.token_hex(8)
    state.parent.mkdir(parents=True, exist_ok=True)
    screen = state.parent / f"{state.name}.screen"
    command = [*before, *nadi, "run", *map(str, apps), "--state-dir", str(state), "--master", master]
    command += ["--until-end"] if until_end else []
    command += [word for name in variables for word in ("--env", name)]
    command += ["--config", str(config)] if config is not None else []
    for name, value in (conf or {}).items():
        command += ["--conf", f"{name if name.startswith('spark.') else f'nadi.{name}'}={value}"]
    with screen.open("ab") as out:
        to = out if terminal is None else terminal
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL if terminal is None else terminal,
            stdout=to,
            stderr=to,
            start_new_session=True,
            env=environment(**{MARK: mark}, **variables),
        )
    return Node(process, mark, state, screen)


@contextlib.contextmanager
def running(*apps: Path, state: Path, **options: Any) -> Iterator[Node]:
    """A node for the time of a block; nothing of it is left behind."""
    node = start(*apps, state=state, **options)
    try:
        yield node
    finally:
        node.kill_tree()
        node.process.wait()


def run(*apps: Path, state: Path, **options: Any) -> str:
    """Run apps to the end of their input; -> what was said. Fails where the status is not 0 or a process is left."""
    with running(*apps, state=state, until_end=True, **options) as node:
        assert node.wait(600) == 0, node.said()
        assert node.processes() == set(), node.commands()
        return node.said()


# ---- what is common


def until(
    holds: Callable[[], object],
    seconds: float = PATIENCE,
    said: Callable[[], str] = str,
    alive: Callable[[], bool] = lambda: True,
) -> None:
    """Wait until something holds. Errors: Late, with what `said` gives."""
    end = time.monotonic() + seconds
    while not holds():
        lives = alive()
        if (not lives or time.monotonic() > end) and not holds():
            raise Late(f"{'too late' if lives else 'the node ended'}\n{said()}")
        time.sleep(LOOK)


def steady(value: Callable[[], object], seconds: float) -> None:
    """Fails where a value changes within some seconds: for what must not happen."""
    first, end = value(), time.monotonic() + seconds
    while time.monotonic() < end:
        assert value() == first
        time.sleep(LOOK)


def cuts(state: Path, app: str) -> list[dict[str, Any]]:
    """The cut log of an app."""
    lines: list[dict[str, Any]] = []
    for path in sorted((state / app / "cuts").glob("cuts-*.jsonl")):
        whole = path.read_bytes()
        lines += map(json.loads, whole[: whole.rfind(b"\n") + 1].splitlines())
    return lines


def lines(path: Path) -> list[str]:
    """The whole lines of a file, none where it is not there."""
    if not path.exists():
        return []
    content = path.read_bytes()
    return content[: content.rfind(b"\n") + 1].decode().splitlines()


def events(path: Path) -> list[dict[str, Any]]:
    """The events of a file that a sink with @map json has written: a line is an event, or an array of those of one chunk."""
    rows: list[dict[str, Any]] = []
    for line in lines(path):
        found = json.loads(line)
        rows += [e["event"] for e in (found if isinstance(found, list) else [found])]
    return rows


def only(found: Callable[[], list[int]]) -> int:
    """The one process that is found: a child bears its parent's name between fork and exec, so a second one may show for a moment."""
    until(lambda: len(found()) == 1, 10, lambda: f"wanted one process, there are {found()}")
    return found()[0]


def marked(mark: str) -> set[int]:
    """The processes whose environment has the mark and that are no zombies."""
    wanted = f"{MARK}={mark}".encode()
    return {pid for pid in _pids() if wanted in _read(pid, "environ") and _command(pid)}


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return b""


def _command(pid: int) -> str:
    return served(pid, _read(pid, "cmdline").replace(b"\0", b" ").decode(errors="replace").strip())


def served(pid: int, command: str) -> str:
    """The command line of a process; that of one that stood by and has become a host is as if it had been started as that host."""
    words = command.split()
    if HOST not in words or words[-2] != STANDBY:
        return command
    for file in Path(words[-3]).glob("*.alive"):
        with contextlib.suppress(FileNotFoundError):  # hosts leave
            if file.read_text() == str(pid):
                return " ".join([*words[:-2], file.stem, words[-1]])
    return command
