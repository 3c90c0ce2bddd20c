"""The processes of a run: each speaks JSON lines, and none outlives the run."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from nadi.io.guard import guarded
from nadi.io.natsserver import binary, free_port

ROOT = Path(__file__).resolve().parents[1]
ENDS_WITHIN = 60.0  # seconds


class ChildFailedError(Exception):
    """A process of the run ended or was silent when it should not."""


class Child:
    """`python -m <module> <argument>`, speaking JSON lines. It ends by itself when its standard input is closed, even by a kill of this process."""

    def __init__(self, module: str, argument: Path, log: Path, environment: Mapping[str, str]) -> None:
        self.name = module
        self._log = log
        path = os.pathsep.join(p for p in (str(ROOT), os.environ.get("PYTHONPATH", "")) if p)
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, str(argument)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                env={**os.environ, **environment, "PYTHONPATH": path},
                start_new_session=True,  # Ctrl-C is for the run, which ends its processes in order
            )
        self._lines: queue.Queue[dict[str, Any] | None] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as output:
            for line in output:
                if line.startswith(b"{"):
                    self._lines.put(msgspec.json.decode(line))
        self._lines.put(None)

    def until(self, at: str, within: float, show: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
        """Show every line until the one that is `at` something, and give that. Errors: ChildFailedError, also after `within` s."""
        limit = time.monotonic() + within
        while True:
            try:
                told = self._lines.get(timeout=max(0.01, limit - time.monotonic()))
            except queue.Empty:
                raise ChildFailedError(
                    f"{self.name} said nothing of '{at}' within {within:.0f} s; see {self._log}"
                ) from None
            if told is None:
                raise ChildFailedError(f"{self.name} ended before '{at}': {self._complaint()}")
            if told["at"] == at:
                return told
            show(told)

    def check(self) -> None:
        """Errors: ChildFailedError where it has ended."""
        if self._process.poll() is not None:
            raise ChildFailedError(f"{self.name} ended: {self._complaint()}")

    def say(self, line: str) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended, which `until` reports
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()

    def end(self) -> None:
        """Close its input and wait for its end; a second call has no effect."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(ENDS_WITHIN)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def _complaint(self) -> str:
        lines = self._log.read_text(errors="replace").splitlines() if self._log.exists() else []
        told = next((line for line in reversed(lines) if line.strip()), f"status {self._process.poll()}")
        return f"{told} (see {self._log})"


@contextlib.contextmanager
def broker(folder: Path, synced: bool = False) -> Iterator[str]:
    """A NATS server on loopback with JetStream on disk, for the time of a block; -> its URL.

    It acknowledges before the disk has the data, as brokers do by default. The node's own server, which keeps journals, syncs first: some hundred to
    some thousand appends a second, so one message per event would measure that disk and nothing else. `synced`: as that of a cluster is.
    """
    folder.mkdir(parents=True, exist_ok=True)
    port, config = free_port(), folder / "nats.conf"
    config.write_text(
        f'listen: "127.0.0.1:{port}"\nmax_pending: 67108864\nmax_payload: 8MB\n'
        f'jetstream {{ store_dir: "{folder}/data"{", sync_interval: always" if synced else ""} }}\n'
    )
    server = guarded([binary(), "-c", str(config)], folder / "nats.log")
    try:
        _wait_for(port, folder / "nats.log")
        yield f"nats://127.0.0.1:{port}"
    finally:
        server.stop()


def _wait_for(port: int, log: Path) -> None:
    import socket

    until = time.monotonic() + 15
    while time.monotonic() < until:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1) as s:
            if s.recv(5) == b"INFO ":
                return
        time.sleep(0.05)
    raise ChildFailedError(f"the NATS server did not start; see {log}")
