"""Database servers for tests: started in a folder of the test, on a free port, as a user without rights, and stopped with it.

They come from Debian's packages `postgresql` and `mariadb-server-core`; where one is missing, `NotPossible` says how to get it.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from .ports import free_port

START = 60.0  # seconds


class NotPossible(Exception):
    """A server that is not installed."""


@dataclass
class Database:
    """A server. `jdbc` is what a deployment.yaml says of it."""

    kind: str
    port: int
    user: str
    password: str
    command: list[str]
    folder: Path
    runs_as: str | None
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def jdbc(self) -> str:
        return f"jdbc:{self.kind}://127.0.0.1:{self.port}/test"

    def start(self) -> None:
        """Start it, or start it again after `kill`; it goes on with what it has."""
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                self.command, stdout=log, stderr=log, user=self.runs_as, group=_group(self.runs_as), cwd=self.folder
            )
        until = time.monotonic() + START
        while not self._answers():
            if self.process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"{self.kind} did not start: {(self.folder / 'log').read_text()[-2000:]}")
            time.sleep(0.05)

    def _answers(self) -> bool:
        probe = {
            "postgresql": ["psql", "-h", "127.0.0.1", "-p", str(self.port), "-U", self.user, "-c", "", "postgres"],
            "mariadb": ["mariadb", "-h", "127.0.0.1", "-P", str(self.port), f"-u{self.user}", "-e", ""],
        }[self.kind]
        environment = {**os.environ, "PGPASSWORD": self.password, "MYSQL_PWD": self.password}
        return subprocess.run(probe, check=False, capture_output=True, env=environment).returncode == 0

    def kill(self) -> None:
        """kill -9."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End it quickly but in order: PostgreSQL's "fast" shutdown is SIGINT."""
        self._end(signal.SIGINT if self.kind == "postgresql" else signal.SIGTERM)

    def _end(self, how: signal.Signals) -> None:
        if self.process is None:
            return
        children = _children(self.process.pid) if how is signal.SIGKILL else []
        self.process.send_signal(how)
        self.process.wait(START)
        self.process = None
        for child in children:  # of PostgreSQL; they go by themselves, but a restart must not meet them
            _gone(child)


def _children(pid: int) -> list[int]:
    return [int(c) for c in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _gone(pid: int) -> None:
    until = time.monotonic() + START
    while Path(f"/proc/{pid}").exists():
        if time.monotonic() > until:
            raise RuntimeError(f"process {pid} lives on")
        time.sleep(0.02)


def _group(user: str | None) -> int | None:
    return None if user is None else pwd.getpwnam(user).pw_gid


def _unprivileged(*wanted: str) -> str | None:
    """Whom a server runs as: this user, unless it is root."""
    if os.getuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    return next(name for name in (*wanted, "nobody") if name in known)


@contextmanager
def _folder(user: str | None) -> Iterator[Path]:
    """A folder of the user, near the root: pytest's are not open to others, and paths of sockets must be short."""
    path = Path(tempfile.mkdtemp(prefix="nadi-db-"))
    try:
        if user is not None:
            shutil.chown(path, user, _group(user))
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _run(command: list[str], user: str | None, folder: Path, **more: str) -> None:
    done = subprocess.run(
        command,
        check=False,  # what it said is told
        user=user,
        group=_group(user),
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, **more},
    )
    if done.returncode:
        raise RuntimeError(f"{command[0]}: {done.stderr or done.stdout}")


@contextmanager
def postgres() -> Iterator[Database]:
    """A PostgreSQL server with a database `test`."""
    initdb = shutil.which("initdb") or next((str(p) for p in Path("/usr/lib/postgresql").glob("*/bin/initdb")), None)
    if initdb is None or shutil.which("psql") is None:
        raise NotPossible("PostgreSQL is not installed (Debian: apt-get install postgresql)")
    folder_of = Path(initdb).resolve().parent
    user, port = _unprivileged("postgres"), free_port()
    with _folder(user) as folder:
        (folder / "password").write_text("sec'ret@1\n")
        (folder / "password").chmod(0o644)
        created = [initdb, "-D", str(folder / "data"), "-U", "nadi", "--pwfile", str(folder / "password")]
        _run([*created, "-A", "scram-sha-256", "-E", "UTF8", "--no-sync"], user, folder)
        command = [str(folder_of / "postgres"), "-D", str(folder / "data"), "-p", str(port), "-k", str(folder)]
        server = Database("postgresql", port, "nadi", "sec'ret@1", [*command, "-h", "127.0.0.1"], folder, user)
        server.start()
        try:
            asked = ["psql", "-h", "127.0.0.1", "-p", str(port), "-U", "nadi", "-c", "CREATE DATABASE test", "postgres"]
            _run(asked, None, folder, PGPASSWORD=server.password)
            yield server
        finally:
            server.stop()


@contextmanager
def mariadb() -> Iterator[Database]:
    """A MariaDB server with a database `test`; it stands for MySQL, too."""
    daemon = shutil.which("mariadbd") or shutil.which("mariadbd", path="/usr/sbin")
    install = shutil.which("mariadb-install-db")
    if daemon is None or install is None or shutil.which("mariadb") is None:
        raise NotPossible("MariaDB is not installed (Debian: apt-get install mariadb-server-core mariadb-client-core)")
    user, port = _unprivileged("mysql"), free_port()
    with _folder(user) as folder:
        data, socket_ = folder / "data", folder / "socket"
        # Whoever starts, also to make the first tables, removes what another one has in the same folder for temporary tables.
        own = [f"--datadir={data}", f"--tmpdir={folder}"]
        _run([install, "--no-defaults", *own, "--auth-root-authentication-method=normal"], user, folder)
        first = folder / "first.sql"
        first.write_text(
            "CREATE DATABASE IF NOT EXISTS test;\n"
            "CREATE OR REPLACE USER nadi@'%' IDENTIFIED BY 'secret1';\n"
            "GRANT ALL ON *.* TO nadi@'%' WITH GRANT OPTION;\nFLUSH PRIVILEGES;\n"
        )
        first.chmod(0o644)
        options = [*own, f"--port={port}", f"--socket={socket_}", f"--init-file={first}"]
        options += ["--bind-address=127.0.0.1", "--skip-name-resolve", f"--pid-file={folder / 'pid'}"]
        command = [daemon, "--no-defaults", *options]
        server = Database("mariadb", port, "nadi", "secret1", command, folder, user)
        server.start()
        try:
            yield server
        finally:
            server.stop()
