"""An app that has run, without Spark: its input, its cut log and what its sink wrote."""

from __future__ import annotations

import json
from pathlib import Path

from nadi.io import registry
from nadi.io.contract import Delivery, Receipt
from nadi.pipeline.cutting.cutlog import CutLog, take_over
from nadi.pipeline.cutting.cuts import Cut
from nadi.pipeline.history.replay import Inputs, Replayer, logged
from nadi.pipeline.spec import AppSpec

APP = """@app:name('Sums')
@source(type='file', file.uri='{folder}/in.jsonl', event.time='ts', file.settle='0', @map(type='json'))
define stream In (ts long, k string, n long);
@sink(type='file', {place}='{folder}/{target}', @map(type='{map}'))
define stream Out (k string, n long, total long);
partition with (k of In) begin
    from In#window.length(3) select k, n, sum(n) as total insert into Out;
end;"""
COUNT = 60
TO_LINES = {"place": "file.uri", "target": "out.jsonl", "map": "json"}


def made(folder: Path, **target: str) -> AppSpec:
    """An app with its input and a cut log of six cuts of ten events, 1000 ms each."""
    rows = [{"ts": 1_000_000 + 100 * i, "k": f"k{i % 4}", "n": i} for i in range(COUNT)]
    (folder / "in.jsonl").write_text("".join(json.dumps({"event": row}) + "\n" for row in rows))
    text = APP.format(folder=folder, **(target or TO_LINES))
    spec = AppSpec("Sums", text, str(folder / "state" / "Sums"), buckets=2, outputs=("Out",))
    (source,) = registry.connectors(spec.load_engine().plan_app(text), "source")
    assert spec.open_log(source).end(0) == COUNT  # the file becomes a part of the log
    log = CutLog(spec.place.state / "cuts", take_over(spec.place.state / "cuts"))
    log.append(Cut(0, 1, 0, 0, {(0, 0): 0}))
    for n in range(1, 7):
        high = {} if n == 1 else {(0, 0): 1_000_000 + 1000 * (n - 1) - 100}
        log.append(Cut(n, 1, 1_000_000 + 1000 * n - 100, 1_000_000, {(0, 0): 10 * n}, {}, high))
    return spec


def live(spec: AppSpec, cuts: int = 6) -> None:
    """Write what the app emits through its sink, as the write stage does."""
    replayer = Replayer(spec)
    (sink,) = registry.connectors(replayer.app, "sink")
    mapper, opened = registry.make_sink_mapper(sink), registry.open_sink(sink, spec.place)
    receipts: dict[int, list[Receipt]] = {n: [] for n in range(1, cuts + 1)}
    with Inputs(spec) as inputs:
        for emitted in replayer.all(inputs, list(logged(CutLog(spec.place.state / "cuts", 0)))[:cuts]):
            if (batch := emitted.batches.get("Out")) is not None:
                delivery = Delivery(emitted.bucket, emitted.cut.n, batch, *mapper.encode(batch))
                receipts[emitted.cut.n].append(opened.write(delivery))
    for n, written in receipts.items():
        opened.commit(n, written)
