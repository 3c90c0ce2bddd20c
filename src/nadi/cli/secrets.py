"""Keeping the secrets of a worker. A value comes from a prompt or a pipe: a command line is in the list of processes and in the history of a shell."""

from __future__ import annotations

import sys
from pathlib import Path

from rich.console import Console

from nadi.config.ownership import make_private
from nadi.config.secrets import Secrets
from nadi.server.home import open_home


def put(name: str, home: Path) -> int:
    """Keep a secret; -> exit status. Errors: SECRET_INVALID, those of the file and its key, FOLDER_NOT_PRIVATE, FOLDER_NOT_MADE."""
    security = open_home(home).security
    make_private(security)
    typed = sys.stdin.isatty()
    given = Console(stderr=True).input(f"{name}: ", password=True) if typed else sys.stdin.read()
    Secrets(security).set(name, given.removesuffix("\n").removesuffix("\r"))
    print(f"{name} is kept; ${{sec:{name}}} stands for it from the worker's next start")
    return 0


def show_list(home: Path) -> int:
    """Print the names; -> exit status. Errors: SECRETS_DAMAGED."""
    for name in Secrets(open_home(home).security).aliases():
        print(name)
    return 0


def delete(name: str, home: Path) -> int:
    """Forget a secret; -> exit status. Errors: SECRET_UNKNOWN, SECRETS_DAMAGED, SECRETS_NOT_SAVED."""
    Secrets(open_home(home).security).delete(name)
    print(f"{name} is deleted")
    return 0
