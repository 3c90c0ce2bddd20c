"""How the short-lived processes of Spark reach the executor hosts of their Java virtual machine, and start those that are not there.

Hosts belong to the executor's JVM: folder `<temp>/nadi-<uid>/<JVM pid>/` with, for host i, the socket `<i>.sock`, the lock `<i>.lock` that
whoever starts it holds meanwhile, and the log `<i>.log` (or in the folder that NADI_LOG_DIR names).
"""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from nadi.errors import error
from nadi.pipeline.hosting.protocol import Frame, Part, raise_failure, receive, send
from nadi.pipeline.spec import AppSpec

STARTS_WITHIN = 60.0  # seconds
ATTEMPTS = 6
_SOCKET_PATH = 100  # bytes; the system's limit is 107


def jvm_pid() -> int:
    """The process id of the JVM that this process works for. Errors: JVM_NOT_FOUND."""
    if known := os.environ.get("NADI_JVM_PID"):
        return int(known)
    pid = os.getppid()
    while pid > 1:
        parent, command = _process(pid)
        if os.path.basename(command) == "java":
            return pid
        pid = parent
    raise error("JVM_NOT_FOUND", pid=os.getpid())


def _process(pid: int) -> tuple[int, str]:
    """(parent, command) of a process."""
    listed = Path(f"/proc/{pid}/stat")
    if listed.exists():
        text = listed.read_text()
        command, rest = text[text.index("(") + 1 : text.rindex(")")], text[text.rindex(")") + 2 :]
        return int(rest.split()[1]), command
    found = subprocess.run(["ps", "-o", "ppid=,comm=", "-p", str(pid)], capture_output=True, text=True, check=False)
    parent, _, command = found.stdout.strip().partition(" ")
    return (int(parent), command.strip()) if parent else (0, "")


def hosts_folder(jvm: int) -> Path:
    """The folder of a JVM's hosts, private to the user."""
    temp = Path(tempfile.gettempdir())
    folder = temp / f"nadi-{os.getuid()}" / str(jvm)
    if len(os.fsencode(folder / "000.sock")) > _SOCKET_PATH:
        folder = Path("/tmp") / f"nadi-{os.getuid()}" / str(jvm)
    _make(folder)
    owner = folder.parent.stat()
    if owner.st_uid != os.getuid() or owner.st_mode & 0o022:
        reason = f"{folder.parent} belongs to somebody else, or others may write to it"
        raise error("HOST_UNAVAILABLE", reason=reason, log=folder)
    return folder


def _make(folder: Path) -> None:
    while True:
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            return
        except FileExistsError:
            if folder.exists() and not folder.is_dir():
                raise  # else its hosts removed it between the two looks that mkdir takes


def sweep() -> None:
    """Remove the folders of JVMs that are gone, which hosts that were killed have left."""
    for folder in hosts_folder(os.getpid()).parent.iterdir():
        if folder.name == str(os.getpid()) and not any(folder.iterdir()):
            folder.rmdir()  # made by asking for it
        elif folder.name.isdecimal():
            try:
                os.kill(int(folder.name), 0)
            except ProcessLookupError:
                shutil.rmtree(folder, ignore_errors=True)
            except PermissionError:
                continue  # somebody else's process has the number now


