"""The apps of the suite `rows`: what they are fed, what must come out, and how fast they are to be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bench.checks import Rows, rising_rows, window_rows
from bench.events import Events

WITHIN_MS = 5_000
FILTER_CENTS = 5_000
STATE_BYTES = 2_048
"""The goal for the state of one partition key."""

_IN = "define stream In (ts long, sym string, price double, vol int);\n"


@dataclass(frozen=True, slots=True)
class RowsApp:
    """`goal` is in events/s of one process on a quiet machine. `expected` tells the rows that must come of some events."""

    name: str
    text: str
    goal: int
    expected: Callable[[Events], Rows]


def _doubled(events: Events) -> Rows:
    kept: npt.NDArray[np.bool_] = events.cents >= FILTER_CENTS
    return {"ts": events.ts[kept], "key": events.key[kept], "price": events.cents[kept], "vol": 2 * events.vol[kept]}


PATTERN = (
    f"@app:name('rows-pattern')\n{_IN}"
    "define stream Out (ts long, sym string, since long, low double, high double);\n"
    "partition with (sym of In) begin\n"
    "  from every e1=In -> e2=In[price > e1.price] within 5 sec\n"
    "  select e2.ts as ts, e2.sym as sym, e1.ts as since, e1.price as low, e2.price as high insert into Out;\n"
    "end;"
)
ROWS_APPS: dict[str, RowsApp] = {
    app.name: app
    for app in (
        RowsApp(
            "filter",
            f"@app:name('rows-filter')\n{_IN}define stream Out (ts long, sym string, price double, vol int);\n"
            "from In[price >= 50.0] select ts, sym, price, vol * 2 as vol insert into Out;",
            300_000,
            _doubled,
        ),
        RowsApp(
            "window",
            f"@app:name('rows-window')\n{_IN}define stream Out (ts long, sym string, mean double, n long);\n"
            "from In#window.time(1 sec) select ts, sym, avg(price) as mean, count() as n group by sym insert into Out;",
            120_000,
            window_rows,
        ),
        RowsApp("pattern", PATTERN, 80_000, lambda events: rising_rows(events, WITHIN_MS)),
    )
}
