"""`nadi app deploy|list|show|delete|restart`: the commands that ask a worker over REST."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Url = Annotated[str, typer.Option(help="The REST API of a worker.")]
User = Annotated[
    str, typer.Option(help="Who asks; NADI_USER, or admin, if left out. The password is in NADI_PASSWORD.")
]
Certificate = Annotated[
    str, typer.Option(help="A file with the certificate that the worker has to have; 'no': any will do.")
]
Name = Annotated[str, typer.Argument(help="The name of an app.")]
AsJson = Annotated[bool, typer.Option("--json", help="For tools: JSON.")]
HERE = "http://127.0.0.1:9090"


def add_remote_commands(apps: typer.Typer) -> None:
    """Add them to `nadi app`."""

    @apps.command()
    def deploy(
        files: Annotated[list[Path], typer.Argument(help="Siddhi apps.", exists=True, dir_okay=False)],
        url: Url = HERE,
        user: User = "",
        certificate: Certificate = "",
        dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would become of states, and stop.")] = False,
    ) -> None:
        """Deploy apps to a worker. One that is there is updated in place: what fits of its state goes on."""
        from nadi.cli import remote

        raise typer.Exit(remote.deploy(remote.remote(url, user, certificate), files, dry_run))

    @apps.command("list")
    def list_(url: Url = HERE, user: User = "", certificate: Certificate = "", as_json: AsJson = False) -> None:
        """List the apps of a worker."""
        from nadi.cli import remote

        raise typer.Exit(remote.show_all(remote.remote(url, user, certificate), as_json))

    @apps.command()
    def show(
        app: Name, url: Url = HERE, user: User = "", certificate: Certificate = "", as_json: AsJson = False
    ) -> None:
        """Show the text of an app of a worker, and whether it is active; exit status 1 where it is not."""
        from nadi.cli import remote

        raise typer.Exit(remote.show(remote.remote(url, user, certificate), app, as_json))

    @apps.command()
    def delete(app: Name, url: Url = HERE, user: User = "", certificate: Certificate = "") -> None:
        """Undeploy an app of a worker. What it has on the disk stays."""
        from nadi.cli import remote

        raise typer.Exit(remote.delete(remote.remote(url, user, certificate), app))

    @apps.command()
    def restart(app: Name, url: Url = HERE, user: User = "", certificate: Certificate = "") -> None:
        """Stop an app of a worker and start it again from where it stood."""
        from nadi.cli import remote

        raise typer.Exit(remote.restart(remote.remote(url, user, certificate), app))
