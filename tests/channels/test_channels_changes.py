"""An app whose groups get other numbers of instances, at drained cuts, gives what it gives as a whole: through the whole pipeline, on channels in memory.

Instances die while they drain, and when they have begun with what those before them left.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import channels_ends
import channels_memory
import pytest
from channels_cluster import Clock, Happened, LocalCluster, Noted, PerKey, _per_key, whole

from nadi.channels import transport
from nadi.config import Persistence
from nadi.functions.registry import default_registry
from nadi.io import registry as connector_types
from nadi.pipeline.cutting.restored import settle
from nadi.pipeline.node import AppText, NodeOptions
from nadi.pipeline.revision.firstbase import Wish, begin
from nadi.pipeline.revision.inheritance import inherit
from nadi.pipeline.revision.update import revision_of
from nadi.pipeline.spec import AppSpec
from nadi.plan import plan_app
from nadi.plan.distribution import distribute
from nadi.server.distributed.deployment import home_of
from nadi.server.distributed.succession import Version, heritages

APP = """@app:name('A')
@source(type='http', receiver.url='http://127.0.0.1:1/in', @map(type='json'))
define stream S (k string, v long);
@sink(type='log') define stream Sums (k string, total long, n long);
@sink(type='log') define stream Late (k string, v long);
@sink(type='log') define stream Many (k string, n long);

@info(name='good') @dist(execGroup='good', parallel='{good}')
from S[v >= 0] select k, v insert into T;

@dist(execGroup='sums', parallel='{sums}')
partition with (k of T) begin
  @info(name='sums') from T#window.length(3) select k, sum(v) as total, count() as n insert into Sums;
  @info(name='late') from T#window.time(500) select k, v insert expired events into Late;
end;

@dist(execGroup='many') partition with (k of T) begin
  @info(name='many') from T select k, count() as n insert into Many;