class Hosts:
    """The hosts of one JVM. Connections are kept; every operation may be sent twice, when a host died in between."""

    def __init__(self, jvm: int, count: int) -> None:
        self.jvm = jvm
        self.count = count
        self._folder = hosts_folder(jvm)
        self._free: dict[int, list[socket.socket]] = {}
        self._lock = threading.Lock()
        self._started: list[subprocess.Popen[bytes]] = []

    def call(self, index: int, head: dict[str, Any], parts: Sequence[Part] = ()) -> Frame:
        """Ask host `index` (modulo their number). Errors: HOST_UNAVAILABLE, and whatever the host answers."""
        return next(self._asked(index % self.count, head, parts))

    def stream(self, index: int, head: dict[str, Any]) -> Iterator[Frame]:
        """Ask for an answer of several frames; the last one has "end" set and is not given."""
        return self._asked(index % self.count, head, (), several=True)

    def call_app(self, spec: AppSpec, index: int, head: dict[str, Any], parts: Sequence[Part] = ()) -> Frame:
        """As `call`, on behalf of an app that the host learns of where it does not know it; `index` counts from the first host of the app."""
        head = {**head, "app": spec.id}
        host = spec.host_of(index)
        while True:
            answer = self.call(host, head, parts)
            if answer.head.get("need") != "app":
                return answer
            self.call(host, {"op": "define", "app": spec.id, "spec": spec.to_json()})

    def stream_app(self, spec: AppSpec, index: int, head: dict[str, Any]) -> Iterator[Frame]:
        """As `stream`, on behalf of an app."""
        self.call_app(spec, index, {"op": "know"})
        return self.stream(spec.host_of(index), {**head, "app": spec.id})

    def forget(self, app: str) -> None:
        """Tell the hosts that are up that an app has ended: they close its inputs and sinks and let go of its kernels. Errors: HOST_UNAVAILABLE."""
        for index in range(self.count):
            if self._answers(index):
                self.call(index, {"op": "forget", "app": app})

    def close(self) -> None:
        """Close the connections; the hosts stay."""
        with self._lock:
            for free in self._free.values():
                for connection in free:
                    connection.close()
            self._free.clear()

    def _asked(self, index: int, head: dict[str, Any], parts: Sequence[Part], several: bool = False) -> Iterator[Frame]:
        operation = str(head.get("op"))
        for attempt in range(1, ATTEMPTS + 1):
            given = False
            connection = None
            try:
                connection = self._connection(index)
                send(connection, head, parts)
                while (answer := receive(connection)) is not None:
                    last = not several or "end" in answer.head or "error" in answer.head
                    if last:
                        self._keep(index, connection)
                    raise_failure(answer.head, operation)
                    if several and last:
                        return
                    given = True
                    yield answer
                    if last:
                        return
                raise ConnectionError("it closed the connection")
            except OSError as reason:
                if connection is not None:
                    connection.close()
                if given or attempt == ATTEMPTS:
                    raise error("HOST_UNAVAILABLE", reason=reason, log=self._log(index)) from reason
                time.sleep(min(1.0, 0.02 * 4**attempt / 4))

    def _connection(self, index: int) -> socket.socket:
        with self._lock:
            free = self._free.setdefault(index, [])
            if free:
                return free.pop()
        try:
            return self._connect(index)
        except OSError:
            self._start(index)
            return self._connect(index)

    def _keep(self, index: int, connection: socket.socket) -> None:
        with self._lock:
            self._free.setdefault(index, []).append(connection)

    def _connect(self, index: int) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.connect(str(self._folder / f"{index}.sock"))
        except OSError:
            connection.close()
            raise
        return connection

    def _log(self, index: int) -> Path:
        named = os.environ.get("NADI_LOG_DIR")
        return Path(named) / f"host-{index}.log" if named else self._folder / f"{index}.log"

    def _start(self, index: int) -> None:
        """Start a host unless another process does; returns when it answers. Errors: OSError after STARTS_WITHIN."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (self._folder / f"{index}.lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if self._answers(index):
                return
            arguments = [str(self._folder), str(index), str(self.jvm)]
            with self._log(index).open("ab") as log:
                process = subprocess.Popen(
                    [sys.executable, "-m", "nadi.pipeline.executor.host", *arguments],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            self._started = [p for p in self._started if p.poll() is None] + [process]
            until = time.monotonic() + STARTS_WITHIN
            while not self._answers(index):
                if process.poll() is not None or time.monotonic() > until:
                    raise ConnectionError(f"host {index} did not start")
                time.sleep(0.01)

    def _answers(self, index: int) -> bool:
        try:
            connection = self._connect(index)
        except OSError:
            return False
        self._keep(index, connection)
        return True


_HOSTS: dict[tuple[int, int, int], Hosts] = {}


def hosts(count: int, jvm: int | None = None) -> Hosts:
    """The hosts of this process's JVM (or of the one given), with connections that are kept from task to task."""
    owner = jvm_pid() if jvm is None else jvm
    key = (os.getpid(), owner, count)  # a forked process must not share its parent's connections
    if key not in _HOSTS:
        _HOSTS[key] = Hosts(owner, count)
    return _HOSTS[key]
