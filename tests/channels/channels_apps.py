"""Two partial apps with a channel between them: `front` reads files and filters, `count` keeps a sum per key."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

KEYS = 40


def channel(kind: str, transport: str, address: str, **more: str) -> str:
    """The annotation of a channel named E.Good.dev."""
    given = {"transport": transport, "name": "E.Good.dev", "bootstrap.servers": address, **more}
    return f"@{kind}(type='channel', " + ", ".join(f"{name}='{value}'" for name, value in given.items()) + ")"


def front(source: Path, sink: str, name: str = "E-front-1") -> str:
    """Every second event goes on."""
    return f"""@app:name('{name}')
@source(type='file', dir.uri='{source}', @map(type='json'))
define stream In (dev string, n long);
{sink}
define stream Good (dev string, n long);
@info(name='good') from In[n % 2 == 0] select dev, n insert into Good;
"""


def count(source: str, out: Path, name: str) -> str:
    """The number and the sum of the events of each key so far."""
    return f"""@app:name('{name}')
{source}
define stream Good (dev string, n long);
@sink(type='file', file.uri='{out}', @map(type='json'))
define stream Out (dev string, n long, c long, total long);
partition with (dev of Good) begin
  @info(name='count') from Good select dev, n, count() as c, sum(n) as total insert into Out;
end;
"""


def events(numbers: Sequence[int]) -> list[str]:
    """Lines of the file that `front` reads."""
    return [json.dumps({"event": {"dev": f"d{n * 7 % KEYS}", "n": n}}) for n in numbers]


def check(rows: Sequence[Mapping[str, object]], numbers: Sequence[int], ordered: bool = True) -> None:
    """The rows of all instances of `count` are those that these events give: per key each once, and (`ordered`) in the order of the numbers."""
    given: dict[object, list[int]] = {}
    for n in numbers:
        if n % 2 == 0:
            given.setdefault(f"d{n * 7 % KEYS}", []).append(n)
    found: dict[object, list[int]] = {}
    for row in rows:
        mine = found.setdefault(row["dev"], [])
        mine.append(int(str(row["n"])))
        assert (row["c"], row["total"]) == (len(mine), sum(mine)), f"row {len(mine)} of {row['dev']} is {row}"
    if not ordered:
        found = {dev: sorted(mine) for dev, mine in found.items()}
    assert found == given
