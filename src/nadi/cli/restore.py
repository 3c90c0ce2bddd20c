"""`nadi restore`: a revision into the state folder of an app, changed or not; its next start goes on from there."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from nadi.cli.revision import chosen, opened, print_plan
from nadi.cli.run import read_app, settings
from nadi.pipeline.engine import plan_app
from nadi.pipeline.node import NodeOptions, spec_to_restore
from nadi.pipeline.restore import prepare


def restore(path: Path, name: str, config: Path | None, state: Path, conf: Sequence[str], reset: bool) -> int:
    """Put a revision ("": the newest good one) into the app in a file; -> exit status.

    Errors: those of the app's text and of the store, NODE_LOCKED, RESTORE_DROPS_STATE, RESTORE_NOT_POSSIBLE.
    """
    text = read_app(path)
    app = plan_app(text.text)
    options = NodeOptions(state, conf=settings(conf))
    with opened(config, state) as store:
        stored = chosen(store, app.name, name)
        spec = spec_to_restore(text, app, options, os.cpu_count() or 1, stored.buckets)
        done = prepare(spec, stored, reset)
    print_plan(done.plan, stored.revision.name)
    again = f", {done.again} cuts are taken again" if done.again else ""
    print(f"the next start of {app.name} goes on after cut {done.cut.n}{again}")
    return 0