end;
"""
STREAMS = ("Sums", "Late", "Many")


@pytest.fixture(autouse=True)
def _in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    channels_memory.CHANNELS.clear()
    monkeypatch.setattr(transport, "_open_of", lambda _kind: channels_memory.open_channel)


class Changing:
    """An app and the versions that it goes through."""

    def __init__(self, folder: Path, clock: Clock, chance: random.Random) -> None:
        self.folder, self.clock, self.chance = folder, clock, chance
        self.version: Version | None = None
        self.sent: Happened = []
        self.noted: dict[str, list[Noted]] = {stream: [] for stream in STREAMS}
        self.count = 0

    def become(self, text: str) -> None:
        """Drain what is there, if anything, and go on as another version."""
        self.count += 1
        generation = f"v{self.count}-0a1b2c" if self.version else ""
        topology = distribute(text, default_registry(), connector_types, generation=generation)
        after = Version(topology, {i.name: home_of(i.name, generation) for i in topology.instances}, {})
        begun = {} if self.version is None else heritages(self.version, after)
        if self.version is not None:
            self.end()
        options = NodeOptions(self.folder, conf={"nadi.buckets": "1"}, connectors=channels_ends.__name__)

        def shaped(spec: AppSpec) -> AppSpec:
            heritage = begun[spec.app].to_json() if spec.app in begun else ""
            home = after.home(spec.app)
            text = AppText(spec.text, home=home, heritage=heritage)
            state = self.folder / home
            state.mkdir(exist_ok=True)
            spec = replace(spec, buckets=1, state=str(state), home=home)
            inherit(text, plan_app(spec.text, default_registry()), options)
            return replace(spec, begin=settle(spec))

        self.cluster = LocalCluster(topology, self.folder / "unused" / str(self.count), self.clock, shaped=shaped)
        self.version = after
        for name in list(self.cluster.nodes):
            if self.chance.random() < 0.5:
                self.cluster.start(name)
        self.cluster.advance(0)

    def end(self) -> None:
        """All instances drain, each until it has; some die on the way, and one that has drained does so again."""
        specs = self.cluster._specs
        for name in specs:
            specs[name] = replace(specs[name], drains=True)
        for name in specs:
            for _ in range(1 + int(self.chance.random() * 2)):
                self.cluster.start(name)
                node = self.cluster.nodes[name]
                if self.chance.random() < 0.5:
                    node.batch(settled=self.chance.random() < 0.5, recorded=False)
                    self.cluster.start(name)
                    node = self.cluster.nodes[name]
                node.run()
                assert node.group.status.finished, name
                node.group.say_last()
        for group in self.cluster.topology.groups:
            clocks = {i.name: self.cluster.nodes[i.name].group.at.clock for i in group.instances}
            assert len(set(clocks.values())) == 1, clocks
        for stream, rows in self.noted.items():
            rows += self.cluster.noted(stream)
        self.sent += self.cluster.sent
        self.cluster.close()

    def back_up(self, *instances: str) -> dict[str, str]:
        """A revision of each of some instances, as they stand; the names."""
        names = {}
        for name in instances:
            with revision_of(self.cluster._specs[name], self.folder / "revisions" / name, aside=False) as made:
                names[name] = made.revision.name
        return names

    def restore(self, names: dict[str, str]) -> None:
        """Have instances begin with revisions of theirs, under another owner."""
        for name, revision in names.items():
            self.cluster.nodes.pop(name).close()
            spec = self.cluster._specs[name] = replace(self.cluster._specs[name], owner=1)
            store = Persistence(enabled=True, alone=False, location=str(self.folder / "revisions" / name))
            assert begin(Wish(spec, store, str(self.folder), revision, 1))
        for name in names:
            self.cluster.start(name)

    def feed(self, numbers: Sequence[int]) -> None:
        for n in numbers:
            self.cluster.send("S", (f"k{n * 7 % 23}", n if n % 5 else -n))
            if self.chance.random() < 0.3:
                self.cluster.advance(int(self.chance.random() * 200))

    @property
    def per_key(self) -> PerKey:
        return {stream: _per_key(sorted(rows, key=lambda row: row[0])) for stream, rows in self.noted.items()}


def _becomes(folder: Path, seed: int, *texts: str) -> None:
    """An app that gets one text after the other, while events come, gives what the whole one gives."""
    with Clock().kept() as clock:
        app = Changing(folder, clock, random.Random(seed))
        for step, text in enumerate(texts):
            app.become(text)
            app.feed(range(60 * step, 60 * (step + 1)))
            app.cluster.advance(50)
        app.cluster.advance(1_000)
        app.end()
        happened = [*app.sent, (clock.now, "", ())]
        assert app.per_key == whole(APP.format(good=1, sums=1), happened, *STREAMS)


@pytest.mark.parametrize("seed", range(4))
def test_one_then_three_then_two_instances_give_what_the_whole_app_gives(tmp_path: Path, seed: int) -> None:
    numbers = [(1, 1), (1, 3), (2, 2), (1, 1)]
    _becomes(tmp_path, seed, *(APP.format(good=good, sums=sums) for good, sums in numbers))


@pytest.mark.parametrize("seed", range(2))
def test_a_group_that_gets_another_name_goes_on_with_its_state_in_other_numbers_of_instances(
    tmp_path: Path, seed: int
) -> None:
    named = [
        APP.format(good=1, sums=sums).replace("execGroup='sums'", f"execGroup='{name}'")
        for name, sums in [("sums", 2), ("totals", 3), ("sums", 1)]
    ]
    _becomes(tmp_path, seed, *named)


@pytest.mark.parametrize("seed", range(3))
def test_an_app_that_was_restored_goes_on_in_other_numbers_of_instances_and_gives_nothing_twice(
    tmp_path: Path, seed: int
) -> None:
    text = APP.format(good=1, sums=2)
    with Clock().kept() as clock:
        app = Changing(tmp_path, clock, random.Random(seed))
        app.become(text)
        app.feed(range(40))
        app.cluster.advance(50)
        instances = sorted(app.cluster.nodes)
        app.chance.shuffle(instances)
        names = app.back_up(*instances[::2])
        app.feed(range(40, 80))
        app.cluster.advance(50)
        names |= app.back_up(*instances[1::2])  # those of a revision of an app are not of one moment
        app.feed(range(80, 120))
        app.cluster.advance(50)
        stood = {name: node.group.at.n for name, node in app.cluster.nodes.items()}
        app.restore(names)
        assert {name: node.group.at.n < stood[name] for name, node in app.cluster.nodes.items()} == dict.fromkeys(
            names, True
        )
        app.become(APP.format(good=2, sums=3))
        app.feed(range(120, 160))
        app.cluster.advance(1_000)
        app.end()
        happened = [*app.sent, (clock.now, "", ())]
        assert app.per_key == whole(text, happened, *STREAMS)
