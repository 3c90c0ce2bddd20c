"""`nadi centre`: whose turn it is to publish, where two clusters run the same app and one of them is to."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

centre_commands = typer.Typer(
    name="centre", no_args_is_help=True, help="Say which data centre publishes the rows of an app (publish='active')."
)
App = Annotated[Path, typer.Argument(help="The app, as one of the centres has it.", exists=True, dir_okay=False)]
Env = Annotated[
    list[str] | None,
    typer.Option("--env", help="A variable that the app gets, ${NAME}: NAME from the environment, or NAME=VALUE."),
]


@centre_commands.command()
def show(app: App, env: Env = None) -> None:
    """Print whose turn it is, as each broker says."""
    from nadi.cli.centres import show as run

    raise typer.Exit(run(app, env or []))


@centre_commands.command()
def switch(
    app: App,
    to: Annotated[str, typer.Option("--to", help="The centre that publishes from now on: its option 'centre'.")],
    accept_loss: Annotated[
        bool, typer.Option("--accept-loss", help="Switch though a broker is away. See the page on data centres.")
    ] = False,
    env: Env = None,
) -> None:
    """Give the turn to a centre. The brokers refuse the one before from its next rows on."""
    from nadi.cli.centres import switch as run

    raise typer.Exit(run(app, to, accept_loss, env or []))
