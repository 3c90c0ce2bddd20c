"""The app of the kill test of a cluster, and what it must give: the same app in this process, fed with what the journal has."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from nadi.testing.app import AppUnderTest

Row = tuple[Any, ...]

NAME = "Chaos"
SOURCE = "Chaos-filter-1"
"""The instance that takes events in."""
CHANNELS = {"Chaos_Good_dev": 2, "Chaos_Sums": 1, "Chaos_Pairs": 1}
"""Its channels, with their parts."""
INSTANCES = ("Chaos-filter-1", "Chaos-keyed-1", "Chaos-keyed-2", "Chaos-last-1")
TABLES = {
    "sums": ("OutSums", "dev, seen, id, v, total, n", "dev, seen"),
    "pairs": ("OutPairs", "dev, seen, one, two", "dev, seen"),
}
"""What comes out: table -> stream, columns, order."""

APP = """
@app:name('Chaos')
@source(type = 'http', receiver.url = 'http://${HOST}:${PORT}/in', @map(type = 'json'))
define stream Readings (id string, dev string, v long);
define stream Good (id string, dev string, v long);
define stream Sums (id string, dev string, v long, total long, n long);
define stream Pairs (dev string, one string, two string);
@sink(type = 'rdbms', url = '${SINK}', table.name = 'sums')
define stream OutSums (dev string, seen long, id string, v long, total long, n long);
@sink(type = 'rdbms', url = '${SINK}', table.name = 'pairs')
define stream OutPairs (dev string, seen long, one string, two string);

@info(name = 'good') @dist(execGroup = 'filter')
from Readings[v >= 0] select id, dev, v insert into Good;

@dist(execGroup = 'keyed', parallel = '2')
partition with (dev of Good)
begin
  @info(name = 'sums')
  from Good select id, dev, v, sum(v) as total, count() as n insert into Sums;
  @info(name = 'pairs')
  from every e1 = Good[v % 2 == 0] -> e2 = Good[v % 3 == 0]
  select e1.dev as dev, e1.id as one, e2.id as two insert into Pairs;
end;

@dist(execGroup = 'last')
partition with (dev of Sums, dev of Pairs)
begin
  @info(name = 'last sums')
  from Sums select dev, count() as seen, id, v, total, n insert into OutSums;
  @info(name = 'last pairs')
  from Pairs select dev, count() as seen, one, two insert into OutPairs;
end;
"""

SMALL = """
@app:name('{name}')
@source(type = 'http', receiver.url = 'http://${{HOST}}:{port}/in', @map(type = 'json'))
define stream In (a long);
@sink(type = 'rdbms', url = '${{SINK}}', table.name = '{name}')
define stream Out (a long);
@dist(execGroup = 'one')
from In[a > 0] select a insert into Mid;
@dist(execGroup = 'two')
from Mid select a insert into Out;
"""
"""An app that is deployed while managers die."""


class Reference:
    """The app in this process. It takes the bodies of requests in the order of the journal."""

    def __init__(self) -> None:
        self._app = AppUnderTest(APP, variables={"HOST": "h", "PORT": "1", "SINK": "jdbc:sqlite:none"})
        self.ids: list[str] = []

    def take(self, bodies: Sequence[bytes]) -> None:
        for body in bodies:
            found = json.loads(body)
            events = [one["event"] for one in (found if isinstance(found, list) else [found])]
            self.ids += [event["id"] for event in events]
            self._app.send("Readings", [[event["id"], event["dev"], event["v"]] for event in events])

    def rows(self, table: str) -> dict[str, list[Row]]:
        """What a table must have, by device, in order."""
        return by_device(self._app.rows(TABLES[table][0]))


def by_device(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Rows by their first value.

    >>> by_device([("a", 1), ("b", 1), ("a", 2)])
    {'a': [('a', 1), ('a', 2)], 'b': [('b', 1)]}
    """
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(str(row[0]), []).append(tuple(row))
    return found
