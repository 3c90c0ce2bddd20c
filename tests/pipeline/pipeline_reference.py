"""What an app must give: its kernel run in this process over the whole input at once."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
from pipeline_testlog import RowMapper, committed

from nadi.io.contract import Messages
from nadi.kernel.contract import GROUP, NUMBER
from nadi.pipeline.engine import make_kernel, plan_app
from nadi.pipeline.inputs.fatrows import gather
from nadi.pipeline.inputs.pieces import Decoding
from nadi.pipeline.inputs.rangereader import Input, Read, read_range
from nadi.pipeline.inputs.ranges import Range
from nadi.pipeline.inputs.splitters import make_splitter

APP = """@app:name('Rises')
@source(type='test', file='{folder}/in', endless='{endless}') define stream In (k string, n long);
@sink(type='test', file='{folder}/out') define stream Out (k string, low long, high long, total long);
partition with (k of In) begin
    from In#window.length(4) select k, n, sum(n) as total insert into #Sums;
    from every e1=#Sums -> e2=#Sums[n > e1.n] select e1.k as k, e1.n as low, e2.n as high, e2.total as total insert into Out;
end;"""


def write_input(path: Path, count: int, seed: int = 1, keys: int = 37) -> None:
    """`count` events with ascending times, in messages of one to three."""
    dice = random.Random(seed)
    lines, at = [], 0
    while at < count:
        size = min(dice.randint(1, 3), count - at)
        rows = [[f"key{dice.randrange(keys)}", dice.randrange(1000)] for _ in range(size)]
        lines.append(f"{1_000_000 + at * 10}\t{json.dumps(rows)}\n")
        at += size
    path.write_text("".join(lines))


class _Lines:
    """The lines of a file as a log, all at once."""

    def __init__(self, path: Path) -> None:
        self.lines = [line.split(b"\t", 1) for line in path.read_bytes().splitlines()]

    def read(self, partition: int, start: int, end: int) -> list[Messages]:
        times = np.array([int(t) for t, _ in self.lines], np.int64)
        return [Messages(np.arange(len(self.lines)), times, [p for _, p in self.lines])]


def expected(
    text: str, path: Path, stream: str = "In", output: str = "Out"
) -> dict[tuple[int, int], tuple[object, ...]]:
    """(key-group, number) → row."""
    app = plan_app(text)
    lines = _Lines(path)
    schema = app.streams[stream].schema
    connector = type("C", (), {"schema": schema, "options": {}})()
    source = Input(lines, Decoding(stream, RowMapper(connector), make_splitter(app, stream, schema, 1)))
    rows = [(r.head, r.body) for r in read_range(source, Range(0, 0, 0, len(lines.lines)), Read())]
    clock = {"k": "clock", "n": 1, "clock": 1 << 50, "started": 0, "ranges": []}
    gathered = gather([*rows, (clock, b"")], {0: stream})
    kernel = make_kernel(app, (output,))
    kernel.start(0)
    batch = kernel.process(gathered.arrivals, gathered.clock).batches[output]
    return _by_number(batch.to_pylist(), app.streams[output].schema.names)


def delivered(folder: Path, names: tuple[str, ...]) -> dict[tuple[int, int], tuple[object, ...]]:
    """What the test sink has; fails where a number came twice or out of order within its key-group."""
    rows = committed(folder)
    seen: dict[int, int] = {}
    for row in rows:
        assert row[NUMBER] == seen.get(row[GROUP], -1) + 1, f"{row} after number {seen.get(row[GROUP], -1)}"
        seen[row[GROUP]] = row[NUMBER]
    return _by_number(rows, names)


def _by_number(rows: list[dict[str, object]], names: tuple[str, ...]) -> dict[tuple[int, int], tuple[object, ...]]:
    return {(r[GROUP], r[NUMBER]): tuple(r[n] for n in (*names, "__ts")) for r in rows}
