"""`nadi app deploy|list|show|delete|restart|revisions|backup|restore|move|drain`: the commands that ask a worker or a manager over REST."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Url = Annotated[str, typer.Option(help="The REST API of a worker, or of a manager.")]
User = Annotated[
    str, typer.Option(help="Who asks; NADI_USER, or admin, if left out. The password is in NADI_PASSWORD.")
]
Certificate = Annotated[
    str, typer.Option(help="A file with the certificate that the worker has to have; 'no': any will do.")
]
Name = Annotated[str, typer.Argument(help="The name of an app.")]
AsJson = Annotated[bool, typer.Option("--json", help="For tools: JSON.")]
HERE = "http://127.0.0.1:9090"
MANAGER = "http://127.0.0.1:9190"


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
        """Deploy apps to a worker, or to a cluster. One that is there is updated in place: what fits of its state goes on."""
        from nadi.cli import remote

        raise typer.Exit(remote.deploy(remote.remote(url, user, certificate), files, dry_run))

    @apps.command("list")
    def list_(url: Url = HERE, user: User = "", certificate: Certificate = "", as_json: AsJson = False) -> None:
        """List the apps of a worker, or of a cluster."""
        from nadi.cli import remote

        raise typer.Exit(remote.show_all(remote.remote(url, user, certificate), as_json))

    @apps.command()
    def show(
        app: Name, url: Url = HERE, user: User = "", certificate: Certificate = "", as_json: AsJson = False
    ) -> None:
        """Show the text of an app, and whether it is active; exit status 1 where it is not."""
        from nadi.cli import remote

        raise typer.Exit(remote.show(remote.remote(url, user, certificate), app, as_json))

    @apps.command()
    def delete(app: Name, url: Url = HERE, user: User = "", certificate: Certificate = "") -> None:
        """Undeploy an app. On a worker what it has on the disk stays; in a cluster its channels and states are removed."""
        from nadi.cli import remote

        raise typer.Exit(remote.delete(remote.remote(url, user, certificate), app))

    @apps.command()
    def restart(app: Name, url: Url = HERE, user: User = "", certificate: Certificate = "") -> None:
        """Stop an app and start it again from where it stood; in a cluster all its instances."""
        from nadi.cli import remote

        raise typer.Exit(remote.restart(remote.remote(url, user, certificate), app))

    @apps.command()
    def revisions(
        app: Name, url: Url = HERE, user: User = "", certificate: Certificate = "", as_json: AsJson = False
    ) -> None:
        """List the revisions of an app, oldest first."""
        from nadi.cli import remote

        raise typer.Exit(remote.show_revisions(remote.remote(url, user, certificate), app, as_json))

    @apps.command()
    def backup(app: Name, url: Url = HERE, user: User = "", certificate: Certificate = "") -> None:
        """Make a revision of an app, in a cluster of all its instances, and print its name."""
        from nadi.cli import remote

        raise typer.Exit(remote.backup(remote.remote(url, user, certificate), app))

    @apps.command()
    def restore(
        app: Name,
        revision: Annotated[str, typer.Option(help="A revision; the newest one that is whole if left out.")] = "",
        url: Url = HERE,
        user: User = "",
        certificate: Certificate = "",
    ) -> None:
        """Have an app go on from a revision, in a cluster all its instances. What came after it is taken once more."""
        from nadi.cli import remote

        raise typer.Exit(remote.restore(remote.remote(url, user, certificate), app, revision))

    @apps.command()
    def move(
        instance: Annotated[str, typer.Argument(help="The name of an instance, as 'Orders-totals-1'.")],
        url: Url = MANAGER,
        user: User = "",
        certificate: Certificate = "",
    ) -> None:
        """Move an instance of an app of a cluster off the worker that it is on."""
        from nadi.cli import remote

        raise typer.Exit(remote.move(remote.remote(url, user, certificate), instance))

    @apps.command()
    def drain(
        worker: Annotated[str, typer.Argument(help="The id of a worker (wso2.carbon.id).")],
        url: Url = MANAGER,
        user: User = "",
        certificate: Certificate = "",
        off: Annotated[bool, typer.Option("--off", help="Use the worker again.")] = False,
    ) -> None:
        """Move everything off a worker of a cluster, and give it nothing new."""
        from nadi.cli import remote

        raise typer.Exit(remote.drain(remote.remote(url, user, certificate), worker, not off))
