"""The batch windows, chunk by chunk (semantics/windows.md#batch-windows): previous batch as X, then R, then the new batch as C."""

import pytest
from windowrig import Rig

from nadi.errors import NadiError
from nadi.functions.registry import default_registry
from nadi.kernel.rows.events import CURRENT, Event
from nadi.plan import plan_app
from nadi.runtime import Runtime


def test_a_length_batch_brings_the_previous_batch_as_expired_before_the_new_one() -> None:
    rig = Rig("lengthBatch", 2)
    for ts in (10, 20, 30, 40):
        rig.send(ts, ts)
    assert rig.take() == ["R C10@10 C20@20", "X10@40 X20@40 R C30@30 C40@40"]
    assert rig.content() == [30, 40]


def test_a_batch_whose_expired_events_nobody_wants_brings_none() -> None:
    rig = Rig("lengthBatch", 2, keeps=False)
    for ts in (10, 20, 30, 40):
        rig.send(ts, ts)
    assert rig.take() == ["R C10@10 C20@20", "R C30@30 C40@40"]
    assert rig.content() == []


def test_a_batch_that_is_searched_keeps_its_content_and_expires_nothing() -> None:
    rig = Rig("lengthBatch", 2, keeps=False, searched=True)
    for ts in (10, 20, 30, 40, 50):
        rig.send(ts, ts)
    assert rig.take() == ["R C10@10 C20@20", "R C30@30 C40@40"]
    assert rig.content() == [10, 20, 30, 40]  # Siddhi 5 forgets a batch when it expires, which it does not here


def test_a_chunk_can_make_several_batches_each_its_own_chunk() -> None:
    rig = Rig("lengthBatch", 2)
    rig.send(10, 1, 2, 3, 4, 5)
    assert rig.take() == ["R C1@10 C2@10", "X1@10 X2@10 R C3@10 C4@10"]


@pytest.mark.parametrize(("compat", "chunks"), [(5, ["C1@10 X1@10 R"]), (4, [])])
def test_a_length_batch_of_nothing_passes_each_event_in_5_and_none_in_4(compat: int, chunks: list[str]) -> None:
    rig = Rig("lengthBatch", 0, compat=compat)
    rig.send(10, 1)
    assert rig.take() == chunks


def test_a_streaming_length_batch_passes_events_at_once_and_resets_with_the_next_one() -> None:
    rig = Rig("lengthBatch", 2, True)
    rig.send(10, 1, 2)
    rig.send(20, 3)
    assert rig.take() == ["C1@10", "C2@10", "X1@20 X2@20 R C3@20"]


def test_a_time_batch_flushes_at_boundaries_of_its_own_phase() -> None:
    """Observed: t = 1 s, events 1@1100 2@1500 3@2100 4@2200, clock to 5000, 6@5600, clock to 9000."""
    rig = Rig("timeBatch", 1000)
    for ts, v in ((1100, 1), (1500, 2), (2100, 3), (2200, 4)):
        rig.send(ts, v)
    rig.clock(5000)
    rig.send(5600, 6)
    rig.clock(9000)
    assert rig.out == [
        (2100, "R C1@1100 C2@1500"),
        (5000, "X1@5000 X2@5000 R C3@2100 C4@2200"),
        (5000, "X3@5000 X4@5000"),
        (9000, "R C6@5600"),
        (9000, "X6@9000"),
    ]


def test_an_empty_time_batch_sets_no_timer_and_keeps_its_phase() -> None:
    rig = Rig("timeBatch", 1000, live=True)
    rig.send(1100, 1)
    rig.clock(20000)
    assert [now for now, _text in rig.out] == [2100, 3100]
    assert rig.flow.timers.next_due() is None
    rig.send(20500, 2)
    assert rig.flow.timers.next_due() == 21100


def test_a_time_batch_with_a_start_has_boundaries_counted_from_it() -> None:
    rig = Rig("timeBatch", 1000, 300, live=True)
    rig.send(1500, 1)
    rig.clock(9000)
    assert rig.out == [(2300, "R C1@1500"), (3300, "X1@3300")]


def test_an_event_that_comes_before_a_late_timer_is_part_of_the_batch() -> None:
    rig = Rig("timeBatch", 1000)
    rig.send(1000, 1)
    rig.flow.now = 2500  # another element's timer at this jump delivers an event before this window's timer ran
    rig.window.process([Event(CURRENT, 2400, (2, 0, ""))])
    assert rig.take() == ["R C1@1000 C2@2400"]
    rig.clock(2500)
    assert rig.take() == []
    rig.clock(3000)
    assert rig.take() == ["X1@3000 X2@3000"]


def test_a_streaming_time_batch_passes_events_and_resets_at_the_boundary() -> None:
    rig = Rig("timeBatch", 1000, True)
    rig.send(1000, 1)
    rig.send(1500, 2)
    rig.clock(2000)
    assert rig.take() == ["C1@1000", "C2@1500", "X1@2000 X2@2000 R"]


def test_an_event_before_the_late_timer_of_a_streaming_time_batch_passes_in_front_and_expires_with_the_batch() -> None:
    rig = Rig("timeBatch", 1000, True)
    rig.send(1000, 1)
    rig.flow.now = 2500  # as above
    rig.window.process([Event(CURRENT, 2400, (2, 0, ""))])
    assert rig.take() == ["C1@1000", "C2@2400 X1@2500 X2@2500 R"]


