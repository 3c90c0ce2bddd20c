"""An MQTT broker for tests: Mosquitto, from Debian's package of that name, on a free port, with what it keeps in a folder of the test."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from .ports import free_port

START = 30.0  # seconds
BINARY = shutil.which("mosquitto") or "/usr/sbin/mosquitto"


class NotPossible(Exception):
    """It is not installed."""


@dataclass
class Mosquitto:
    """A broker; `more` are lines of its configuration."""

    folder: Path
    port: int
    more: str = ""
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def url(self) -> str:
        return f"tcp://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, or start it again after `kill`; what it keeps for clients that are away is saved with each change."""
        self.folder.mkdir(exist_ok=True)
        file = self.folder / "mosquitto.conf"
        access = "" if "allow_anonymous" in self.more else "allow_anonymous true\n"
        file.write_text(
            f"listener {self.port} 127.0.0.1\n{access}persistence true\npersistence_location {self.folder}/\n"
            f"autosave_interval 1\nautosave_on_changes true\nuser root\nmax_queued_messages 0\n{self.more}"
        )
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen([BINARY, "-c", str(file)], stdout=log, stderr=log)
        until = time.monotonic() + START
        while not self._answers():
            if self.process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"mosquitto did not start: {(self.folder / 'log').read_text()[-2000:]}")
            time.sleep(0.02)

    def _answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        except OSError:
            return False
        return True

    def kill(self) -> None:
        """End it without warning."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()


def mosquitto(folder: Path, more: str = "") -> Mosquitto:
    """A broker that runs. Errors: NotPossible."""
    if not Path(BINARY).exists():
        raise NotPossible("mosquitto is not installed: apt-get install mosquitto")
    made = Mosquitto(folder, free_port(), more)
    made.start()
    return made
