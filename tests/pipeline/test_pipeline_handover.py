"""Events that stay in the host that has read them until a kernel takes them. This process plays the JVM, a dict the state store."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pipeline_bucket import Bucket, hosts_of_this_process, kill
from pipeline_testlog import committed

from nadi.pipeline.hosting.hostclient import Hosts
from nadi.pipeline.inputs.fatrows import unpack
from nadi.pipeline.kernelstage import StoredState, ask_kernel
from nadi.pipeline.spec import AppSpec

EVENTS, LARGE = 3_000, 20_000  # events of a cut, and bytes of a piece of it, at least
KEYS = ("a" * 20, "b" * 20)


@pytest.fixture(scope="module")
def ask() -> Iterator[Hosts]:
    yield from hosts_of_this_process(2)


@pytest.fixture
def spec(tmp_path: Path) -> AppSpec:
    text = f"""@app:name('Odd')
        @source(type='test', file='{tmp_path}/in') define stream In (k string, n long);
        @sink(type='test', file='{tmp_path}/out') define stream Out (k string, s long);
        from In select k, sum(n) as s insert into Sums; from Sums[k == '{KEYS[1]}'] select k, s insert into Out;"""
    (tmp_path / "in").write_text("".join(f"{i * 10}\t{json.dumps([KEYS[i % 2], i])}\n" for i in range(3 * EVENTS)))
    state = tmp_path / "state"
    state.mkdir()
    return AppSpec("Odd", text, str(state), outputs=("Out",), connectors="pipeline_testlog", handover=LARGE)


def run(ask: Hosts, spec: AppSpec, reader: int, killed: tuple[int, ...] = ()) -> list[tuple[str, int]]:
    """Three cuts, read by host `reader` and processed by host 0; hosts are killed between the two of the second one. -> rows that came out."""
    bucket = Bucket(ask, spec)
    for n in range(3):
        start, end = n * EVENTS, (n + 1) * EVENTS
        ranges = [[0, 0, start, end, 0, (start - 1) * 10 if start else None]]
        head = {"op": "read", "n": n + 1, "task": reader, "clock": end * 10, "started": 0, "ranges": ranges}
        frames = list(ask.stream_app(spec, reader, head))
        heads, bodies = [bytes(f.parts[0]) for f in frames], [bytes(f.parts[1]) for f in frames]
        assert [unpack(h)["k"] for h in heads if "at" in unpack(h)] == ["events"] * 3, "large ones stay"
        assert max(map(len, bodies)) < LARGE
        for host in killed if n == 1 else ():
            kill(ask, host)
        state = StoredState(bucket.state, 0)
        answer, _seconds = ask_kernel(spec, ask, state, {"query": "q", "bucket": 0, "heads": heads}, bodies)
        state.keep(answer.head, answer.parts)
        bucket.write({**answer.head, "query": "q", "bucket": 0})
    return [(r["k"], r["s"]) for r in committed(Path(spec.state).parent / "out")]


EXPECTED = [(KEYS[1], i * (i + 1) // 2) for i in range(1, 3 * EVENTS, 2)]


def test_a_host_processes_what_it_has_read_itself(ask: Hosts, spec: AppSpec):
    assert run(ask, spec, reader=0) == EXPECTED


def test_a_host_takes_what_another_one_has_read(ask: Hosts, spec: AppSpec):
    assert run(ask, spec, reader=1) == EXPECTED


def test_what_was_lost_with_the_host_that_had_read_it_is_read_again(ask: Hosts, spec: AppSpec):
    assert run(ask, spec, reader=1, killed=(1,)) == EXPECTED


def test_a_host_that_lost_what_it_had_read_reads_it_again(ask: Hosts, spec: AppSpec):
    assert run(ask, spec, reader=0, killed=(0,)) == EXPECTED


def test_rows_of_an_app_whose_hosts_are_apart_carry_their_events(ask: Hosts, spec: AppSpec):
    bucket = Bucket(ask, replace(spec, handover=-1))
    heads, bodies = bucket.read(1, 0, EVENTS, None)
    assert [("at" in unpack(h), len(b) > LARGE) for h, b in zip(heads, bodies)] == [(False, True)] * 3 + [
        (False, False)
    ]
