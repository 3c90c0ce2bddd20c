"""A Spark cluster on this machine whose parts share no folder: a master, workers in mount namespaces of their own, and an object store behind a slow line.

Workers, executors and hosts have inherited a mark in their environment, so that all of them are found.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyspark
import pytest

sys.path.append(str(Path(__file__).parents[1] / "endtoend"))

from nodes import MARK, marked, until

from nadi.io.guard import Guarded, guarded

from .ports import free_port

DELAY = 0.05  # seconds that each request to the object store takes longer
BUCKET = "state"
SECRET = {"AWS_ACCESS_KEY_ID": "cluster", "AWS_SECRET_ACCESS_KEY": "sesame", "AWS_EC2_METADATA_DISABLED": "true"}
JARS = Path(pyspark.__file__).parent / "jars"
HOST = "nadi.pipeline.executor.host"
EXECUTOR = "CoarseGrainedExecutorBackend"
MACHINE = "org.apache.spark.deploy.worker.Worker"
MASTER = "org.apache.spark.deploy.master.Master"


def needs_namespaces() -> None:
    """Skip a test where mount namespaces cannot be made."""
    try:
        tried = subprocess.run(
            ["unshare", "-m", "mount", "-t", "tmpfs", "none", "/tmp"], capture_output=True, check=False
        )
    except FileNotFoundError:
        pytest.skip("there is no unshare(1), which gives workers a file system of their own")
    if tried.returncode:
        pytest.skip(f"this user may not make mount namespaces: {tried.stderr.decode().strip()}")


# ---- an object store


class Slow:
    """A proxy in front of a port of this machine: what goes there arrives so many seconds later. `requests` has the first line of each request."""

    def __init__(self, target: int, delay: float) -> None:
        self.requests: list[str] = []
        self._target, self._delay = target, delay
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._threads: set[threading.Thread] = set()

    def __enter__(self) -> Slow:
        self._begin(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            sockets, threads = (self._listening, *self._open), tuple(self._threads)
        for each in sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join(10)
        self._listening.close()

    def _begin(self, target: Callable[..., None], *arguments: object) -> None:
        def work() -> None:
            target(*arguments)
            with self._lock:
                self._threads.discard(threading.current_thread())

        thread = threading.Thread(target=work, daemon=True)
        with self._lock:
            self._threads.add(thread)
        thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # it is over
            while True:
                client, _ = self._listening.accept()
                self._begin(self._relay, client)

    def _relay(self, client: socket.socket) -> None:
        """A connection: one that has ended must not keep its descriptors, as a store makes thousands."""
        # the store may be away, or all be over
        with (
            contextlib.suppress(OSError),
            client,
            socket.create_connection(("127.0.0.1", self._target)) as server,
        ):
            with self._lock:
                self._open |= {client, server}
            answers = threading.Thread(target=self._copy, args=(server, client, False), daemon=True)
            answers.start()
            self._copy(client, server, True)
            answers.join()
            with self._lock:
                self._open -= {client, server}

    def _copy(self, source: socket.socket, target: socket.socket, asks: bool) -> None:
        with contextlib.suppress(OSError):  # either side is gone
            while part := source.recv(1 << 20):
                if asks:
                    first = part.split(b"\r\n", 1)[0]
                    if first.endswith(b"HTTP/1.1"):
                        self.requests.append(first.decode(errors="replace"))
                    time.sleep(self._delay)
                target.sendall(part)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)


@contextlib.contextmanager
def object_store(folder: Path, delay: float = DELAY) -> Iterator[str]:
    """An S3-compatible server with a bucket, so many seconds away; -> the URL of a folder in it."""
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = guarded(_with(SECRET, command), folder / "s3.log")  # it ends with the tests, whatever way these end
    try:
        until(lambda: _made(port), 60)
        with Slow(port, delay) as slow:
            yield f"s3://{BUCKET}/nadi?endpoint_override=127.0.0.1:{slow.port}&scheme=http&region=us-east-1"
    finally:
        server.stop()


def _with(variables: Mapping[str, str], command: Sequence[str]) -> list[str]:
    return ["env", *(f"{name}={value}" for name, value in variables.items()), *command]


def _made(port: int) -> bool:
    request = urllib.request.Request(f"http://127.0.0.1:{port}/{BUCKET}", method="PUT")
    try:
        with urllib.request.urlopen(request, timeout=5):
            return True
    except (urllib.error.URLError, OSError):
        return False


# ---- Spark


@dataclass
class Cluster:
    """A standalone cluster. `master` is its URL, `secret` the file with what its processes know each other by."""

    master: str
    mark: str
    logs: Path
    secret: Path

    def processes(self, name: str) -> list[int]:
        """Those of a kind: EXECUTOR, HOST, MACHINE or MASTER."""
        return sorted(pid for pid in marked(self.mark) if name in words(pid))

    def kill(self, name: str) -> int:
        """`kill -9` of one of a kind; -> which."""
        until(lambda: self.processes(name), 60)
        pid = secrets.choice(self.processes(name))
        os.kill(pid, signal.SIGKILL)
        return pid

    def said(self) -> str:
        return "\n".join(path.read_text(errors="replace")[-4_000:] for path in sorted(self.logs.glob("*.out")))


def words(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _own_tmp() -> str:
    """A command that gives a namespace a `/tmp` of its own. Where nadi and Python are below `/tmp`, they stay in sight."""
    needed = {Path(sys.prefix).resolve(), Path(__file__).resolve().parents[2]}
    held = [
        path
        for path in needed
        if path.is_relative_to("/tmp") and not any(path != o and path.is_relative_to(o) for o in needed)
    ]
    if not held:
        return "mount -t tmpfs none /tmp"
    (path,) = map(shlex.quote, map(str, held))
    return f"mount --bind {path} /mnt && mount -t tmpfs none /tmp && mkdir -p {path} && mount --move /mnt {path}"


@contextlib.contextmanager
def cluster(folder: Path, workers: int = 2, cores: int = 2) -> Iterator[Cluster]:
    """A master and workers, each of which has a `/tmp` of its own and nothing of `folder`."""
    needs_namespaces()
    port, web = free_port(), free_port()
    secret = folder / "secret"
    secret.touch(0o600)
    secret.write_text(secrets.token_hex(32))
    made = Cluster(f"spark://127.0.0.1:{port}", secrets.token_hex(8), folder, secret)
    spark = {"SPARK_HOME": str(JARS.parent), "SPARK_SCALA_VERSION": "2.13", "SPARK_LOCAL_IP": "127.0.0.1"}
    variables = {MARK: made.mark, **spark, **SECRET, "_SPARK_AUTH_SECRET": secret.read_text()}
    java = ["java", "-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", f"{JARS}/*"]
    java += ["-Dspark.authenticate=true", "-Dspark.network.crypto.enabled=true"]
    master = [*java, MASTER, "--host", "127.0.0.1", "--port", str(port)]
    worker = [*java, MACHINE, "--host", "127.0.0.1", "--webui-port", "0"]
    worker += ["--cores", str(cores), "--memory", "2g", "--work-dir", "/tmp/work", made.master]
    # /tmp is private, and so is the folder of the test, wherever that is
    private = f"mount -t tmpfs none {shlex.quote(str(folder))} && {_own_tmp()} && cd / && exec "
    started: list[Guarded] = []

    def start(name: str, command: list[str]) -> None:
        started.append(guarded(_with(variables, command), folder / f"{name}.out"))

    try:
        start("master", [*master, "--webui-port", str(web)])
        until(lambda: _alive(web) is not None, 60, made.said)
        for number in range(workers):
            start(f"worker-{number}", ["unshare", "-m", "sh", "-c", private + shlex.join(worker)])
        until(lambda: _alive(web) == workers, 60, made.said)
        yield made
    finally:
        while left := marked(made.mark):
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        for process in started:
            process.stop()


def _alive(web: int) -> int | None:
    """How many workers the master knows; None where it does not answer."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{web}/json/", timeout=5) as answer:
            return int(json.load(answer)["aliveworkers"])
    except (urllib.error.URLError, OSError, ValueError):
        return None
