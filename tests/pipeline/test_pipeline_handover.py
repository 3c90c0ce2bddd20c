"""Events that stay in the host that has read them until a kernel takes them: two hosts, this process plays the coordinator and Java."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pipeline_bucket import hosts_of_this_process, kill
from pipeline_work import Process, Rig, cuts_of, spec_of

from nadi.pipeline.hosting.hostclient import Hosts
from nadi.pipeline.hosting.lane import Row

EVENTS, LARGE = 3_000, 20_000  # events of a cut, and bytes of a piece of it, at least
KEYS = ("a" * 20, "b" * 20)
TEXT = f"""@app:name('Work')
@source(type='test', file='{{folder}}/in') define stream In (k string, n long);
@sink(type='test', file='{{folder}}/out') define stream Out (k string, s long);
from In select k, sum(n) as s insert into Sums; from Sums[k == '{KEYS[1]}'] select k, s insert into Out;"""


@pytest.fixture(scope="module")
def ask() -> Iterator[Hosts]:
    yield from hosts_of_this_process(2)


def made(folder: Path, **more: Any) -> Rig:
    spec = spec_of(folder, TEXT, **more)
    (folder / "in").write_text("".join(f"{i * 10}\t{json.dumps([KEYS[i % 2], i])}\n" for i in range(3 * EVENTS)))
    return Rig(spec, cuts_of(folder / "in", [EVENTS, 2 * EVENTS, 3 * EVENTS]))


def shown(rows: Sequence[Row]) -> list[tuple[str, bool, int]]:
    """Of each row its kind, whether it only names its events, and the bytes of its body."""
    told = [msgspec.msgpack.decode(row.body) for row in rows]
    return [(head["k"], head["k"] == "events" and "at" in head, len(body)) for _, _, _, head, body in told]


def run(ask: Hosts, rig: Rig, reader: int, killed: tuple[int, ...] = ()) -> None:
    """Three cuts, read by host `reader` and processed by host 0; hosts are killed between the two of the second one."""
    hosts = {index: Process(ask, index) for index in (0, 1)}
    for n in (1, 2, 3):
        rows = rig.rows([hosts[reader]])
        assert shown(rows) == [("events", True, 0)] * 3 + [("clock", False, 0)]
        for host in killed if n == 2 else ():
            kill(ask, host)
        rig.commit(*rig.processed(rows, hosts))
    found = [row for _, rows in sorted(rig.delivered().items()) for row in rows]
    assert [(row["k"], row["s"]) for row in found] == [(KEYS[1], i * (i + 1) // 2) for i in range(1, 3 * EVENTS, 2)]
    rig.check()


def test_a_host_processes_what_it_has_read_itself(ask: Hosts, tmp_path: Path):
    run(ask, made(tmp_path, handover=LARGE), reader=0)


def test_a_host_takes_what_another_one_has_read(ask: Hosts, tmp_path: Path):
    run(ask, made(tmp_path, handover=LARGE), reader=1)


def test_what_was_lost_with_the_host_that_had_read_it_is_read_again(ask: Hosts, tmp_path: Path):
    run(ask, made(tmp_path, handover=LARGE), reader=1, killed=(1,))


def test_a_host_that_lost_what_it_had_read_reads_it_again(ask: Hosts, tmp_path: Path):
    run(ask, made(tmp_path, handover=LARGE), reader=0, killed=(0,))


def test_rows_of_an_app_whose_hosts_are_apart_carry_their_events(ask: Hosts, tmp_path: Path):
    rows = shown(made(tmp_path).rows([Process(ask, 0)]))
    assert [(kind, named, size > LARGE) for kind, named, size in rows] == [("events", False, True)] * 3 + [
        ("clock", False, False)
    ]
