"""`nadi password`: the hash of a password, for a deployment.yaml."""

from __future__ import annotations

import sys

from rich.console import Console

from nadi.server.security.passwords import hash_password


def print_hash() -> int:
    """Ask for a password and print its hash; -> exit status, 1 for an empty one."""
    typed = sys.stdin.isatty()
    given = Console(stderr=True).input("password: ", password=True) if typed else sys.stdin.readline().rstrip("\n")
    if not given:
        print("a password has at least one character", file=sys.stderr)
        return 1
    print(hash_password(given))
    return 0
