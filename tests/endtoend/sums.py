"""The app of the round trips: per key, how many events there were and their sum, so that one lost or doubled event changes all results after it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

APP = """@app:name('Sums')
@source({source}, @map(type = 'json'))
define stream In (k string, request long, n long);
@sink({sink}, @map(type = 'json'))
define stream Out (k string, request long, n long, seen long, total long);
partition with (k of In)
begin
  from In select k, request, n, count() as seen, sum(n) as total insert into #Sums;
  from #Sums[seen % {every}L == 0L] select k, request, n, seen, total insert into Out;
end;
"""

Given = tuple[str, int, int]


def made(count: int, keys: int = 50) -> list[Given]:
    """(key, request, n) of each event; a request has 100 of them."""
    return [(f"key{n % keys}", n // 100, n) for n in range(count)]


def expected(given: Iterable[Given], every: int = 1) -> dict[str, list[dict[str, Any]]]:
    """The results per key, where the events come in this order."""
    seen: dict[str, int] = defaultdict(int)
    total: dict[str, int] = defaultdict(int)
    found: dict[str, list[dict[str, Any]]] = {}
    for k, request, n in given:
        seen[k] += 1
        total[k] += n
        if seen[k] % every == 0:
            row = {"k": k, "request": request, "n": n, "seen": seen[k], "total": total[k]}
            found.setdefault(k, []).append(row)
    return found


def per_key(rows: Iterable[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """Rows per key in their order."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        found.setdefault(row["k"], []).append(row)
    return found
