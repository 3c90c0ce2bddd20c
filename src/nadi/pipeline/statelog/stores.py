"""From what a deployment says of a state log to its store."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from nadi.config.ownership import check_own
from nadi.io.remotefiles import is_remote
from nadi.pipeline.statelog.copied import CopiedFolderStore
from nadi.pipeline.statelog.folder import FolderStore
from nadi.pipeline.statelog.store import ObjectStore
from nadi.replica.address import replica_of


def open_store(place: str | Path) -> ObjectStore:
    """The store at a path, or at a URL that `pyarrow.fs` knows: `hdfs://…`, `s3://…`, `gs://…`. `file://…` is the folder at its path, which the
    partner of this node has, too, where there is the parameter `replica`.

    Nothing is made there before the first object is put. Errors: INVALID_SETTING for a URL that is not understood, FOLDER_NOT_PRIVATE for a folder that
    others own or may write to.

    >>> open_store("file:///var/lib/nadi/A/log").name
    '/var/lib/nadi/A/log'
    """
    text = str(place)
    if "://" not in text:
        return _folder(Path(place))
    if not is_remote(text):
        path, socket = Path(unquote(urlsplit(text).path)), replica_of(text)[1]
        return _folder(path) if socket is None else _copied(path, socket)
    from nadi.pipeline.statelog.remote import store_at  # with it come the clients of object stores

    return store_at(text)


def _folder(path: Path) -> FolderStore:
    check_own(path)  # what is in it becomes the state of an app
    return FolderStore(path)


def _copied(path: Path, socket: Path) -> CopiedFolderStore:
    check_own(path)
    return CopiedFolderStore(path, socket)
