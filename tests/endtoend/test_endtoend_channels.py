"""Two `nadi run` processes with a channel between their apps, both of them killed."""

from __future__ import annotations

import contextlib
import importlib.util
import random
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from nodes import events as rows_of
from nodes import lines, running, start

from nadi.io.natsserver import NatsServer

_SPEC = importlib.util.spec_from_file_location(
    "channels_apps", Path(__file__).parents[1] / "channels" / "channels_apps.py"
)
assert _SPEC is not None
assert _SPEC.loader is not None
channels_apps = importlib.util.module_from_spec(_SPEC)
sys.modules[_SPEC.name] = channels_apps
_SPEC.loader.exec_module(channels_apps)

pytestmark = [pytest.mark.spark, pytest.mark.slow]

INSTANCES = 2


@pytest.fixture(params=["nats", "kafka"])
def server(request: pytest.FixtureRequest, tmp_path: Path, broker_module: Any) -> Iterator[tuple[str, str]]:
    """(transport, address)"""
    with contextlib.ExitStack() as stack:
        if request.param == "nats":
            yield "nats", stack.enter_context(NatsServer(tmp_path / "nats")).url
            return
        try:
            running_broker = broker_module.start(tmp_path / "kafka")
        except broker_module.NotPossible as reason:
            pytest.skip(str(reason))
        stack.callback(running_broker.stop)
        yield "kafka", running_broker.address


def _apps(folder: Path, server: tuple[str, str]) -> tuple[list[Path], list[Path], list[Path]]:
    """The files of the producer's app, of the consumers', and of what these write."""
    transport, address = server
    common = {"partitions": str(INSTANCES), "key": "dev"}
    sink = channels_apps.channel("sink", transport, address, group="E-front", strategy="FIELD_GROUPING", **common)
    (folder / "front.siddhi").write_text(channels_apps.front(folder / "in", sink))
    counting, outs = [], []
    for i in range(INSTANCES):
        source = channels_apps.channel(
            "source",
            transport,
            address,
            assigned=str(i),
            strategy="FIELD_GROUPING",
            group="E-count",
            producers="E-front-1",
            **common,
        )
        outs.append(folder / f"out{i}.jsonl")
        counting.append(folder / f"count{i}.siddhi")
        counting[-1].write_text(channels_apps.count(source, outs[-1], f"E-count-{i + 1}"))
    return [folder / "front.siddhi"], counting, outs


def _put(folder: Path, name: str, given: Sequence[str]) -> None:
    """A whole file, there at once."""
    folder.mkdir(exist_ok=True)
    whole = folder.with_name(name)
    whole.write_text("".join(f"{line}\n" for line in given))
    whole.rename(folder / name)


def test_two_nodes_with_a_channel_give_each_event_once_and_end(tmp_path: Path, server: tuple[str, str]) -> None:
    numbers = range(20_000)
    _put(tmp_path / "in", "all.jsonl", channels_apps.events(numbers))
    front, counting, outs = _apps(tmp_path, server)
    with (
        running(*counting, state=tmp_path / "counting", until_end=True) as consumers,
        running(*front, state=tmp_path / "front", until_end=True, conf={"batch.events": 1_500}) as producer,
    ):
        assert producer.wait() == 0, producer.said()
        assert consumers.wait() == 0, consumers.said()
    for i, out in enumerate(outs):
        assert rows_of(out), f"instance {i} has got nothing"
    channels_apps.check([row for out in outs for row in rows_of(out)], numbers)


def test_a_producer_that_has_nothing_to_say_holds_no_reader_up(tmp_path: Path, server: tuple[str, str]) -> None:
    numbers = range(2_000)
    transport, address = server
    apps = []
    for i in (1, 2):
        folder = tmp_path / f"in{i}"
        folder.mkdir()
        sink = channels_apps.channel("sink", transport, address, group="E-front")
        apps.append(tmp_path / f"front{i}.siddhi")
        apps[-1].write_text(channels_apps.front(folder, sink, f"E-front-{i}"))
    source = channels_apps.channel("source", transport, address, producers="E-front-1,E-front-2", group="E-count")
    out = tmp_path / "out.jsonl"
    apps.append(tmp_path / "count.siddhi")
    apps[-1].write_text(channels_apps.count(source, out, "E-count-1"))
    with running(*apps, state=tmp_path / "node") as node:
        for part in range(4):
            _put(tmp_path / "in1", f"{part}.jsonl", channels_apps.events(numbers[part * 500 : part * 500 + 500]))
            node.until(lambda part=part: len(lines(out)) >= (part + 1) * 250)
        assert "E-front-2" in node.said()
    channels_apps.check(rows_of(out), numbers)


def test_nodes_that_are_killed_on_both_sides_of_a_channel_lose_and_double_nothing(
    tmp_path: Path, server: tuple[str, str]
) -> None:
    numbers = range(30_000)
    (tmp_path / "in").mkdir()
    front, counting, outs = _apps(tmp_path, server)
    chance = random.Random(19)
    conf = {"batch.events": 400}
    given = list(channels_apps.events(numbers))

    def written() -> int:
        return sum(len(lines(out)) for out in outs)

    producer = start(*front, state=tmp_path / "front", conf=conf)
    consumers = start(*counting, state=tmp_path / "counting", conf=conf)
    try:
        for round_ in range(6):
            more, given = given[:5_000], given[5_000:]
            _put(tmp_path / "in", f"{round_}.jsonl", more)
            before = written()
            both = (producer, consumers)
            both[round_ % 2].until(lambda before=before: written() > before + chance.randrange(1_500), alive=False)
            if round_ % 2 == 0 or round_ == 5:
                producer.kill_tree()
                producer = start(*front, state=tmp_path / "front", conf=conf)
            if round_ % 2 == 1:
                consumers.kill_tree()
                consumers = start(*counting, state=tmp_path / "counting", conf=conf)
        wanted = sum(1 for n in numbers if n % 2 == 0)
        consumers.until(lambda: written() >= wanted)
    finally:
        for node in (producer, consumers):
            node.kill_tree()
            node.process.wait()
    channels_apps.check([row for out in outs for row in rows_of(out)], numbers, ordered=False)
