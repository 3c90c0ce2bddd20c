"""`nadi config`: what a deployment.yaml says, and what in it has no effect."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

config_commands = typer.Typer(name="config", no_args_is_help=True, help="Look at a deployment.yaml.")
File = Annotated[Path, typer.Argument(help="A deployment.yaml.", exists=True, dir_okay=False)]
Home = Annotated[Path, typer.Option(help="The folder that the worker lives in, with its secrets.", file_okay=False)]


@config_commands.command()
def check(file: File, home: Home = Path("nadi-home")) -> None:
    """Say whether a worker would start with it, and what in it has no effect. Exit status 1 where a value cannot be."""
    from nadi.cli.configs import check as run

    raise typer.Exit(run(file, home))


@config_commands.command()
def show(file: File, home: Home = Path("nadi-home")) -> None:
    """Print all settings with their defaults, as a worker would have them. Passwords are masked."""
    from nadi.cli.configs import show as run

    raise typer.Exit(run(file, home))
