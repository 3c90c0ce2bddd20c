"""Revisions of the instances of a worker: made when the leader asks, begun with where it says so."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace

from nadi.errors import error
from nadi.pipeline import engine
from nadi.pipeline.cutting.standings import shapes
from nadi.pipeline.node import AppText, NodeOptions, spec_to_restore
from nadi.pipeline.revision.firstbase import Wish, begin_aside, is_done
from nadi.pipeline.revision.revisions import ask_for
from nadi.server.apps import AppNotThere

MADE_WITHIN = 600.0  # seconds for a revision


class InstanceRevisions:
    """Both may be called from any thread, and wait until it is done. `runs` is whether an instance of a name is active, `folder_of` what its
    folder is called in the node's state folder."""

    def __init__(
        self, options: NodeOptions, runs: Callable[[str], bool], folder_of: Callable[[str], str] = lambda name: name
    ) -> None:
        self._options = options
        self._runs = runs
        self._folder_of = folder_of

    def backup(self, instance: str) -> str:
        """Make a revision of what an instance has committed, and read it back whole; -> its name.

        Errors: NO_PERSISTENCE_STORE, APP_NOT_RUNNING, REVISION_FAILED, ANSWER_LATE; AppNotThere.
        """
        self._check()
        if not self._runs(instance):
            raise AppNotThere
        return ask_for(self._options.state / self._folder_of(instance), MADE_WITHIN)

    def begin(self, text: AppText, revision: str, since: int) -> None:
        """Put a revision in the place of the state of an instance that does not run, unless that was done (`nadi.pipeline.revision.firstbase`).

        Errors: NO_PERSISTENCE_STORE, RESTORE_NOT_POSSIBLE; those of the text.
        """
        options = self._options
        spec = spec_to_restore(text, text.planned(engine), options, os.cpu_count() or 1, 1)
        if is_done(spec, since):
            return  # as each later start finds
        self._check()
        spec = replace(spec, inputs=shapes(spec.cuts, [spec.identity]).get(spec.identity, {}))
        begin_aside(Wish(spec, options.persistence, str(options.state.resolve()), revision, since))

    def _check(self) -> None:
        if not self._options.persistence.enabled:
            raise error("NO_PERSISTENCE_STORE", reason="'state.persistence' is not enabled on this worker")
