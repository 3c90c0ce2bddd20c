"""The command `nadi`."""

from nadi.cli.main import main

__all__ = ["main"]
