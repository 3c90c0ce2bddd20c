"""`nadi restore`: a revision into the state folder of an app, changed or not; its next start goes on from there. `--dry-run` only tells what it would do."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from nadi.cli.revision import chosen, deployed, opened, print_plan
from nadi.cli.run import read_app
from nadi.cli.settings import settings
from nadi.io.natsserver import NatsServer
from nadi.pipeline.admission import needs_journal
from nadi.pipeline.engine import plan_app
from nadi.pipeline.live import read_live
from nadi.pipeline.node import NodeOptions, is_locked, node_lock, spec_to_restore
from nadi.pipeline.revision.inputplan import BEGINS, DROPPED, GOES_ON, InputPlan
from nadi.pipeline.revision.restore import Planned, plan, prepare
from nadi.pipeline.spec import AppSpec
from nadi.plan.nodes import App

_STYLES = {GOES_ON: "green", BEGINS: "cyan", DROPPED: "red"}


def restore(
    path: Path, name: str, config: Path | None, state: Path, conf: Sequence[str], reset: bool, env: Sequence[str] = ()
) -> int:
    """Put a revision ("": the newest good one) into the app in a file; -> exit status.

    Errors: those of the app's text and of the store, NODE_LOCKED, RESTORE_DROPS_STATE, RESTORE_DROPS_INPUT, MESSAGES_GONE, RESTORE_NOT_POSSIBLE.
    """
    text = read_app(path, env, deployed(config, state).refs)
    app = plan_app(text.text, text.variables)
    options = NodeOptions(state, conf=settings(conf))
    with opened(config, state) as store, node_lock(state):
        stored = chosen(store, app.name, name)
        spec = spec_to_restore(text, app, options, os.cpu_count() or 1, stored.buckets)
        with _with_journal(spec, (app, plan_app(stored.revision.meta.text, text.variables))) as reachable:
            done = prepare(reachable, stored, reset)
    print_plan(done.plan, stored.revision.name)
    print_inputs(done.inputs)
    again = f", {done.again} cuts are taken again" if done.again else ""
    print(f"the next start of {app.name} goes on after cut {done.cut.n}{again}")
    return 0


def dry_run(
    path: Path,
    name: str,
    config: Path | None,
    state: Path,
    conf: Sequence[str],
    reset: bool,
    as_json: bool,
    env: Sequence[str] = (),
) -> int:
    """Print what a restore of a revision ("": the newest good one) into the app in a file would do; -> exit status, 1 where it would be refused.

    Errors: those of the app's text, REVISION_NOT_FOUND, REVISION_DAMAGED, NO_GOOD_REVISION, those of the store.
    """
    text = read_app(path, env, deployed(config, state).refs)
    app = plan_app(text.text, text.variables)
    options = NodeOptions(state, conf=settings(conf))
    with opened(config, state) as store:
        stored = chosen(store, app.name, name)
        spec = spec_to_restore(text, app, options, os.cpu_count() or 1, stored.buckets)
        with _beside(spec, (app, plan_app(stored.revision.meta.text, text.variables))) as reachable:
            planned = plan(reachable, stored)
    revision = stored.revision.name
    if as_json:
        rows = [dict(zip(("element", "keeps", "fate", "reason"), row, strict=True)) for row in planned.state.table()]
        inputs = [{"input": f.name, "fate": f.fate, "reason": f.reason} for f in planned.inputs.fates]
        print(json.dumps({"revision": revision, "elements": rows, "inputs": inputs}, ensure_ascii=False, indent=2))
    else:
        print_plan(planned.state, revision)
        print_inputs(planned.inputs)
    refused = _refused(planned, reset)
    if refused and not as_json:
        print("\n".join(refused))
    return 1 if refused else 0


def _refused(planned: Planned, reset: bool) -> list[str]:
    """Why the restore would be refused."""
    said = []
    if planned.state.dropped and not reset:
        said.append(f"{len(planned.state.dropped)} elements would lose their state: it takes --reset")
    if planned.inputs.losing and not reset:
        said.append(f"{len(planned.inputs.losing)} inputs would leave messages unread: it takes --reset")
    if any(f.missing for f in planned.inputs.fates):
        said.append("messages that it needs are gone: it takes a newer revision")
    return said


def print_inputs(inputs: InputPlan) -> None:
    """What becomes of each input; nothing where there are none."""
    if not inputs.fates:
        return
    table = Table("input", "", "how")
    for f in inputs.fates:
        table.add_row(escape(f.name), f"[{_STYLES[f.fate]}]{f.fate}[/]", escape(f.reason))
    Console().print(table)


@contextmanager
def _with_journal(spec: AppSpec, apps: Sequence[App]) -> Iterator[AppSpec]:
    """With the journal that the node would have, for as long as it is asked; where there is none yet, with an empty one. The caller holds the state folder."""
    if spec.journal or not any(needs_journal(app, spec.load_connectors()) for app in apps):
        yield spec
        return
    folder = spec.place.state.parent / "nats"
    with TemporaryDirectory() as empty, NatsServer(folder if folder.is_dir() else Path(empty)) as server:
        yield replace(spec, journal=server.url)


@contextmanager
def _beside(spec: AppSpec, apps: Sequence[App]) -> Iterator[AppSpec]:
    """Likewise, beside a node that may run."""
    state = spec.place.state.parent
    live = read_live(spec.place.state)
    if live is not None:
        yield replace(spec, journal=live.spec.journal)
    elif is_locked(state) or not state.is_dir():
        yield spec
    else:
        with ExitStack() as held:
            held.enter_context(node_lock(state))
            yield held.enter_context(_with_journal(spec, apps))
