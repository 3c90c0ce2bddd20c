"""A state folder and a store of revisions that apps go on in, without Spark: as often as a test wants, with one text or another.

home = Home(tmp_path, patch)
home.run(text)                  # to where nothing more comes
home.revise(text)               # a revision of where it stands, or of an earlier cut
home.restore(other_text)
home.run(other_text)
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pipeline_local import LocalNode

from nadi.persistence.files import FileStore
from nadi.persistence.revisions import meta_of, newest_good, read_revision, write_revision
from nadi.pipeline.cutting.cutlogs import open_cut_log
from nadi.pipeline.engine import plan_app
from nadi.pipeline.history.replay import Inputs, Replayer, logged
from nadi.pipeline.node import AppText, NodeOptions, make_spec, spec_to_restore
from nadi.pipeline.revision import restore
from nadi.pipeline.spec import AppSpec


class Home:
    """`conf` is that of the node, `journal` the URL of its journal."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, journal: str = "", **conf: str) -> None:
        self.folder, self._patch, self._journal = folder, patch, journal
        named = {f"nadi.{name}": value for name, value in conf.items()}
        self.options = NodeOptions(folder / "state", conf=named)
        self.store = FileStore(folder / "revisions")
        self._now = 1_700_000_000_000

    def spec(self, text: str) -> AppSpec:
        """As the node makes it."""
        return make_spec(AppText(text), plan_app(text), self.options, 2, self._journal)

    def run(self, text: str) -> int:
        """Run to where nothing more comes; how many batches that took."""
        spec = self.spec(text)
        node = LocalNode(replace(spec, order_idle=0), self._patch)
        try:
            return node.run()
        finally:
            node.close()

    def revise(self, text: str, at: int | None = None, keep: int | None = None) -> str:
        """Write a revision of the state after a cut, by default the last one; its name."""
        spec = self.spec(text)
        replayer = Replayer(spec)
        with Inputs(spec) as inputs:
            for before, cut in logged(open_cut_log(spec)):
                if at is not None and cut.n > at:
                    break
                replayer.take(cut, inputs.read(before, cut))
                last = cut
        self._now += 60_000
        states = [kernel.dump() for kernel in replayer.kernels]
        return write_revision(
            self.store, meta_of(replayer.app, last.to_offset(), "", spec.inputs), states, self._now, keep
        )

    def restore(self, text: str, name: str = "", reset: bool = False) -> restore.Prepared:
        """Put a revision into the state folder."""
        app = plan_app(text)
        stored = read_revision(self.store, app.name, name) if name else newest_good(self.store, app.name)[0]
        assert stored is not None
        spec = spec_to_restore(AppText(text), app, self.options, 2, stored.buckets)
        done = restore.prepare(replace(spec, journal=self._journal), stored, reset)
        self._before = None
        return done


def rows(path: Path) -> list[dict[str, Any]]:
    """What a file sink with JSON lines has."""
    return [json.loads(line)["event"] for line in path.read_text().splitlines()] if path.exists() else []
