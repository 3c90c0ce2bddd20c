"""Events from outside for the streams of an app that runs, through its control log: what a simulation sends.

injection = Injection(read_live(state))
position = injection.send([Simulated("In", [1_000], [["IBM"], [75.5]])])      # durable
injection.taken() > position                                                   # whether a batch that is done has it
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from nadi.io.controllog import Simulated
from nadi.io.folderwatch import Watch, watch_folder
from nadi.pipeline.cutting.cutlogs import open_cut_log
from nadi.pipeline.inputs.splitters import make_any_splitter
from nadi.pipeline.live import Live
from nadi.pipeline.ondemand import control_ordinal
from nadi.pipeline.progress import read_progress
from nadi.plan.nodes import Schema


class Injection:
    """See the module's text. `send` may be called from any thread."""

    def __init__(self, live: Live) -> None:
        self._spec = live.spec
        self._state = Path(live.spec.state)
        app = live.spec.plan()
        self._app = app
        self._ordinal = control_ordinal(live.spec, app)
        self._control = live.spec.open_control()
        self._sent = self._seen = 0  # positions: behind what was sent, behind what batches had when they were looked at
        self.streams: Mapping[str, Schema] = {
            key: stream.schema
            for key, stream in app.streams.items()
            if stream.partition is None and not key.startswith("!") and key not in app.triggers and len(stream.schema)
        }

    def problem(self, stream: str) -> str:
        """Why events of a stream cannot be split over the buckets as those that a query makes are; "" where they can."""
        try:
            make_any_splitter(self._app, stream, self.streams[stream], self._spec.buckets)
        except ValueError as reason:
            return str(reason)
        return ""

    def send(self, events: Sequence[Simulated]) -> int:
        """Have events taken, in this order; -> the position of the last record, once all are on the disk. Errors: DISK_FULL."""
        last = self._control.append_simulated(events)
        self._sent = max(self._sent, last + 1)
        return last

    def is_behind(self, most: int) -> bool:
        """Whether more than so many records, of those that were sent from here and all before them, wait for a batch. Batches are looked at only then."""
        if self._sent - self._seen > most:
            self._seen = self.taken()
        return self._sent - self._seen > most

    def taken(self) -> int:
        """Before which position of the control log batches that are done have all records."""
        progress = read_progress(self._state)
        cut = None if progress is None else open_cut_log(self._spec).at(progress.n)
        return 0 if cut is None else cut.ends.get((self._ordinal, 0), 0)

    def watch(self, tell: Callable[[], None]) -> Watch | None:
        """Tell when a batch is done, from another thread, until the watch is closed. None where the machine tells nobody of files."""
        return watch_folder(self._state, tell, "progress.json")
