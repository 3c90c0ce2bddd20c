"""The database of the example: a PostgreSQL server of its own where that is installed, else a file of SQLite."""

from __future__ import annotations

import contextlib
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from narration import pause
from nodes import free_ports
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from nadi.databases import Address, connect

WITHIN = 60.0  # seconds for a server to start


@dataclass(frozen=True)
class Database:
    """Where nodes keep what they agree on, and where the app writes to. `url` is one of SQLAlchemy's without user and password."""

    kind: str
    url: str
    user: str = ""
    password: str = field(default="", repr=False)

    @property
    def jdbc(self) -> str:
        """As a deployment.yaml has it."""
        return f"jdbc:{self.url}"

    @property
    def with_user(self) -> str:
        """The URL with who comes."""
        return self.url.replace("://", f"://{self.user}:{self.password}@", 1) if self.user else self.url

    @property
    def of_app(self) -> str:
        """The URL of what the app writes to: with SQLite a file of its own, as apps do not reach those of the nodes."""
        return self.url.replace("cluster.db", "app.db")

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        """All rows of a table of the app; none where it is not there yet."""
        engine = connect(Address(self.of_app, self.user, self.password))
        try:
            with engine.connect() as connection:
                found = connection.execute(text(f"select meter, kwh, total, readings from {table}"))
                return [tuple(row) for row in found]
        except DBAPIError:
            return []
        finally:
            engine.dispose()


@contextlib.contextmanager
def some_database(folder: Path) -> Iterator[Database]:
    """One that is there until the end."""
    initdb = shutil.which("initdb") or next((str(p) for p in Path("/usr/lib/postgresql").glob("*/bin/initdb")), None)
    if initdb is None:
        yield Database("SQLite, as PostgreSQL is not installed", f"sqlite:///{folder}/cluster.db")
        return
    with _postgres(Path(initdb).resolve().parent) as found:
        yield found


@contextlib.contextmanager
def _postgres(binaries: Path) -> Iterator[Database]:
    """A server in a folder of its own near the root, as paths of sockets must be short; not as root, which PostgreSQL refuses."""
    user = "postgres" if os.getuid() == 0 else None
    group = pwd.getpwnam(user).pw_gid if user else None
    folder, (port,), password = Path(tempfile.mkdtemp(prefix="nadi-pg-")), free_ports(1), secrets.token_hex(12)
    try:
        secret = folder / "password"
        secret.write_text(password)
        if user:
            shutil.chown(folder, user, group)
            shutil.chown(secret, user, group)
        made = [
            str(binaries / "initdb"),
            "-D",
            f"{folder}/data",
            "-U",
            "nadi",
            "--pwfile",
            str(secret),
            "-A",
            "scram-sha-256",
            "-E",
            "UTF8",
        ]
        subprocess.run([*made, "--no-sync"], check=True, user=user, group=group, cwd=folder, stdout=subprocess.DEVNULL)
        command = [
            str(binaries / "postgres"),
            "-D",
            f"{folder}/data",
            "-p",
            str(port),
            "-k",
            str(folder),
            "-h",
            "127.0.0.1",
        ]
        with (folder / "log").open("ab") as log:
            server = subprocess.Popen(
                command, user=user, group=group, cwd=folder, stdout=log, stderr=log, start_new_session=True
            )
        try:
            found = Database("PostgreSQL", f"postgresql://127.0.0.1:{port}/postgres", "nadi", password)
            _until_it_answers(found, server)
            yield found
        finally:
            server.send_signal(signal.SIGINT)  # "fast": it does not wait for its clients
            server.wait(WITHIN)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _until_it_answers(database: Database, server: subprocess.Popen[bytes]) -> None:
    late = time.monotonic() + WITHIN
    engine = connect(Address(database.url, database.user, database.password))
    try:
        while True:
            try:
                engine.connect().close()
            except DBAPIError:
                if server.poll() is not None or time.monotonic() > late:
                    raise SystemExit("PostgreSQL did not start") from None
                pause(0.1)
            else:
                return
    finally:
        engine.dispose()
