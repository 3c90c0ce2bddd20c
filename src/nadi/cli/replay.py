"""`nadi replay`: what an app emitted, made again from its logs beside it; exit status 1 where a sink that can be read back holds something else."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import typer

from nadi.cli.query import known_apps
from nadi.cli.revision import deployed, opened
from nadi.cli.run import read_app
from nadi.cli.settings import settings
from nadi.errors import error
from nadi.errors.readable import readable
from nadi.io.natsserver import NatsServer
from nadi.lang.refs import Refs
from nadi.persistence.revisions import read_revision
from nadi.pipeline.admission import needs_journal
from nadi.pipeline.cutting.cutlogs import open_cut_log
from nadi.pipeline.engine import plan_app
from nadi.pipeline.history.replaystart import named_start, newest_start
from nadi.pipeline.history.rerun import Edge, Report, Stretch, rerun
from nadi.pipeline.live import read_live
from nadi.pipeline.node import NodeOptions, make_spec, node_lock
from nadi.pipeline.spec import AppSpec

_REVISION = re.compile(r"\d+__.+", re.DOTALL)
EARLIEST_MS = 100_000_000_000
"""A whole number below this is a cut, from it on a time: as ms it is a day in 1973."""


def replay(
    app: str,
    first: str,
    last: str,
    output: Path,
    state: Path,
    conf: Sequence[str],
    config: Path | None = None,
    env: Sequence[str] = (),
) -> int:
    """Replay a stretch of an app's history into a file; -> exit status. `config`: the deployment.yaml of its node, which says where revisions are and has refs.

    Errors: NO_STATE, APP_NOT_RUNNING (a name was given and no node runs it), LOG_TRUNCATED, CUTS_TRIMMED, REVISION_NOT_FOUND, REVISION_NOT_REPLAYABLE,
    REVISION_DAMAGED, those of the app.
    """
    named = _REVISION.fullmatch(first) is not None
    begin = None if named else edge("--from", first)
    end = edge("--to", last)
    refs = deployed(config, state).refs
    with described(app, state, settings(conf), env, refs) as spec, opened(config, state) as store:
        cuts = open_cut_log(spec)
        start = None
        if named:
            start = named_start(spec, read_revision(store, spec.app, first), cuts)
            begin = Edge(start.cut.n + 1)
        elif begin is not None:
            start, problems = newest_start(spec, store, begin, cuts)
            for problem in problems:
                print(problem)
        with output.open("wb") as out:
            report = rerun(spec, Stretch(begin, end), out, start)
    for line in told(spec.app, report, output):
        print(readable(line))
    return 1 if report.differs else 0


def edge(option: str, text: str) -> Edge | None:
    """A cut or a time; None for no text.

    >>> edge("--from", "17"), edge("--from", "1970-01-01T00:01:00Z"), edge("--from", "")
    (Edge(value=17, is_time=False), Edge(value=60000, is_time=True), None)
    """
    if not text:
        return None
    if text.isdecimal():
        return Edge(int(text), int(text) >= EARLIEST_MS)
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        wanted = "the number of a cut, the name of a revision, a time as 2026-11-21T15:00:00Z (UTC where no zone is given), or ms since 1970"
        raise typer.BadParameter(f"'{text}' is not {wanted}", param_hint=option) from None
    zoned = read if read.tzinfo is not None else read.replace(tzinfo=UTC)
    return Edge(int(zoned.timestamp() * 1000), True)


@contextmanager
def described(
    app: str, state: Path, conf: dict[str, str], env: Sequence[str] = (), refs: Refs | None = None
) -> Iterator[AppSpec]:
    """The app by its name, where it runs, or by its file; with its journal, which is started for the time where no node runs."""
    path = Path(app)
    if not path.is_file():
        yield _running(app, state)
        return
    text = read_app(path, env, refs)
    options = NodeOptions(state, conf=conf)
    planned = plan_app(text.text, text.variables)
    if not (state / planned.name).is_dir():
        raise error("NO_STATE", app=planned.name, folder=state, hint=known_apps(planned.name, state))
    spec = make_spec(text, planned, options, os.cpu_count() or 1, options.settings().journal_url)
    live = read_live(state / spec.app)
    if live is not None:
        yield replace(spec, journal=live.spec.journal)
    elif spec.journal or not needs_journal(planned, spec.load_connectors()):
        yield spec
    else:
        with node_lock(state), NatsServer(state.resolve() / "nats") as server:
            yield replace(spec, journal=server.url)


def _running(app: str, state: Path) -> AppSpec:
    folder = state / app
    if not folder.is_dir():
        raise error("NO_STATE", app=app, folder=state, hint=known_apps(app, state))
    live = read_live(folder)
    if live is None:
        raise error("APP_NOT_RUNNING", app=app, folder=state)
    return live.spec


def told(app: str, report: Report, output: Path) -> list[str]:
    """What to say of a replay."""
    if not report.first:
        return [f"{app}: no cut lies there, {output} is empty"]
    what = f"{report.events:,} events in, {report.rows:,} rows out, in {output}"
    said = [f"{app}: cuts {report.first} to {report.last} replayed, {what}"]
    if report.begun:
        said.append(f"its state was that of a revision, after cut {report.begun}")
    if report.failures or report.undecodable:
        said.append(f"{report.failures:,} events could not be processed, {report.undecodable:,} messages not decoded")
    return said + [f"{sink.sink}: {sink.said}" for sink in report.sinks]
