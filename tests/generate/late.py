"""Messages whose events have timestamps before and behind the clock, in no order."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.generate.inputs import Message

_EVENT = st.tuples(
    st.sampled_from((-60, -40, -25, -13, -12, -11, -5, 0, 0, 0, 0, 6, 20)), st.sampled_from("ab"), st.integers(0, 3)
)
_MESSAGES = st.lists(
    st.tuples(st.sampled_from((0, 1, 4, 12, 18, 30)), st.sampled_from("SR"), st.lists(_EVENT, min_size=1, max_size=3)),
    min_size=8,
    max_size=40,
)


def _late(given_: list[tuple[int, str, list[tuple[int, str, int]]]]) -> list[Message]:
    made, now = [], 100
    for gap, stream, events in given_:
        now += gap
        rows = tuple((now + jitter, (k, v, v, v / 2, v * 0.3, True)) for jitter, k, v in events)
        made.append(Message(now, stream, rows))
    return sorted(made, key=lambda m: (m.order, "SR".index(m.stream)))


late_messages: st.SearchStrategy[list[Message]] = _MESSAGES.map(_late)
"""Eight to 40 messages of up to three events, of which half come late or early."""
