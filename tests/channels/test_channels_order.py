"""In which order an app gives its rows when it is divided: what `docs/internals/topology.md` says is the same as in one piece, and what is not."""

from __future__ import annotations

from pathlib import Path

import channels_memory
import pytest
from channels_cluster import Clock, LocalCluster, PerKey, whole
from channels_ends import Row

from nadi.channels import transport
from nadi.functions.registry import default_registry
from nadi.io import registry as connector_types
from nadi.plan.distribution import distribute

APP = """@app:name('Order')
@source(type='http', receiver.url='http://127.0.0.1:1/in', @map(type='json'))
define stream Readings (meter string, kwh long);
@sink(type='log') define stream Good (meter string, kwh long);
@sink(type='log') define stream Sums (meter string, total long);
@sink(type='log') define stream Pairs (meters string, both long);

@dist(execGroup='good', parallel='{good}')
from Readings[kwh > 0] select meter, kwh insert into Good;

@dist(execGroup='sums', parallel='{sums}')
partition with (meter of Good) begin
  @info(name='sums') from Good select meter, sum(kwh) as total insert into Sums;
end;

@dist(execGroup='pairs')
@info(name='pairs') from Sums#window.length(2) select 'all' as meters, sum(total) as both insert into Pairs;
"""
SENT = (("a", 1), ("b", 1), ("a", 2), ("b", 2), ("a", 3), ("b", 3))
STREAMS = ("Good", "Sums", "Pairs")


@pytest.fixture(autouse=True)
def _in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    channels_memory.CHANNELS.clear()
    monkeypatch.setattr(transport, "_open_of", lambda _kind: channels_memory.open_channel)


def ran(folder: Path, apart: int, good: int, sums: int) -> tuple[PerKey, PerKey]:
    """What the app gives, divided and in one piece, of messages that come so many ms after each other."""
    text = APP.format(good=good, sums=sums)
    with Clock().kept() as clock:
        cluster = LocalCluster(distribute(text, default_registry(), connector_types), folder, clock)
        for row in SENT:
            cluster.send("Readings", row)
            cluster.clock.now += apart
        cluster.advance(100)
        found = cluster.per_key(*STREAMS), whole(text, cluster.happened, *STREAMS)
        cluster.close()
    return found


def values(found: PerKey, stream: str) -> dict[object, list[Row]]:
    return {key: [row[1] for _, _, row in rows] for key, rows in found[stream].items()}


@pytest.mark.parametrize(("good", "sums"), [(1, 1), (1, 3), (2, 3)])
def test_of_events_of_different_times_everything_is_as_in_one_piece(tmp_path: Path, good: int, sums: int) -> None:
    divided, alone = ran(tmp_path, 1, good, sums)
    assert divided == alone


def test_of_events_of_one_moment_each_key_keeps_its_order_and_who_reads_all_keys_has_another_one(
    tmp_path: Path,
) -> None:
    divided, alone = ran(tmp_path, 0, 1, 3)
    assert (divided["Good"], divided["Sums"]) == (alone["Good"], alone["Sums"])
    assert values(alone, "Pairs") == {"all": [1, 2, 4, 6, 9, 12]}
    assert values(divided, "Pairs") == {"all": [1, 4, 9, 7, 4, 9]}


def test_of_events_of_one_moment_that_instances_have_taken_by_turns_a_key_has_another_order_too(tmp_path: Path) -> None:
    divided, alone = ran(tmp_path, 0, 2, 3)
    assert values(alone, "Sums") == {"a": [1, 3, 6], "b": [1, 3, 6]}
    assert values(divided, "Sums") == {"a": [1, 3, 6], "b": [3, 4, 6]}
    assert sorted(row for _, _, row in divided["Good"]["b"]) == sorted(row for _, _, row in alone["Good"]["b"])