def test_an_event_that_a_timer_brings_to_an_empty_time_batch_at_its_boundary_does_not_wait_for_the_next_one() -> None:
    runtime = Runtime(
        "@app:playback define stream S (v int); define stream Tick (v int);"
        " from S#window.timeBatch(100 milliseconds) select v insert into M;"
        " @info(name='q') from M#window.timeBatch(100 milliseconds) select v insert into Out;"
    )
    heard = []
    runtime.on_query("q", lambda ts, current, _expired: heard.append((clock, [e.row for e in current or ()])))
    runtime.start()
    for clock in range(1000, 1500, 10):
        runtime.send("Tick", [(clock, (0,))])
        if clock in (1000, 1210):
            runtime.send("S", [(clock, (clock,))])
    assert heard == [(1200, [(1000,)]), (1300, [(1210,)])]


def test_all_partition_keys_share_the_phase_of_a_time_batch() -> None:
    rig = Rig("timeBatch", 1000, live=True)
    for ts, key, v in ((100, "a", 1), (600, "b", 2)):
        rig.clock(ts)
        rig.flow.key = key
        rig.send(ts, v)
    rig.flow.key = ""
    rig.clock(1100)
    assert rig.out == [(1100, "R C1@100"), (1100, "R C2@600")]


def test_each_arriving_chunk_is_a_batch() -> None:
    rig = Rig("batch")
    rig.send(10, 1, 2)
    rig.send(20, 3)
    assert rig.take() == ["R C1@10 C2@10", "X1@20 X2@20 R C3@20"]
    assert rig.content() == [3]


def test_a_chunk_cut_into_pieces_expires_whole_with_the_next_one() -> None:
    rig = Rig("batch", 2)
    rig.send(10, 1, 2, 3)
    rig.send(20, 4)
    assert rig.take() == ["R C1@10 C2@10", "R C3@10", "X1@20 X2@20 X3@20 R C4@20"]


def test_an_external_time_batch_is_flushed_by_the_event_after_its_end() -> None:
    rig = Rig("externalTimeBatch", "at", 1000)
    for v, at in ((1, 100), (2, 500), (3, 1100), (4, 900), (5, 5200)):
        rig.send(7, v, at=at)
    # the phase is that of the first event; the late fourth joins the batch at hand
    assert rig.take() == ["R C1@7 C2@7", "X1@5200 X2@5200 R C3@7 C4@7"]
    rig.send(7, 6, at=6100)
    assert rig.take() == ["X3@6100 X4@6100 R C5@7"]


def test_an_external_time_batch_with_a_start_ends_in_its_phase() -> None:
    rig = Rig("externalTimeBatch", "at", 1000, 300)
    for v, at in ((1, 1000), (2, 1299), (3, 1300)):
        rig.send(7, v, at=at)
    assert rig.take() == ["R C1@7 C2@7"]


def test_an_external_time_batch_is_flushed_by_its_timeout_and_appended_to_later() -> None:
    rig = Rig("externalTimeBatch", "at", 1000, 0, 500, live=True)
    rig.send(100, 1, at=100)
    rig.clock(650)
    assert rig.take() == ["R C1@100"]
    rig.send(700, 2, at=200)
    rig.clock(1200)
    assert rig.take() == ["X1@200 R C1@100 C2@700"]
    rig.send(1300, 3, at=1500)
    assert rig.take() == []
    rig.clock(5000)
    assert rig.take() == ["X1@1500 X2@1500 R C3@1300"]
    assert rig.flow.timers.next_due() is None or rig.flow.timers.next_due() > 5000  # type: ignore[operator]


def test_an_external_time_batch_can_put_its_end_into_the_time_attribute() -> None:
    rig = Rig("externalTimeBatch", "at", 1000, 0, 0, True, searched=True)
    rig.send(7, 1, at=100)
    rig.send(7, 2, at=1100)
    assert [e.row[1] for e in rig.window.content()] == [1000]


def test_the_start_of_an_external_time_batch_may_be_an_attribute_of_the_first_event() -> None:
    rig = Rig("externalTimeBatch", "at", 100, "at")
    for v, at in ((1, 30), (2, 129), (3, 130)):
        rig.send(v, v, at=at)
    assert rig.take() == ["R C1@1 C2@2"]


def test_an_attribute_that_is_a_start_must_be_long() -> None:
    app = "define stream S (v int, at long); from S#window.externalTimeBatch(at, 100, v) select v insert into Out;"
    with pytest.raises(NadiError, match=r"'start\.time' must be long where it is an attribute, not int"):
        plan_app(app, default_registry())


@pytest.mark.parametrize(
    ("window", "compat", "rows"),
    [("batch()", 5, "acdg"), ("batch()", 4, "acdg"), ("lengthBatch(2)", 5, "bcf"), ("lengthBatch(2)", 4, "ade")],
)
def test_the_resets_before_batches_count_for_the_first_of_each_two_but_there_is_none_before_the_first(
    window: str, compat: int, rows: str
) -> None:
    text = f"define stream S (k string); from S#window.{window} select k output first every 2 events insert into O;"
    app = Runtime(f"@app:compat('{compat}') {text}")
    found: list[object] = []
    app.on_stream("O", lambda chunk: found.extend(e.row[0] for e in chunk))
    app.start()
    for chunk in ("abc", "de", "fg"):
        app.send("S", [(None, (k,)) for k in chunk])
        app.move(list(app.kernel.dump()))
    assert "".join(map(str, found)) == rows
