"""Revisions in files of a node that has a partner: whatever fails, what counts at one node is whole at the other one."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from eventsync.pair_recording import Recorder, recorder_in
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from nadi.config import Persistence
from nadi.errors import NadiError
from nadi.eventsync.contract import Surplus
from nadi.eventsync.objects import path_in
from nadi.eventsync.objectscopy import ObjectsCopy
from nadi.kernel.contract import Segment
from nadi.kernel.rows.payloads import VERSION, encode_entries
from nadi.persistence.contract import Store
from nadi.persistence.revisions import Meta, delete_revision, delete_revisions, read_revision, write_revision
from nadi.persistence.stores import store_of
from nadi.replica.contract import ObjectPut, ObjectsGone

APP = "Orders of Zürich/1"
CUT = {"n": 7, "epoch": 2, "clock": 12_345, "started": 1, "ends": {"0": {"0": 99}}, "begins": {}, "highs": {}}
META = Meta(APP, "define stream S (a int);", CUT, 12_345, {"q/window": "00ff"}, {"state": str(VERSION)})


class Partner:
    """Has what its node is told to have: objects at once, removals when the log comes to them."""

    def __init__(self, node: Path, folder: Path, recorder: Recorder) -> None:
        self._node, self.copy = node, ObjectsCopy(folder)
        self._waiting: list[ObjectsGone] = []
        recorder.before = self._take
        self.away = False
        self.asked: list[object] = []
        recorder.fails = lambda _record: self.away

    def _take(self, record: object) -> None:
        self.asked.append(record)
        if self.away:
            return
        if isinstance(record, ObjectPut):
            path_in(self._node, record.path)  # as the sender looks for it
            data = (self._node / record.path).read_bytes()
            assert len(data) == record.length
            receipt = self.copy.receive(record.path, record.length)
            receipt.write(data)
            receipt.done()
        else:
            assert isinstance(record, ObjectsGone)
            self._waiting.append(record)

    def come_to_removals(self) -> None:
        for record in self._waiting:
            asyncio.run(self.copy.apply(record))
        self._waiting.clear()

    def catch_up(self) -> None:
        self.come_to_removals()
        active = ObjectsCopy(self._node)

        async def run() -> None:
            await self.copy.restore(active.missing(await self.copy.standing()), none)

        asyncio.run(run())


def none(found: Sequence[Surplus]) -> None:
    assert not found


def store_at(folder: Path, recorder: Recorder) -> Store:
    return store_of(Persistence(enabled=True, location=f"file://{folder}/~revisions?replica={recorder.socket}"), folder)


def state(*seeds: int) -> list[list[Segment]]:
    """A bucket with a segment for each seed."""

    def entries(seed: int) -> bytes:
        cells = {"held": ["d", 0, [(1, (random.Random(seed).randbytes(200),))]]}
        return encode_entries([("", str(seed), cells)])

    return [[Segment("q/window", seed, entries(seed)) for seed in seeds]]


def revision(store: Store, now: int, *seeds: int, keep: int | None = None) -> str:
    return write_revision(store, META, state(*seeds), now, keep)  # type: ignore[arg-type]


def whole(store: Store) -> list[str]:
    """The revisions, each read to its end."""
    names = store.names(APP)
    for name in names:
        read_revision(store, APP, name).verify()
    return names


class World:
    def __init__(self, folder: Path, recorder: Recorder) -> None:
        self.here, self.there = folder / "here", folder / "there"
        self.recorder = recorder
        self.partner = Partner(self.here, self.there, recorder)
        self.store, self.copy = store_at(self.here, recorder), store_at(self.there, recorder)

    def files(self) -> list[set[str]]:
        return [
            {
                path.relative_to(folder).as_posix()
                for path in folder.rglob("*")
                if path.is_file() and path.name != ".lock"
            }
            for folder in (self.here, self.there)
        ]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(tmp_path, recorder_in(monkeypatch))


def test_a_revision_is_at_both_nodes_when_it_is_written_its_manifest_last(world: World) -> None:
    name = revision(world.store, 1, 1, 2)
    assert whole(world.copy) == whole(world.store) == [name]
    assert world.files()[0] == world.files()[1]
    put = [record.path for record in world.recorder.done() if isinstance(record, ObjectPut)]
    assert put[-1].endswith(f"/1__{APP.replace('/', '%2F').replace('ü', '%C3%BC')}")
    assert ["segments" in path for path in put[:-1]] == [True] * len(put[:-1])


def test_revisions_that_are_not_kept_go_at_both_nodes(world: World) -> None:
    for now in range(1, 6):
        revision(world.store, now, now, now + 1, keep=2)
    world.partner.come_to_removals()
    assert whole(world.copy) == whole(world.store) == world.store.names(APP)[-2:]
    assert world.files()[0] == world.files()[1]
    delete_revision(world.store, APP, world.store.names(APP)[0])
    delete_revisions(world.store, APP)
    world.partner.come_to_removals()
    assert world.files() == [set(), set()]


def test_a_content_that_comes_again_is_not_taken_away_by_a_removal_that_is_late(world: World) -> None:
    revision(world.store, 1, 1, 2, keep=1)
    revision(world.store, 2, 3, keep=1)  # the contents 1 and 2 go: the partner has not come to that yet
    revision(world.store, 3, 1, 2, keep=1)
    world.partner.come_to_removals()
    assert whole(world.copy) == whole(world.store)
    assert world.files()[0] == world.files()[1]


def test_a_revision_that_the_partner_may_not_have_is_none_and_says_so(world: World) -> None:
    first = revision(world.store, 1, 1)
    world.partner.away = True
    with pytest.raises(NadiError) as failed:
        revision(world.store, 2, 1, 2)
    assert failed.value.condition == "PERSISTENCE_STORE_FAILED"
    assert "the test says so" in str(failed.value)
    assert whole(world.store) == [first]
    world.partner.away = False
    world.partner.catch_up()
    second = revision(world.store, 3, 1, 2, keep=2)
    world.partner.come_to_removals()
    assert whole(world.copy) == whole(world.store) == [first, second]
    assert world.files()[0] == world.files()[1]


def test_an_app_whose_name_is_too_long_for_a_file_of_the_partner_has_no_revision_and_keeps_nobody_out(
    world: World,
) -> None:
    meta = replace(META, app="A" * 230)  # with the time it can be the name of a file here
    with pytest.raises(NadiError) as failed:
        write_revision(world.store, meta, state(1), 1_700_000_000_000)  # type: ignore[arg-type]
    assert failed.value.condition == "PERSISTENCE_STORE_FAILED"
    asked = [record.path for record in world.partner.asked if isinstance(record, ObjectPut)]
    assert ["segments" in path for path in asked] == [True]
    world.partner.catch_up()
    assert world.store.names("A" * 230) == world.copy.names("A" * 230) == []


def test_a_content_that_is_damaged_at_one_node_is_whole_at_the_other_one_and_is_written_again(world: World) -> None:
    name = revision(world.store, 1, 1)
    (blob,) = world.here.rglob("*.zst")
    blob.write_bytes(bytes(blob.stat().st_size))
    with pytest.raises(NadiError):
        whole(world.store)
    assert whole(world.copy) == [name]
    second = revision(world.store, 2, 1, keep=2)
    assert whole(world.store) == [name, second]
    revision(world.store, 3, 1, keep=2)
    world.partner.come_to_removals()
    assert whole(world.copy) == whole(world.store)
    assert world.files()[0] == world.files()[1]


def test_revisions_of_a_folder_that_was_copied_there_are_read(world: World, tmp_path: Path) -> None:
    plain = store_of(Persistence(enabled=True, location=str(tmp_path / "plain")), tmp_path)
    name = revision(plain, 1, 1, 2)
    world.here.mkdir(exist_ok=True)
    (tmp_path / "plain").rename(world.here / "~revisions")
    assert whole(world.store) == [name]
    world.partner.catch_up()
    assert whole(world.copy) == [name]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.lists(st.integers(0, 4), min_size=1, max_size=3)),
        st.tuples(st.sampled_from(["away", "catch up", "removals", "delete", "damage"]), st.just([])),
    ),
    max_size=14,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_what_counts_at_the_active_node_is_whole_at_its_partner_whatever_is_done(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, list[int]]]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        world = World(tmp_path_factory.mktemp("world"), recorder_in(patch))
        for now, (step, seeds) in enumerate(steps, 1):
            match step:
                case "write":
                    try:
                        revision(world.store, now, *seeds, keep=2)
                    except NadiError:
                        assert world.partner.away
                case "away":
                    world.partner.away = True
                case "catch up":
                    world.partner.away = False
                    world.partner.catch_up()
                case "removals":
                    world.partner.come_to_removals()
                case "delete" if world.store.names(APP):
                    delete_revision(world.store, APP, world.store.names(APP)[0])
                case "damage":
                    for path in sorted(world.here.rglob("*.zst"))[:1]:
                        path.write_bytes(path.read_bytes()[:-1])
        world.partner.away = False
        world.partner.catch_up()
        assert world.files()[0] == world.files()[1]
        assert world.copy.names(APP) == world.store.names(APP)
