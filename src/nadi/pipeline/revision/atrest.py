"""What a node does with the state of an app that it has stopped and is about to start again: a revision is put into it, or it is let go of."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Sequence

from nadi.persistence.revisions import newest_good, read_revision
from nadi.persistence.stores import store_of
from nadi.pipeline.cutting.cutlogs import open_commit_log
from nadi.pipeline.cutting.restored import FOLDER as RESTORED
from nadi.pipeline.cutting.restored import settle
from nadi.pipeline.engine import plan_app
from nadi.pipeline.node import AppText, NodeOptions, spec_to_restore
from nadi.pipeline.revision.restore import prepare
from nadi.pipeline.revision.update import FOLDER, revision_of, standing
from nadi.pipeline.shape import read_text
from nadi.plan.nodes import App

JournalFor = Callable[[Sequence[App]], str]
"""The URL of the journal that some apps need, "" where they need none."""


def put_revision(text: AppText, app: App, options: NodeOptions, journal_for: JournalFor, name: str, reset: bool) -> str:
    """Put a revision ("": the newest good one) into an app that does not run; -> its name. The caller holds the state folder.

    Errors: REVISION_NOT_FOUND, REVISION_DAMAGED, NO_GOOD_REVISION, those of `nadi.pipeline.revision.restore.prepare`.
    """
    store = store_of(options.persistence, options.state)
    try:
        stored = None if name else newest_good(store, app.name)[0]
        stored = stored or read_revision(store, app.name, name or None)
        spec = spec_to_restore(text, app, options, os.cpu_count() or 1, stored.buckets)
        journal = journal_for([app, plan_app(stored.revision.meta.text, text.variables)])
        settle(spec)
        prepare(dataclasses.replace(spec, journal=spec.journal or journal), stored, reset)
        return stored.revision.name
    finally:
        store.close()


def let_go(text: AppText, app: App, options: NodeOptions, journal_for: JournalFor) -> None:
    """Empty the state of an app that does not run; its inputs go on where they stood. The caller holds the state folder.

    Errors: those of `nadi.pipeline.revision.restore.prepare`.
    """
    before = read_text(options.state / (text.home or app.name))
    if not before:
        return
    of_before = dataclasses.replace(text, text=before)  # connections are those of today
    old = plan_app(before, text.variables)
    spec = standing(of_before, old, options, journal_for([old]))
    settle(spec)
    state = spec.place.state
    if open_commit_log(spec).recovered() is None and not (state / RESTORED).exists():
        return  # nothing was committed, so there is nothing to let go of
    with revision_of(spec, state / FOLDER) as stored:
        prepare(spec, stored, reset=True, emptied=True)
