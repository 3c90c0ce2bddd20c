"""`nadi simulate …`: the commands for the event simulator of a worker."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nadi.cli.remotecommands import HERE, AsJson, Certificate, Url, User

simulate = typer.Typer(name="simulate", help="Send events to the apps of a worker.", no_args_is_help=True)

Feeds = Annotated[list[str], typer.Argument(help="Simulations: their names, or their JSON files.")]


@simulate.command()
def event(
    app: Annotated[str, typer.Argument(help="The name of an app.")],
    stream: Annotated[str, typer.Argument(help="A stream of it.")],
    values: Annotated[
        list[str], typer.Argument(help="A value for each attribute; null is null. After -- where one begins with -.")
    ],
    timestamp: Annotated[int | None, typer.Option(min=0, help="Its time, ms; now, if left out.")] = None,
    url: Url = HERE,
    user: User = "",
    certificate: Certificate = "",
) -> None:
    """Send one event. It is on the disk when the command returns."""
    from nadi.cli import remote
    from nadi.cli import simulate as simulation

    raise typer.Exit(simulation.send_event(remote.remote(url, user, certificate), app, stream, values, timestamp))


@simulate.command()
def run(
    file: Annotated[Path, typer.Argument(help="A simulation: a JSON file.", exists=True, dir_okay=False)],
    detach: Annotated[bool, typer.Option("--detach", help="Return at once; it goes on without this command.")] = False,
    url: Url = HERE,
    user: User = "",
    certificate: Certificate = "",
) -> None:
    """Bring a simulation and the CSV files beside it to a worker and run it. Ctrl-C stops it."""
    from nadi.cli import remote
    from nadi.cli import simulate as simulation

    raise typer.Exit(simulation.run(remote.remote(url, user, certificate), file, detach))


@simulate.command()
def pause(feeds: Feeds, url: Url = HERE, user: User = "", certificate: Certificate = "") -> None:
    """Have simulations wait until they are resumed."""
    _act(feeds, "pause", url, user, certificate)


@simulate.command()
def resume(feeds: Feeds, url: Url = HERE, user: User = "", certificate: Certificate = "") -> None:
    """Have simulations that were paused go on."""
    _act(feeds, "resume", url, user, certificate)


@simulate.command()
def stop(feeds: Feeds, url: Url = HERE, user: User = "", certificate: Certificate = "") -> None:
    """Stop simulations; the next run begins at the beginning."""
    _act(feeds, "stop", url, user, certificate)


@simulate.command("list")
def list_(url: Url = HERE, user: User = "", certificate: Certificate = "", as_json: AsJson = False) -> None:
    """List the simulations of a worker, with what they have sent, and why some cannot run."""
    from nadi.cli import remote
    from nadi.cli import simulate as simulation

    raise typer.Exit(simulation.show_all(remote.remote(url, user, certificate), as_json))


@simulate.command()
def delete(feeds: Feeds, url: Url = HERE, user: User = "", certificate: Certificate = "") -> None:
    """Stop and forget simulations."""
    from nadi.cli import remote
    from nadi.cli import simulate as simulation

    raise typer.Exit(simulation.delete(remote.remote(url, user, certificate), feeds))


def _act(feeds: list[str], action: str, url: str, user: str, certificate: str) -> None:
    from nadi.cli import remote
    from nadi.cli import simulate as simulation

    raise typer.Exit(simulation.act(remote.remote(url, user, certificate), feeds, action))
