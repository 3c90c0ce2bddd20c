"""The apps that are measured, and where they read from and write to."""

from __future__ import annotations

from pathlib import Path

WINDOW_MS = 1_000  # of the window and of the pattern's `within`
FILTER_CENTS = 5_000
PATTERN_CENTS = 9_000

_IN = "define stream In (ts long, sym string, price double, vol int);"
_SAME = "define stream Out (ts long, sym string, price double, vol int);"

PATTERN = (
    "define stream Out (ts long, sym string, since long, low double, high double);",
    "partition with (sym of In) begin "
    "from every e1=In[price >= 90.0] -> e2=In[price > e1.price] within 1 sec "
    "select e2.ts as ts, e2.sym as sym, e1.ts as since, e1.price as low, e2.price as high insert into Out; "
    "end;",
)
"""The definition of the output and the query of the keyed pattern."""

_BODIES: dict[str, tuple[str, str]] = {
    # Nothing of this query runs in the identity pipeline: its plan only tells the types.
    "identity": (_SAME, "from In select ts, sym, price, vol insert into Out;"),
    "filter": (_SAME, "from In[price >= 50.0] select ts, sym, price, vol insert into Out;"),
    "window": (
        "define stream Out (ts long, sym string, mean double, n long);",
        "partition with (sym of In) begin "
        "from In#window.time(1 sec) select ts, sym, avg(price) as mean, count() as n group by sym insert into Out; "
        "end;",
    ),
    "pattern": PATTERN,
}
APPS: tuple[str, ...] = tuple(_BODIES)
"""Names of all apps; the first one is what the others are compared with."""

IN_SUBJECT = "bench.{app}.in"
OUT_SUBJECT = "bench.{app}.out"


def app_text(name: str, label: str, source: str, sink: str) -> str:
    """The text of an app with JSON messages from a source to a sink, given by their options."""
    out, body = _BODIES[name]
    return (
        f"@app:name('{label}')\n@source({source}, @map(type='json'))\n{_IN}\n@sink({sink}, @map(type='json'))\n{out}\n"
        f"@info(name='{name}')\n{body}\n"
    )


def on_files(name: str, source: Path, sink: Path) -> str:
    """The text of an app from a file of JSON lines, whose `ts` is the time, to a file."""
    return app_text(
        name,
        f"{name}-throughput",
        f"type='file', file.uri='{source}', event.time='ts'",
        f"type='file', file.uri='{sink}', append='false'",
    )


def on_nats(name: str, url: str) -> str:
    """The text of an app between two subjects of a NATS server; an event's time is when it comes in."""
    server = f"type='nats', bootstrap.servers='{url}', destination="
    return app_text(
        name,
        f"{name}-latency",
        f"{server}'{IN_SUBJECT.format(app=name)}'",
        f"{server}'{OUT_SUBJECT.format(app=name)}'",
    )
