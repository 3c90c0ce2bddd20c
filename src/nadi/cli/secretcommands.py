"""`nadi secret`: what `${sec:…}` in a deployment.yaml stands for."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

secret_commands = typer.Typer(
    name="secret", no_args_is_help=True, help="Keep the secrets of a worker: ${sec:NAME} in a deployment.yaml."
)
Name = Annotated[str, typer.Argument(help="The name of a secret.")]
Home = Annotated[Path, typer.Option(help="The folder that the worker lives in.", file_okay=False)]


@secret_commands.command("set")
def set_(name: Name, home: Home = Path("nadi-home")) -> None:
    """Ask for a secret and keep it, encrypted. In a pipe it is all that comes, without the line's end. A worker reads it at its next start."""
    from nadi.cli.secrets import put

    raise typer.Exit(put(name, home))


@secret_commands.command("list")
def list_(home: Home = Path("nadi-home")) -> None:
    """Print the names of the secrets, and never their values."""
    from nadi.cli.secrets import show_list

    raise typer.Exit(show_list(home))


@secret_commands.command()
def delete(name: Name, home: Home = Path("nadi-home")) -> None:
    """Forget a secret."""
    from nadi.cli.secrets import delete as forget

    raise typer.Exit(forget(name, home))
