"""The node of the suite `state`: its input is paced, its batches are noted while it runs, and so is what each bucket told of each cut.

python -m bench.state_node PLAN, as `bench.node`; it is killed, so nothing may be kept until its end.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from bench import timed
from bench.batches import Watch
from bench.node import SPARK_CONF, tell
from bench.pace import PacedCutMaker
from bench.plan import spark_only
from nadi.pipeline.hosting.hostclient import hosts
from nadi.pipeline.node import AppProgress, AppText, NodeOptions, make_spec, node_lock
from nadi.pipeline.run import end_session
from nadi.pipeline.session import SessionOptions, build_session, driver_jvm
from nadi.pipeline.stoprequest import StopRequest
from nadi.pipeline.supervisor import supervise


class StatePlan(msgspec.Struct, frozen=True):
    """What the node has to do: an app, as the file `pace` says (`bench.pace`); batches are noted in the file `batches`."""

    state: str
    text: str
    pace: str
    batches: str
    master: str
    conf: dict[str, str] = {}


class StateWatch(Watch):
    """Notes what buckets tell, and appends batches to a file, each once."""

    def __init__(self, plan: StatePlan) -> None:
        super().__init__(partial(PacedCutMaker, path=Path(plan.pace)))
        self._path = Path(plan.batches)
        self._seen = -1

    def committed(self, n: int, buckets: Sequence[Mapping[str, Any]]) -> None:
        super().committed(n, buckets)
        for told in buckets:
            timed.stopwatch().note("bucket", time.time(), 0.0, **bucket_counts(told))

    def note(self) -> None:
        """Append those batches that are new."""
        fresh = [b for b in self.batches() if b.id > self._seen]
        if fresh:
            self._seen = fresh[-1].id
            with self._path.open("ab") as out:
                out.write(b"".join(msgspec.json.encode(b) + b"\n" for b in fresh))


def bucket_counts(told: Mapping[str, Any]) -> dict[str, Any]:
    """What is noted of what a bucket told: `delta` and `base` are bytes that were written of what counts from this cut on."""
    names = ("bucket", "cut", "loading", "memory", "snapshot", "state_bytes")
    delta, base = told["piece"], told["base"]
    _piece, _cut, size, written, wait, _others = base or (None, 0, 0, 0, 0, ())
    lengths = {"delta": delta[2] if delta else 0, "base": written, "base_size": size, "base_wait": wait}
    return {name: told[name] for name in names} | lengths | {"events": sum(told["in"].values())}


def main() -> int:
    plan = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=StatePlan)
    # the last batches are all that is asked for twice a second
    conf = {**SPARK_CONF, "spark.sql.streaming.numRecentProgressUpdates": "50", **spark_only(plan.conf)}
    session = build_session(SessionOptions(plan.master, Path(plan.state) / "logs", conf, "nadi bench"))
    try:
        count, jvm = os.cpu_count() or 1, driver_jvm(session)
        ready = hosts(count, jvm)
        for index in range(count):
            ready.call(index, {"op": "ping"})
        tell("ready", jvm=jvm, t=time.time())
        watch = StateWatch(plan)
        options = NodeOptions(
            Path(plan.state), plan.master, plan.conf, until_end=True, engine="bench.timed", connectors="bench.timed"
        )
        spec = make_spec(AppText(plan.text), timed.plan_app(plan.text), options, count, "")

        def show(p: AppProgress) -> None:
            watch.note()
            counts = {"in": sum(p.events_in.values()), "out": sum(p.events_out.values())}
            tell("running", batches=p.batches, error=p.last_error, state=p.state_bytes, **counts)

        with node_lock(options.state), watch.noting():  # whoever asks for a revision looks for the lock
            stop = StopRequest()
            (ended,) = supervise(session, [spec], options, stop, show, watch.start, watch.make_cuts).apps
        watch.note()
        told = {"state": ended.state, "error": str(ended.error or ""), "restarts": ended.progress.restarts}
        tell("ended", **told, errors=ended.progress.errors, out=sum(ended.progress.events_out.values()))
    finally:
        end_session(session)
    return 0


if __name__ == "__main__":
    sys.exit(main())
