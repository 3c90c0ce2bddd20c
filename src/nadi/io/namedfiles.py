"""Files that an app's options may name: those in the folder that the node's operator chose (`nadi.connector.files`), links followed, and no others."""

from __future__ import annotations

from pathlib import Path

from nadi.errors import error


def check_named(where: str, name: str, path: str, folder: str) -> None:
    """That the file which an option names stands in the operator's folder ("": there is none). `where` names the connector. Errors: FILE_NOT_ALLOWED."""
    if not folder or not Path(path).resolve().is_relative_to(Path(folder).resolve()):
        raise error("FILE_NOT_ALLOWED", where=where, name=name, path=path)
