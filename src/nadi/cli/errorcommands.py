"""`nadi errors list | show | replay | purge` and their options; what they do is in `nadi.cli.errors`, imported when needed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup


class OrList(TyperGroup):
    """`nadi errors APP` is `nadi errors list APP`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            args = ["list", *args]
        return super().parse_args(ctx, args)


errors = typer.Typer(
    name="errors",
    help="What an app could not take: list it, show it, send it again, forget it.",
    cls=OrList,
    no_args_is_help=True,
)

App = Annotated[str, typer.Argument(help="The name of an app, or its state folder.")]
Ids = Annotated[list[str] | None, typer.Argument(help="Rows, by their ids.")]
State = Annotated[Path, typer.Option("--state-dir", help="The state folder of the node.")]
Config = Annotated[
    Path | None,
    typer.Option(
        help="A deployment.yaml, where its error.store is a database and the app does not run.", dir_okay=False
    ),
]
Origin = Annotated[str, typer.Option(help="source, query or sink.")]
Stream = Annotated[str, typer.Option(help="Of this stream.")]
Since = Annotated[str, typer.Option(help="From this time on: 2026-11-21T15:00:00Z, or ms since 1970.")]
Until = Annotated[str, typer.Option(help="Before this time.")]
All = Annotated[bool, typer.Option("--all", help="All that the filters leave.")]
AsJson = Annotated[bool, typer.Option("--json", help="For tools: JSON.")]


@errors.command("list")
def list_(
    app: App,
    origin: Origin = "",
    stream: Stream = "",
    since: Since = "",
    until: Until = "",
    limit: Annotated[int, typer.Option(help="The newest ones, so many; 0: all.", min=0)] = 0,
    as_json: AsJson = False,
    state_dir: State = Path(".nadi"),
    config: Config = None,
) -> None:
    """List what an app could not take: undecodable messages, failed events, refused payloads, with reason and position."""
    from nadi.cli.errors import opened, show_list, wanted_of

    wanted = wanted_of((), origin, stream, since, until)
    raise typer.Exit(show_list(opened(app, state_dir, config), wanted, limit, as_json))


@errors.command()
def show(
    app: App,
    id_: Annotated[str, typer.Argument(metavar="ID", help="A row.")],
    as_json: AsJson = False,
    state_dir: State = Path(".nadi"),
    config: Config = None,
) -> None:
    """Show one row, with its whole payload."""
    from nadi.cli.errors import opened, show_row

    raise typer.Exit(show_row(opened(app, state_dir, config), id_, as_json))


@errors.command()
def replay(
    app: App,
    ids: Ids = None,
    all_: All = False,
    origin: Origin = "",
    stream: Stream = "",
    since: Since = "",
    until: Until = "",
    again: Annotated[bool, typer.Option("--again", help="Also what was sent again before.")] = False,
    payload: Annotated[
        str | None, typer.Option(help="Send this instead, for one row: text, @file, or - for the standard input.")
    ] = None,
    within: Annotated[float, typer.Option(help="How many seconds to wait until it is done.")] = 30.0,
    state_dir: State = Path(".nadi"),
    config: Config = None,
) -> None:
    """Send rows again, once, through the app, which must run: messages to their stream, events to theirs, payloads to their sink."""
    from nadi.cli.errors import opened
    from nadi.cli.errors import replay as send

    wanted = chosen(ids or [], all_, origin, stream, since, until)
    if payload is not None and len(ids or ()) != 1:
        raise typer.BadParameter("it stands for the payload of one row: name one", param_hint="--payload")
    one_by_one = None if ids else wanted
    done = send(opened(app, state_dir, config), ids or [], one_by_one, again=again, payload=payload, within=within)
    raise typer.Exit(done)


@errors.command()
def purge(
    app: App,
    ids: Ids = None,
    all_: All = False,
    origin: Origin = "",
    stream: Stream = "",
    since: Since = "",
    until: Until = "",
    state_dir: State = Path(".nadi"),
    config: Config = None,
) -> None:
    """Forget rows; says how many. Safe beside the running app."""
    from nadi.cli.errors import opened
    from nadi.cli.errors import purge as forget

    wanted = chosen(ids or [], all_, origin, stream, since, until)
    raise typer.Exit(forget(opened(app, state_dir, config), wanted))


def chosen(ids: list[str], all_: bool, origin: str, stream: str, since: str, until: str) -> Any:
    """Which rows are meant: ids, or all that the filters leave, and not neither."""
    from nadi.cli.errors import wanted_of

    filters = any((origin, stream, since, until))
    if ids and (all_ or filters):
        raise typer.BadParameter("name rows, or choose with --all and filters, not both", param_hint="ID")
    if not ids and not all_ and not filters:
        raise typer.BadParameter("name rows, or say --all or a filter", param_hint="ID")
    return wanted_of(ids, origin, stream, since, until)
