"""Windows whose state is dumped and loaded, or brought back by deltas, at any point go on as if nothing had happened."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from windowrig import Rig

WINDOWS: list[tuple[object, ...]] = [
    ("length", 3),
    ("lengthBatch", 3),
    ("lengthBatch", 2, True),
    ("time", 50),
    ("timeLength", 50, 3),
    ("timeBatch", 40),
    ("timeBatch", 40, 7, True),
    ("externalTime", "at", 50),
    ("externalTimeBatch", "at", 40),
    ("externalTimeBatch", "at", 40, 0, 30),
    ("batch",),
    ("session", 40, "key"),
    ("session", 40, "key", 20),
    ("delay", 30),
    ("sort", 3, "key", "desc", "v"),
    ("frequent", 2, "key"),
    ("lossyFrequent", 0.4, 0.2, "key"),
    ("expression", "sum(v) < 90 or count() < 3"),
    ("expression", "max(v) - min(v) < 4 and distinctCount(key) < 3"),
    ("expressionBatch", "count() <= 3", True),
    ("expressionBatch", "max(at) - min(at) < 90 or avg(v) < 5"),
    ("expressionBatch", "last.at - first.at < 90", False, True),
    ("cron", "*/1 * * * * ?"),
    ("unique:ever", "key"),
    ("unique:ever", "key", "v"),
    ("unique:first", "key"),
    ("unique:length", "key", 2),
    ("unique:time", "key", 50),
    ("unique:lengthBatch", "key", 2),
    ("unique:firstLengthBatch", "key", 3),
    ("unique:timeBatch", "key", 40),
    ("unique:timeBatch", "key", 40, 7),
    ("unique:firstTimeBatch", "key", 40),
    ("unique:timeLengthBatch", "key", 60, 2),
    ("unique:timeLengthBatch", "key", 60, 5, 2),
    ("unique:externalTimeBatch", "key", "at", 40),
    ("unique:externalTimeBatch", "key", "at", 40, 0, 30, True),
]

Step = tuple[int, int, int, str, str]
steps = st.lists(
    st.tuples(
        st.integers(0, 60),  # how far the clock moves
        st.integers(0, 30),  # how late the event is
        st.integers(-20, 60),  # how far its time attribute moves
        st.sampled_from("abc"),
        st.sampled_from(["", "", "", "dump", "delta"]),
    ),
    max_size=40,
)


def _run(rig: Rig, moves: list[Step], restarts: bool) -> list[tuple[int, str]]:
    clock = at = 0
    base, deltas = list(rig.flow.store.dump()), []
    for number, (ahead, late, moved, key, restart) in enumerate(moves):
        clock, at = clock + ahead, at + moved
        rig.clock(clock)
        rig.flow.key = "p" if number % 3 else "q"
        rig.send(clock - min(late, clock), number, at=at, key=key)
        rig.flow.key = ""
        if restarts and restart == "dump":
            rig.reload()
            base, deltas = list(rig.flow.store.dump()), []
        elif restarts and restart == "delta":
            deltas.append(rig.flow.store.delta())
            rig.flow.store.load([*base, *deltas])
            rig.flow.timers.rebuild()
    rig.clock(clock + 500)
    return rig.out


@pytest.mark.parametrize("live", [False, True], ids=["playback", "live"])
@pytest.mark.parametrize("window", WINDOWS, ids=lambda w: "-".join(map(str, w)))
@settings(max_examples=25, deadline=None)
@given(moves=steps)
def test_state_that_was_loaded_gives_the_same_emissions(
    window: tuple[object, ...], live: bool, moves: list[Step]
) -> None:
    name = str(window[0])
    whole = _run(Rig(name, *window[1:], live=live), moves, restarts=False)
    assert _run(Rig(name, *window[1:], live=live), moves, restarts=True) == whole
