"""The commands of `nadi` and their options; what they do is in the modules beside this one, imported when needed."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from nadi.cli.centrecommands import centre_commands
from nadi.cli.configcommands import config_commands
from nadi.cli.errorcommands import errors
from nadi.cli.hacommands import add_ha_commands
from nadi.cli.remotecommands import add_remote_commands
from nadi.cli.secretcommands import secret_commands
from nadi.cli.simulatecommands import simulate
from nadi.errors import NadiError
from nadi.framestack import with_room

cli = typer.Typer(
    name="nadi",
    help="Runs Siddhi apps on Apache Spark.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

revision = typer.Typer(
    name="revision", help="List, show or delete what is kept of an app's state.", no_args_is_help=True
)
apps = typer.Typer(name="app", help="Deploy apps to a worker; add them to a node that runs.", no_args_is_help=True)
pair = typer.Typer(
    name="ha", help="Look at a pair of workers, and change which of them is active.", no_args_is_help=True
)
cli.add_typer(revision)
cli.add_typer(apps)
cli.add_typer(errors)
cli.add_typer(config_commands)
cli.add_typer(centre_commands)
cli.add_typer(secret_commands)
cli.add_typer(simulate)
cli.add_typer(pair)
add_remote_commands(apps)
add_ha_commands(pair)


def _show_version(asked: bool) -> None:
    if asked:
        from nadi.config.release import release

        typer.echo(f"nadi {release()}")
        raise typer.Exit


@cli.callback()
def before_each_command(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and end.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """What stands before the name of a command."""


Apps = Annotated[list[Path], typer.Argument(help="Siddhi apps: files, one app each.", exists=True, dir_okay=False)]


RefsConfig = Annotated[
    Path | None, typer.Option("--config", help="A deployment.yaml: what refs of apps stand for.", dir_okay=False)
]
Env = Annotated[
    list[str] | None,
    typer.Option("--env", help="A variable that apps get, ${NAME}: NAME from the environment, or NAME=VALUE."),
]


class Transport(StrEnum):
    """What the channels of a cluster are on."""

    nats = "nats"
    kafka = "kafka"


@cli.command()
def check(
    apps: Apps,
    as_json: Annotated[bool, typer.Option("--json", help="For tools: a JSON list.")] = False,
    config: RefsConfig = None,
    conf: Annotated[list[str] | None, typer.Option(help="key=value: a setting, as the node will have it.")] = None,
    env: Env = None,
    home: Annotated[
        Path | None, typer.Option(help="The home of the worker that is to take the apps: what it lets them reach.")
    ] = None,
) -> None:
    """Print all errors of all apps, so that those without any can run; exit status 1 if there are any."""
    from nadi.cli.check import check as run_check

    raise typer.Exit(run_check(apps, as_json, env or [], config, conf or [], home))


@cli.command()
def explain(
    app: Annotated[Path, typer.Argument(help="A Siddhi app.", exists=True, dir_okay=False)],
    as_json: Annotated[bool, typer.Option("--json", help="For tools: a JSON object.")] = False,
    dist: Annotated[bool, typer.Option("--dist", help="How a cluster runs it: groups, channels, instances.")] = False,
    picture: Annotated[
        Path | None, typer.Option("--svg", help="With --dist: a file for the picture.", dir_okay=False)
    ] = None,
    partial: Annotated[
        Path | None, typer.Option("--apps", help="With --dist: a folder for the partial apps.", file_okay=False)
    ] = None,
    transport: Annotated[Transport, typer.Option(help="With --dist: what the channels are on.")] = Transport.nats,
    spark: Annotated[bool, typer.Option("--spark", help="With --dist: as a Spark cluster runs it.")] = False,
    env: Env = None,
) -> None:
    """Show how an app will run: groups, keys, buckets, each query's state and timers, each sink's guarantee, and why."""
    from nadi.cli.explain import explain as text_of
    from nadi.cli.explain import explain_dist, explain_json, partial_apps

    if not dist:
        if picture is not None or partial is not None or spark:
            raise typer.BadParameter("--svg, --apps and --spark go with --dist")
        typer.echo((explain_json if as_json else text_of)(app, env or []), nl=False)
        return
    typer.echo(explain_dist(app, env or [], transport.value, picture, as_json, spark), nl=False)
    if partial is not None:
        partial_apps(app, partial, env or [], transport.value, spark)


@cli.command()
def prepare() -> None:
    """Make later starts quicker, once for this machine and Java: an archive of about 180 MB in the cache folder (~/.cache/nadi, or $NADI_CACHE)."""
    from nadi.cli.prepare import prepare as make

    raise typer.Exit(make())


@cli.command("test")
def run_tests(
    places: Annotated[list[Path], typer.Argument(help="Folders with *.test.yaml files, or such files.", exists=True)],
    only: Annotated[str, typer.Option("-k", help="Only scenarios whose file and name contain this.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="For tools: a JSON object.")] = False,
    env: Env = None,
) -> None:
    """Run the tests beside apps on a virtual clock, without Spark; exit status 1 if one fails."""
    from nadi.cli.test import run_all

    raise typer.Exit(run_all(places, only, as_json, env=env or []))


@cli.command()
def run(
    apps: Apps,
    master: Annotated[str, typer.Option(help="Where Spark runs.")] = "local[*,4]",
    state_dir: Annotated[Path, typer.Option(help="Everything a restart needs is kept here.")] = Path(".nadi"),
    conf: Annotated[
        list[str] | None, typer.Option(help="key=value: a setting of Spark (spark.…) or nadi (nadi.…).")
    ] = None,
    until_end: Annotated[bool, typer.Option(help="Stop when all finite inputs are consumed.")] = False,
    config: Annotated[
        Path | None,
        typer.Option(
            help="A deployment.yaml: when revisions are made (state.persistence), where errors are kept (error.store)."
        ),
    ] = None,
    profile: Annotated[
        bool, typer.Option("--profile", help="Note where the time goes, for 'nadi profile'; show it at the end.")
    ] = False,
    env: Env = None,
) -> None:
    """Run apps until Ctrl-C; the next start goes on where this one stopped."""
    from nadi.cli.run import run as run_apps

    raise typer.Exit(run_apps(apps, master, state_dir, conf or [], until_end, config, profile, env or []))


@cli.command()
def worker(
    conf: Annotated[
        Path | None,
        typer.Option(
            help="A deployment.yaml; without one, all settings have their defaults.", exists=True, dir_okay=False
        ),
    ] = None,
    home: Annotated[
        Path, typer.Option(help="The folder that the worker lives in: apps, state, users.", file_okay=False)
    ] = Path("nadi-home"),
) -> None:
    """Run a server that apps are deployed to, until Ctrl-C; the next start goes on where this one stopped."""
    from nadi.cli.worker import worker as run_worker

    raise typer.Exit(run_worker(conf, home))


@cli.command()
def manager(
    conf: Annotated[
        Path,
        typer.Option(
            help="A deployment.yaml, with 'deployment.config: {type: distributed}'.", exists=True, dir_okay=False
        ),
    ],
    home: Annotated[
        Path, typer.Option(help="The folder that the manager lives in: users, certificate.", file_okay=False)
    ] = Path("nadi-manager"),
) -> None:
    """Run a server that takes apps for a cluster, cuts them and has workers run them, until Ctrl-C."""
    from nadi.cli.manager import manager as run_manager

    raise typer.Exit(run_manager(conf, home))


@cli.command()
def password() -> None:
    """Ask for a password and print its hash, for the users of a deployment.yaml. In a pipe it is the first line that comes."""
    from nadi.cli.passwords import print_hash

    raise typer.Exit(print_hash())


@cli.command()
def query(
    app: Annotated[str, typer.Argument(help="The name of an app that runs.")],
    text: Annotated[str, typer.Argument(help='An on-demand query: "from Table on … select …", "delete Table on …" …')],
    state_dir: Annotated[Path, typer.Option(help="The state folder of its node.")] = Path(".nadi"),
    within: Annotated[float, typer.Option(help="How many seconds to wait for the answer.")] = 30.0,
    as_json: Annotated[bool, typer.Option("--json", help="For tools: a JSON list.")] = False,
    url: Annotated[str, typer.Option(help="Ask a worker, or a manager of a cluster, at this address.")] = "",
    user: Annotated[str, typer.Option(help="With --url: who asks. The password is in NADI_PASSWORD.")] = "",
    certificate: Annotated[str, typer.Option(help="With --url: as 'nadi app' takes it.")] = "",
) -> None:
    """Ask or change the tables, named windows and aggregations of an app that runs."""
    if url:
        from nadi.cli import remote

        raise typer.Exit(remote.query(remote.remote(url, user, certificate), app, text, as_json))
    from nadi.cli.query import query as ask

    raise typer.Exit(ask(app, text, state_dir, within, as_json))


@cli.command()
def profile(
    app: Annotated[str, typer.Argument(help="The name of an app, or its state folder.")],
    state_dir: Annotated[Path, typer.Option(help="The state folder of its node.")] = Path(".nadi"),
    as_json: Annotated[bool, typer.Option("--json", help="For tools: a JSON object.")] = False,
) -> None:
    """Show where the time of an app goes that runs with --profile: by phase of a batch, and by query."""
    from nadi.cli.profile import show

    raise typer.Exit(show(app, state_dir, as_json))


@cli.command()
def replay(
    app: Annotated[str, typer.Argument(help="The file of an app, or the name of one that runs.")],
    output: Annotated[Path, typer.Option(help="The rows are written here, as JSON lines.", dir_okay=False)],
    first: Annotated[
        str,
        typer.Option(
            "--from", help="The first cut, a time, or a revision to go on from; from the beginning if left out."
        ),
    ] = "",
    last: Annotated[str, typer.Option("--to", help="The last cut, or a time; to the last cut if left out.")] = "",
    state_dir: Annotated[Path, typer.Option(help="The state folder of its node.")] = Path(".nadi"),
    conf: Annotated[
        list[str] | None, typer.Option(help="key=value, as the node has them: properties, the journal.")
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            help="A deployment.yaml: where revisions are (without one, below the state folder), what refs stand for."
        ),
    ] = None,
    env: Env = None,
) -> None:
    """Make again what an app emitted, from its logs and beside it, and compare; exit status 1 where a file differs."""
    from nadi.cli.replay import replay as run_replay

    raise typer.Exit(run_replay(app, first, last, output, state_dir, conf or [], config, env or []))


@cli.command()
def backtest(
    app: Annotated[Path, typer.Argument(help="A Siddhi app.", exists=True, dir_okay=False)],
    inputs: Annotated[
        list[str], typer.Option("--input", help="STREAM=FILE: Parquet, CSV or JSON lines, or a folder of such.")
    ],
    timestamp: Annotated[
        str, typer.Option(help="The column with the time; event.time of the source if left out.")
    ] = "",
    streams: Annotated[
        list[str] | None, typer.Option("--stream", help="Output streams; those with a sink if left out.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="A folder for the rows: Parquet, one folder per stream.", file_okay=False)
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(help="Another version of the app: show how the rows differ.", exists=True, dir_okay=False),
    ] = None,
    master: Annotated[str, typer.Option(help="Where Spark runs.")] = "local[*,4]",
    conf: Annotated[list[str] | None, typer.Option(help="key=value: a setting of Spark (spark.…).")] = None,
    config: RefsConfig = None,
    env: Env = None,
) -> None:
    """Run an app over history, or two versions of it and compare them; exit status 1 where they differ."""
    from nadi.cli.backtest import run as run_backtest

    raise typer.Exit(
        run_backtest(app, inputs, timestamp, streams or [], output, against, master, conf or [], env or [], config)
    )


@cli.command()
def functions(
    name: Annotated[str, typer.Argument(help="A function, or a namespace: all of them if left out.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="For tools: a JSON list.")] = False,
) -> None:
    """List what apps can call (functions, aggregators, windows, stream functions), or explain one."""
    from nadi.cli.functions import show

    raise typer.Exit(show(name, as_json))


AppName = Annotated[str, typer.Argument(help="The name of an app.")]
Config = Annotated[
    Path | None, typer.Option(help="A deployment.yaml; without one, files below the state folder.", dir_okay=False)
]
StateFolder = Annotated[Path, typer.Option(help="The state folder of the node: where relative locations begin.")]
AsJson = Annotated[bool, typer.Option("--json", help="For tools: JSON.")]


@apps.command("add")
def app_add(files: Apps, state_dir: StateFolder = Path(".nadi"), config: RefsConfig = None, env: Env = None) -> None:
    """Run more apps on a node that runs; the others go on. Exit status 1 where one is not taken.

    The next start of the node does not know of them: `nadi run` names its apps.
    """
    from nadi.cli.apps import add

    raise typer.Exit(add(files, state_dir, env or [], config))


@apps.command("remove")
def app_remove(app: AppName, state_dir: StateFolder = Path(".nadi")) -> None:
    """Stop an app of a node that runs, between two batches; the others go on. What it has on the disk stays."""
    from nadi.cli.apps import remove

    raise typer.Exit(remove(app, state_dir))


@revision.command("create")
def revision_create(
    app: AppName,
    state_dir: StateFolder = Path(".nadi"),
    within: Annotated[float, typer.Option(help="Wait this long, in seconds.")] = 600.0,
) -> None:
    """Make a revision of an app that runs, where its node keeps them."""
    from nadi.cli.revision import create

    raise typer.Exit(create(app, state_dir, within))


@revision.command("list")
def revision_list(
    app: AppName, config: Config = None, state_dir: StateFolder = Path(".nadi"), as_json: AsJson = False
) -> None:
    """List the revisions of an app, newest first."""
    from nadi.cli.revision import show_list

    raise typer.Exit(show_list(app, config, state_dir, as_json))


@revision.command("show")
def revision_show(
    app: AppName,
    name: Annotated[str, typer.Argument(help="A revision; the newest one if left out.")] = "",
    config: Config = None,
    state_dir: StateFolder = Path(".nadi"),
    as_json: AsJson = False,
) -> None:
    """Show what is in a revision: elements, keys, sizes; exit status 1 where it is damaged."""
    from nadi.cli.revision import show_revision

    raise typer.Exit(show_revision(app, name, config, state_dir, as_json))


@revision.command("delete")
def revision_delete(
    app: AppName,
    name: Annotated[str, typer.Argument(help="A revision.")],
    config: Config = None,
    state_dir: StateFolder = Path(".nadi"),
) -> None:
    """Delete a revision, and what only it needs."""
    from nadi.cli.revision import delete

    raise typer.Exit(delete(app, name, config, state_dir))


@cli.command()
def restore(
    app: Annotated[Path, typer.Argument(help="The Siddhi app that is to go on.", exists=True, dir_okay=False)],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would become of the state, and stop.")] = False,
    name: Annotated[str, typer.Option("--revision", help="A revision; the newest good one if left out.")] = "",
    reset: Annotated[bool, typer.Option("--reset", help="Let go of state that does not fit.")] = False,
    config: Config = None,
    state_dir: StateFolder = Path(".nadi"),
    conf: Annotated[list[str] | None, typer.Option(help="key=value, as the node will have them (nadi.…).")] = None,
    as_json: AsJson = False,
    env: Env = None,
) -> None:
    """Put a revision into an app that does not run and may have changed since: its next start goes on from there.

    Exit status 1 where state or messages would be lost without --reset, or messages that it needs are gone.
    """
    if dry_run:
        from nadi.cli.restore import dry_run as plan

        raise typer.Exit(plan(app, name, config, state_dir, conf or [], reset, as_json, env or []))
    from nadi.cli.restore import restore as put

    raise typer.Exit(put(app, name, config, state_dir, conf or [], reset, env or []))


def main() -> None:
    """Entry point: named errors end the command with one message and status 1, never with a stack trace."""
    try:
        with_room(cli)
    except NadiError as failure:
        print(failure, file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
