"""How the short-lived processes of Spark reach the executor hosts of their Java virtual machine, and start those that are not there.

Hosts belong to the executor's JVM: folder `<temp>/nadi-<uid>/<JVM pid>/` with, for host i, the socket `<i>.sock`, the lock `<i>.lock` that
whoever starts it holds meanwhile, and the log `<i>.log` (or in the folder that NADI_LOG_DIR names). Anybody may have made something of that name in a folder
for all: it is taken only if it is a folder (no link) of this user, to which nobody else can write, and XDG_RUNTIME_DIR is where it is otherwise. That is
not the first choice, as it goes with the user's last login, which a node may outlive.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

from nadi.config.ownership import is_own, make_private
from nadi.errors import NadiError, error
from nadi.pipeline.hosting.atwork import work_file
from nadi.pipeline.hosting.protocol import Frame, Part, raise_failure, receive, send
from nadi.pipeline.hosting.standby import HANDED_WITHIN, STANDBY
from nadi.pipeline.spec import AppSpec

STARTS_WITHIN = 60.0  # seconds
TOLD_WITHIN = 5.0  # seconds for hosts to do what they are told when an app ends or moves
ATTEMPTS = 6
_SOCKET_PATH = 100  # bytes; the system's limit is 107
_LONGEST = 44  # of the names in the folder: Spark's sockets are called `.<UUID>.sock`


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
    """The folder of a JVM's hosts, private to the user. Errors: HOST_UNAVAILABLE where there is no such place."""
    folder = own_folder() / str(jvm)
    _make(folder)
    return folder


def own_folder() -> Path:
    """Where this user's sockets are. Errors: HOST_UNAVAILABLE, where others hold all places for it."""
    temp, runtime = Path(tempfile.gettempdir()), os.environ.get("XDG_RUNTIME_DIR", "")
    if len(os.fsencode(temp / f"nadi-{os.getuid()}")) + _LONGEST > _SOCKET_PATH:
        temp = Path("/tmp")
    places = [temp / f"nadi-{os.getuid()}"]
    if runtime.startswith("/") and is_own(Path(runtime)):
        places.append(Path(runtime) / "nadi")
    refused = []
    for place in places:
        try:
            make_private(place)
        except NadiError as reason:
            refused.append(reason.diagnostic.message)
        else:
            return place
    raise error("HOST_UNAVAILABLE", reason="; ".join(refused), log=places[0])


def _make(folder: Path) -> None:
    while True:
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            return
        except FileExistsError:
            if folder.exists() and not folder.is_dir():
                raise  # else its hosts removed it between the two looks that mkdir takes


def sweep() -> None:
    """Remove the folders of JVMs that are gone, which hosts that were killed have left."""
    for folder in hosts_folder(os.getpid()).parent.iterdir():
        if folder.name == str(os.getpid()) and not any(folder.iterdir()):
            folder.rmdir()  # made by asking for it
        elif folder.name.isdecimal() and is_gone(int(folder.name)):
            shutil.rmtree(folder, ignore_errors=True)


def is_gone(process: int) -> bool:
    """Whether no process has a number, or one that has ended and that nobody has waited for. Somebody else's may have it by now, which counts as one.

    >>> is_gone(os.getpid())
    False
    """
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    try:
        return Path(f"/proc/{process}/stat").read_bytes().rpartition(b")")[2].split()[0] == b"Z"
    except OSError:  # not on Linux, or it has been waited for in this moment
        return False


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
        """Ask host `index`. Errors: HOST_UNAVAILABLE, and whatever the host answers."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                answer = self._asked(index, head, parts)
            except OSError as reason:
                if attempt == ATTEMPTS:
                    raise error("HOST_UNAVAILABLE", reason=reason, log=self._log(index)) from reason
                time.sleep(min(1.0, 0.02 * 4**attempt / 4))
            else:
                raise_failure(answer.head, str(head.get("op")))
                return answer
        raise AssertionError("the last attempt returns or raises")

    def call_app(self, spec: AppSpec, index: int, head: dict[str, Any], parts: Sequence[Part] = ()) -> Frame:
        """As `call`, on behalf of an app that the host learns of where it does not know it; `index` counts from the first host of the app."""
        head = {**head, "app": spec.id}
        host = spec.host_of(index)
        while True:
            answer = self.call(host, head, parts)
            if answer.head.get("need") != "app":
                return answer
            self.call(host, {"op": "define", "app": spec.id, "spec": spec.to_json()})

    def forget(self, app: str, indexes: Collection[int] | None = None, **more: Any) -> None:
        """Tell the hosts that are up (or those given) that an app has ended, or (`moved`) goes on elsewhere: they close its inputs and sinks and let go of its
        kernels. Returns after TOLD_WITHIN at the latest, whatever they do."""
        self._tell(self.up() if indexes is None else indexes, {"op": "forget", "app": app, **more})

    def end(self, indexes: Collection[int]) -> None:
        """End hosts that nobody needs any more, within TOLD_WITHIN."""
        self._tell(indexes, {"op": "end"})

    def up(self) -> list[int]:
        """The hosts that have a socket."""
        return sorted(int(path.stem) for path in self._folder.glob("*.sock"))

    def _tell(self, indexes: Collection[int], head: dict[str, Any]) -> None:
        """Have those that are up do something; nobody is started for it, and who hangs or dies meanwhile does not matter."""
        until = time.monotonic() + TOLD_WITHIN
        for index in sorted(indexes):
            with contextlib.suppress(OSError):
                connection = self._connect(index, max(0.01, until - time.monotonic()))
                with connection:
                    send(connection, head)
                    receive(connection)

    def close(self) -> None:
        """Close the connections; the hosts stay."""
        with self._lock:
            for free in self._free.values():
                for connection in free:
                    connection.close()
            self._free.clear()

    def _asked(self, index: int, head: dict[str, Any], parts: Sequence[Part]) -> Frame:
        """The answer at one attempt. Errors: OSError."""
        connection = self._connection(index)
        try:
            send(connection, head, parts)
            answer = receive(connection)
            if answer is None:
                raise ConnectionError("it closed the connection")
        except OSError:
            connection.close()
            raise
        self._keep(index, connection)
        return answer

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

    def _connect(self, index: int, within: float | None = None) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(within)
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
        make_private(self._folder.parent)  # who cleans up may have removed it, and somebody else have made it since
        _make(self._folder)
        with (self._folder / f"{index}.lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if self._answers(index) or self._handed(index):
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
            if not self._answers_within(index, STARTS_WITHIN, lambda: process.poll() is None):
                raise ConnectionError(f"host {index} did not start")

    def _handed(self, index: int) -> bool:
        """Whether a process that stands by has become this host: it is waited for where there is one now and then, and a host has died."""
        has_died = work_file(self._folder, index).exists()
        return has_died and (self._folder / STANDBY).exists() and self._answers_within(index, HANDED_WITHIN)

    def _answers_within(self, index: int, seconds: float, lives: Callable[[], bool] = lambda: True) -> bool:
        """Whether a host answers within so many seconds, and as long as it lives."""
        until = time.monotonic() + seconds
        while not self._answers(index):
            if not lives() or time.monotonic() > until:
                return False
            time.sleep(0.01)
        return True

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
