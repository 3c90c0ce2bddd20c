"""`nadi run`: apps on Spark until they end or Ctrl-C; exit status 0 (ended or stopped), 1 (an app failed), 130 (stopped at once)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nadi.cli.apptext import app_text
from nadi.cli.interrupts import stops
from nadi.cli.panel import screen
from nadi.cli.profile import print_profile
from nadi.cli.settings import settings
from nadi.config.deployment import Deployment, read_deployment, state_lookups
from nadi.config.variables import variables_of
from nadi.errors import NadiError
from nadi.lang.refs import Refs
from nadi.pipeline.node import AppProgress, AppText, ExitReport, NodeOptions
from nadi.pipeline.profile import read_profile
from nadi.pipeline.run import Node


def read_app(path: Path, env: Sequence[str] = (), refs: Refs | None = None) -> AppText:
    """The text of a file with the variables of `--env`, and each `ref='name'` by what `refs` has of this name.

    Errors: APP_NOT_READABLE, VARIABLE_NOT_IN_ENVIRONMENT, VARIABLE_NOT_SET, VARIABLE_NOT_PLAIN, REF_UNKNOWN, REF_OF_ANOTHER_TYPE.
    """
    return AppText.of(app_text(path), variables_of(env), str(path), refs)


def summary(report: ExitReport) -> list[str]:
    """What to say at the end, per app."""
    lines = []
    for ended in report.apps:
        p: AppProgress = ended.progress
        counts = f"{sum(p.events_in.values()):,} events in, {sum(p.events_out.values()):,} out"
        store = f", {p.errors:,} in the error store (nadi errors {ended.app})" if p.errors else ""
        lines.append(f"{ended.app}: {ended.state}, {counts}{store}")
        if ended.error is not None:
            lines.append(str(ended.error))
    return lines


def run(
    apps: Sequence[Path],
    master: str,
    state: Path,
    conf: Sequence[str],
    until_end: bool,
    config: Path | None = None,
    profile: bool = False,
    env: Sequence[str] = (),
) -> int:
    """Run apps; -> exit status. `profile` notes where the time goes, for `nadi profile` and for the end."""
    deployment = Deployment() if config is None else read_deployment(config, state_lookups(state))
    texts = [read_app(path, env, deployment.refs) for path in apps]
    kept = deployment.persistence, deployment.error_store
    options = NodeOptions(
        state, master, settings(conf), until_end, *kept, profile=profile, sources=deployment.sources_of_apps
    )
    shown = screen()
    try:
        with shown:
            node = Node(texts, options, shown.show)
            with stops(node.request_stop, shown.say, "stopping after this batch"):
                shown.say(f"starting Spark ({master}); state in {state}, Spark's log in {state / 'logs'}")
                report = node.run()
    except NadiError as failure:
        shown.say(str(failure))
        return 1
    for line in summary(report):
        shown.say(line)
    if profile:
        for ended in report.apps:
            if (found := read_profile(state / ended.app)) is not None:
                print_profile(found, runs=False)
    return 1 if report.failed else 0
