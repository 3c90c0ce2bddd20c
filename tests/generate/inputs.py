"""Messages for the streams of generated apps, and the ways in which a run may be cut and restarted."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

Row = tuple[object, ...]


@dataclass(frozen=True)
class Message:
    """One arrival: order time (ms), stream, events as (timestamp, row)."""

    order: int
    stream: str
    events: tuple[tuple[int, Row], ...]


@dataclass(frozen=True)
class Cut:
    """After message number `after` (of all, wrapped around) a batch ends, up to `wait` ms later; then `restart`."""

    after: int
    wait: int
    restart: str


GAPS = (0, 0, 1, 5, 12, 30, 75, 400, 1300)
_STRINGS = st.sampled_from(("a", "b", "a", "b", "c", "a", "b", None))
_ROWS = st.tuples(
    _STRINGS, st.sampled_from((0, 1, 2, 3, 4, 1, 2, 3, None)), st.integers(-20, 20), st.integers(0, 6), st.booleans()
)
_MESSAGES = st.lists(
    st.tuples(st.sampled_from(GAPS), st.sampled_from("SR"), st.lists(_ROWS, min_size=1, max_size=3)),
    min_size=6,
    max_size=30,
)


def _placed(given: list[tuple[int, str, list[tuple[str | None, int | None, int, int, bool]]]]) -> list[Message]:
    made, now = [], 0
    for gap, stream, rows in given:
        now += gap
        events = tuple(
            (
                max(0, now + (jitter if few == 6 else 0)),
                (k, v, max(0, now + jitter), few / 2, few * 0.3, None if few == 5 else b),
            )
            for k, v, jitter, few, b in rows
        )
        made.append(Message(now, stream, events))
    return sorted(made, key=lambda m: (m.order, "SR".index(m.stream)))  # the order of arrivals in a cut


messages: st.SearchStrategy[list[Message]] = _MESSAGES.map(_placed)
"""Six to 30 messages of up to three events; some events have a timestamp or a time attribute off the clock, some values are null."""

cuts: st.SearchStrategy[list[Cut]] = st.lists(
    st.builds(
        Cut, st.integers(0, 29), st.sampled_from((0, 3, 40)), st.sampled_from(("", "", "dump", "delta", "deltas"))
    ),
    max_size=6,
)
"""`dump`: a new kernel from a dump. `delta`: a delta is taken. `deltas`: a new kernel from the last dump and all deltas since."""
