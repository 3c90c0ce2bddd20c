"""The demo's flights as input of tests: stretches of them, and what the in-process runtime makes of them."""

from __future__ import annotations

import csv
import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from nadi.lang import substitute
from nadi.runtime.runtime import Runtime

EXAMPLE = Path(__file__).parents[2] / "examples" / "flights"
DEMO = EXAMPLE / "delays.siddhi"

SHARDED = """@app:name('Lines')
-- Everything is kept by the airline at its airport, so that this app has several buckets.
@source(type = 'file', file.uri = '${FLIGHTS}', event.time = 'ts', @map(type = 'csv', header = 'true'))
define stream Departures (ts long, line string, carrier string, flight int, tailnum string, origin string, dest string, delay int, distance int);

@sink(type = 'file', file.uri = '${FOUND}', @map(type = 'json'))
define stream Found (line string, kind string, ts long, value double);

partition with (line of Departures)
begin
  from every e1=Departures[delay > 20], e2=Departures[delay > e1.delay + 10]<1:3>, e3=Departures[delay < 0] within 6 hours
  select e3.line as line, 'recovered' as kind, e3.ts as ts, convert(e1.delay, 'double') as value
  insert into Found;

  from Departures#window.time(1 hour)
  select line, 'busy' as kind, ts, avg(delay) as value, count() as departures
  having departures >= 12L
  insert into #Busy;

  from #Busy select line, kind, ts, value insert into Found;

  from Departures#window.lengthBatch(50)
  select line, 'fifty' as kind, ts, avg(delay) as value
  insert into Found;
end;
"""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Some flights in a row and the weather of their time, as files and as rows (stream → rows)."""

    files: Mapping[str, str]
    rows: Mapping[str, Sequence[tuple[Any, ...]]]

    @property
    def size(self) -> int:
        return sum(map(len, self.rows.values()))


def year(folder: Path) -> tuple[Path, Path]:
    """The files of the whole year."""
    spec = importlib.util.spec_from_file_location("flights_prepare", EXAMPLE / "prepare.py")
    assert spec is not None
    assert spec.loader is not None
    prepare = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(prepare)
    return prepare.prepare(folder)


def stretch(whole: tuple[Path, Path], folder: Path, first: int = 0, size: int = 1 << 30) -> Stretch:
    """`size` flights from number `first` on, and the weather from two hours before the first to the last of them."""
    folder.mkdir()
    flights, weather = (path.read_text().splitlines(keepends=True) for path in whole)
    taken = flights[1 + first : 1 + first + size]
    begin, end = int(taken[0].split(",", 1)[0]) - 7_200_000, int(taken[-1].split(",", 1)[0])
    fitting = [line for line in weather[1:] if begin <= int(line.split(",", 1)[0]) <= end]
    (folder / "flights.csv").write_text("".join([flights[0], *taken]))
    (folder / "weather.csv").write_text("".join([weather[0], *fitting]))
    files = {"FLIGHTS": str(folder / "flights.csv"), "WEATHER": str(folder / "weather.csv")}
    return Stretch(
        files,
        {
            "Departures": list(_rows(Path(files["FLIGHTS"]), "lsslsssll")),
            "Weather": list(_rows(Path(files["WEATHER"]), "lsdddd")),
        },
    )


def _rows(path: Path, types: str) -> Iterator[tuple[Any, ...]]:
    makers = [{"l": int, "d": float, "s": str}[t] for t in types]
    with path.open(newline="") as file:
        for row in list(csv.reader(file))[1:]:
            yield tuple(None if text == "" else make(text) for make, text in zip(makers, row, strict=True))


def in_process(text: str, given: Stretch, streams: Sequence[str], output: str) -> list[dict[str, Any]]:
    """What the runtime in this process makes of the rows, one event at a time, merged by (time, input, position)."""
    names = {"ALERTS": "-", "FOUND": "-", **given.files}
    app = Runtime(substitute(text, names))
    columns = app.app.streams[output].schema.names
    rows: list[dict[str, Any]] = []
    app.on_stream(output, lambda chunk: rows.extend(dict(zip(columns, event.row, strict=True)) for event in chunk))
    merged = sorted(
        (row[0], i, at, name, row) for i, name in enumerate(streams) for at, row in zip(count(), given.rows[name])
    )
    app.start(merged[0][0])
    for ts, _, _, name, row in merged:
        app.advance_to(ts)
        app.send(name, [(ts, row)])
    assert not app.failures
    return rows


def by_key(rows: Sequence[Mapping[str, Any]], key: str) -> dict[Any, list[Mapping[str, Any]]]:
    """Rows per key, in their order."""
    found: dict[Any, list[Mapping[str, Any]]] = {}
    for row in rows:
        found.setdefault(row[key], []).append(row)
    return found
