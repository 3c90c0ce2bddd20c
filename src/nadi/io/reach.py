"""What connectors of a node's apps may reach outside: folders, certificates and keys, databases, other servers. The node's operator says it, and no app.

>>> Reach.of(folders="/srv/in,/srv/out").refused("/srv/in/a.csv"), Reach.of(folders="/srv/in").refused("/etc/passwd")
('', 'it is in none of the folders of nadi.connector.folders')
>>> Reach().refused("/proc/self/environ")
'/proc is closed to apps'

Links are followed, at deployment and again whenever something is opened.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from nadi.config.places import DataSource
from nadi.errors import error
from nadi.io.namedfiles import check_named

SYSTEM = ("/proc", "/sys")
"""Folders in which a node reads what it is itself: its environment, its memory, its machine."""

OWN_FOLDER_OF_APPS = "files"
"""The folder of a worker's home that its apps reach where the operator names none."""


@dataclass(frozen=True, slots=True)
class Reached:
    """Something outside that an option of a connector names: a file or folder (`path`), a certificate or key (`named`), a database (`server`, as
    host:port), or another server (`host`, likewise). `trusted` is a certificate or key that a URL names."""

    option: str
    path: str = ""
    named: str = ""
    trusted: str = ""
    server: str = ""
    host: str = ""


@dataclass(frozen=True, slots=True)
class Reach:
    """See the module's text. All paths are absolute, without links.

    `bounded`: apps reach `folders` only; else any folder. `closed` are files and folders that are closed whatever `folders` says, `home` is closed but for
    those of the `folders` that are in it. `files` is the folder of certificates and keys ("": there is none), `databases` are the servers of databases, `hosts`
    those of http, MQTT, Kafka and NATS, host or host:port (none: any).
    `sources` are the node's data sources that apps may name, with all their names.
    """

    bounded: bool = False
    folders: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()
    home: str = ""
    files: str = ""
    databases: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    sources: tuple[DataSource, ...] = ()

    @classmethod
    def of(
        cls,
        folders: str = "",
        databases: str = "",
        files: str = "",
        home: Path | None = None,
        closed: Sequence[Path] = (),
        hosts: str = "",
        sources: Sequence[DataSource] = (),
    ) -> Reach:
        """What settings say; `folders`, `databases` and `hosts` have commas. A worker's `home` closes itself, and bounds its apps where no folder
        is named, too."""
        named = [part.strip() for part in folders.split(",") if part.strip()]
        if not named and home is not None:
            named = [OWN_FOLDER_OF_APPS]
        return cls(
            bool(named),
            tuple(os.path.realpath(Path(home or ".") / folder) for folder in named),
            tuple(dict.fromkeys(os.path.realpath(path) for path in closed)),
            os.path.realpath(home) if home is not None else "",
            os.path.realpath(files) if files else "",
            _servers(databases),
            _servers(hosts),
            tuple(sources),
        )

    def refused(self, path: str) -> str:
        """Why apps may not reach a file or folder, "" where they may."""
        real, written = os.path.realpath(path), os.path.abspath(path)
        for folder in (*SYSTEM, *self.closed):
            if _inside(real, folder) or _inside(written, folder):
                return f"{folder} is closed to apps"
        holding = [folder for folder in self.folders if _inside(real, folder)]
        if self.home and _inside(real, self.home) and not any(_inside(folder, self.home) for folder in holding):
            return "it is in the home of the node"
        if self.bounded and not holding:
            return "it is in none of the folders of nadi.connector.folders"
        return ""

    def check(self, where: str, reached: Reached) -> None:
        """Whether apps may reach it; `where` names the connector. Errors: PATH_NOT_ALLOWED, FILE_NOT_ALLOWED, DATABASE_NOT_ALLOWED,
        HOST_NOT_ALLOWED."""
        if reached.path:
            self.check_path(where, reached.option, reached.path)
        if reached.named:
            check_named(where, reached.option, reached.named, self.files)
        if reached.trusted and not (self.files and _inside(os.path.realpath(reached.trusted), self.files)):
            self.check_path(where, reached.option, reached.trusted)
        if reached.server and not _among(self.databases, reached.server):
            raise error("DATABASE_NOT_ALLOWED", where=where, name=reached.option, server=reached.server)
        if reached.host and not self.has_host(reached.host):
            raise error("HOST_NOT_ALLOWED", where=where, name=reached.option, server=reached.host)

    def check_path(self, where: str, name: str, path: str) -> None:
        """Whether apps may reach a file or folder. Errors: PATH_NOT_ALLOWED."""
        reason = self.refused(path)
        if reason:
            raise error("PATH_NOT_ALLOWED", where=where, name=name, path=path, reason=reason)

    def has_host(self, server: str) -> bool:
        """Whether apps may connect to a server, host:port, that is no database.

        >>> Reach.of(hosts="broker,[::1]:80").has_host("Broker:4222"), Reach.of(hosts="broker:4222").has_host("broker:1883")
        (True, False)
        """
        return _among(self.hosts, server)


def _servers(listed: str) -> tuple[str, ...]:
    return tuple(part.strip().lower() for part in listed.split(",") if part.strip())


def _among(allowed: Sequence[str], server: str) -> bool:
    """Whether a server (host:port) is one of those that are allowed, host or host:port; where there are none, any is."""
    return not allowed or server.lower() in allowed or server.lower().rpartition(":")[0] in allowed


def local_file(url: str) -> str:
    """The file that a URL of a database, or of a place for revisions or state, means on this machine; "" where it means none.

    >>> local_file("jdbc:sqlite:/n/a.db?x=1"), local_file("sqlite:////n/a.db"), local_file("file:///n/b%20c?replica=/s"), local_file("/n/d")
    ('/n/a.db', '/n/a.db', '/n/b c', '/n/d')
    >>> local_file("jdbc:postgresql://db/x"), local_file("sqlite://"), local_file("s3://bucket/x")
    ('', '', '')
    """
    text = url.strip().removeprefix("jdbc:")
    if text.startswith("sqlite:"):
        path = re.split("[?;]", text.removeprefix("sqlite:"))[0]
        path = path[3:] if path.startswith("///") else "" if path.startswith("//") else path
        return "" if path == ":memory:" else path
    if text.startswith("file:"):
        return unquote(urlsplit(text).path)
    return "" if "://" in text else text


def files_of(url: str) -> tuple[str, ...]:
    """The files that a database or a place has at a URL, with those that SQLite keeps beside its own; none where it is on a server.

    >>> files_of("jdbc:sqlite:/n/a.db")
    ('/n/a.db', '/n/a.db-wal', '/n/a.db-shm', '/n/a.db-journal')
    """
    file = local_file(url)
    return tuple(f"{file}{ending}" for ending in ("", "-wal", "-shm", "-journal")) if file else ()


def _inside(path: str, folder: str) -> bool:
    """Whether a path is a folder or below it.

    >>> _inside("/srv/a", "/srv"), _inside("/srv", "/srv"), _inside("/srvx", "/srv"), _inside("/srv", "/")
    (True, True, False, True)
    """
    return path == folder or path.startswith(folder.rstrip("/") + "/")
