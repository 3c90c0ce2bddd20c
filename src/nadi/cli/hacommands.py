"""`nadi ha status|switch|promote`: the commands for a pair."""

from __future__ import annotations

from typing import Annotated

import typer

from nadi.cli.remotecommands import HERE, AsJson, Certificate, Url, User


def add_ha_commands(pair: typer.Typer) -> None:
    """Add them to `nadi ha`."""

    @pair.command()
    def status(url: Url = HERE, user: User = "", certificate: Certificate = "", as_json: AsJson = False) -> None:
        """Show both nodes of a pair, who is active, and whether they have the same; exit status 1 where there is an alarm."""
        from nadi.cli import ha, remote

        raise typer.Exit(ha.status(remote.remote(url, user, certificate), as_json))

    @pair.command()
    def switch(url: Url = HERE, user: User = "", certificate: Certificate = "") -> None:
        """Have the passive node go on in place of the active one; either may be asked. Nothing is lost, and no lease is waited for."""
        from nadi.cli import ha, remote

        raise typer.Exit(ha.switch(remote.remote(url, user, certificate)))

    @pair.command()
    def promote(
        url: Url = HERE,
        user: User = "",
        certificate: Certificate = "",
        accept_loss: Annotated[
            bool, typer.Option("--accept-loss", help="What only the other node has may be lost.")
        ] = False,
    ) -> None:
        """Have this node go on with what it has, though its copy is not complete; without --accept-loss, say what that would lose."""
        from nadi.cli import ha, remote

        raise typer.Exit(ha.promote(remote.remote(url, user, certificate), accept_loss))
