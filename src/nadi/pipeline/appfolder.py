"""The folder of an app in the state folder of a node: there, and nowhere else, whatever its name is and whoever put a link in its place."""

from __future__ import annotations

from pathlib import Path

from nadi.errors import error
from nadi.plan.appnames import unsafe


def app_folder(state: Path, name: str) -> Path:
    """The absolute path of the folder that an app has, whether or not it exists.

    Raises:
        SiddhiAppCreationException: APP_FOLDER_UNSAFE, where it would lie elsewhere, or is a link or a file.
    """
    parent = state.resolve()
    folder = parent / name
    if reason := unsafe(name):
        raise error(
            "APP_FOLDER_UNSAFE", folder=folder, reason=f"the name of the app cannot be that of a folder: {reason}"
        )
    if folder.is_symlink():
        raise error("APP_FOLDER_UNSAFE", folder=folder, reason="it is a link to somewhere else")
    if folder.exists() and not folder.is_dir():
        raise error("APP_FOLDER_UNSAFE", folder=folder, reason="it is no folder")
    return folder
