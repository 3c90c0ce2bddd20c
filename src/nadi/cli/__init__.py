"""The command `nadi`.

Start with `main`: it has all commands; each does its work in a module of its own name.
"""

from nadi.cli.main import main

__all__ = ["main"]
