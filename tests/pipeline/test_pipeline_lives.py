"""What a node has in the state folder of an app that other nodes run, too."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from nadi.errors import NadiError
from nadi.pipeline.cutting.commitlog import Commit
from nadi.pipeline.cutting.cutlogs import open_commit_log, open_cut_log, take_over
from nadi.pipeline.cutting.cuts import Cut
from nadi.pipeline.cutting.forgotten import forget_cuts
from nadi.pipeline.cutting.restored import fresh_folder, put_in_place, settle
from nadi.pipeline.lives import give_shape, settle_in
from nadi.pipeline.spec import AppSpec


def on_node(tmp_path: Path, node: str, owner: int) -> AppSpec:
    """An app as a node has it that was given it with an epoch, before it has looked at anything."""
    state = tmp_path / node / "A"
    state.mkdir(parents=True, exist_ok=True)
    cuts = f"sqlite:///{tmp_path}/cuts.db"
    return AppSpec("A", "", str(state), journal="nats://nowhere", cuts=cuts, store=str(tmp_path / "store"), owner=owner)


def begun(spec: AppSpec, shape: str) -> None:
    """It runs with a shape, from its admission to the begin of its first run."""
    settle_in(spec)
    file = Path(spec.state) / "pipeline.json"
    if not file.exists():
        file.write_text(shape)
    running(spec)


def running(spec: AppSpec) -> AppSpec:
    taken = replace(spec, epoch=take_over(spec))
    taken.open_notes().begin()
    give_shape(taken)
    return taken


def shape_of(spec: AppSpec) -> str:
    return (Path(spec.state) / "pipeline.json").read_text()


def test_a_node_with_an_empty_home_has_the_shape_that_the_first_one_has_fixed(tmp_path: Path) -> None:
    begun(on_node(tmp_path, "one", 1), "four buckets")
    heir = on_node(tmp_path, "two", 2)
    begun(heir, "two buckets")
    assert shape_of(heir) == "four buckets"


def test_what_a_node_kept_is_forgotten_once_another_one_has_run_the_app(tmp_path: Path) -> None:
    first = on_node(tmp_path, "one", 1)
    begun(first, "x")
    (Path(first.state) / "sinks" / "0").mkdir(parents=True)
    settle_in(on_node(tmp_path, "one", 2))
    assert (Path(first.state) / "sinks").exists(), "nobody else has run it"
    begun(on_node(tmp_path, "two", 3), "")
    settle_in(on_node(tmp_path, "one", 4))
    assert not (Path(first.state) / "sinks").exists()
    assert shape_of(first) == "x"


def test_an_app_that_is_deployed_again_begins_with_nothing_of_its_first_life(tmp_path: Path) -> None:
    first = on_node(tmp_path, "one", 1)
    begun(first, "old")
    forget_cuts(first.cuts, "A")
    again = on_node(tmp_path, "one", 2)
    begun(again, "new")
    assert shape_of(again) == "new"


def test_a_change_of_the_shape_goes_along(tmp_path: Path) -> None:
    first = on_node(tmp_path, "one", 1)
    begun(first, "old")
    (Path(first.state) / "pipeline.json").write_text("changed")
    running(first)
    running(first)
    heir = on_node(tmp_path, "two", 2)
    settle_in(heir)
    assert shape_of(heir) == "changed"


def test_a_node_that_looked_before_another_one_began_does_not_run_with_another_shape(tmp_path: Path) -> None:
    slow, fast = on_node(tmp_path, "two", 2), on_node(tmp_path, "one", 1)
    settle_in(slow)
    (Path(slow.state) / "pipeline.json").write_text("two buckets")
    begun(fast, "four buckets")
    with pytest.raises(NadiError) as failure:
        running(slow)
    assert failure.value.condition == "TAKEN_MEANWHILE"
    begun(on_node(tmp_path, "two", 3), "two buckets")
    assert shape_of(slow) == "four buckets"


def committed(spec: AppSpec, n: int) -> None:
    """A run of the app has done a cut."""
    epoch = take_over(spec)
    open_cut_log(spec, epoch).append(Cut(n, epoch, 0, 0, {}))
    open_commit_log(spec, epoch).append(Commit(n, epoch, None, (), deltas=(), bases=(), receipts=()))


def test_what_a_changed_app_begins_with_is_found_by_the_next_node_until_something_is_committed(tmp_path: Path) -> None:
    first = on_node(tmp_path, "one", 1)
    begun(first, "old")
    committed(first, 0)
    fresh = fresh_folder(Path(first.state))
    (fresh / "0.state").write_bytes(b"state of the old text")
    (fresh / "restored.json").write_text("{}")
    put_in_place(first, "new")
    assert open_commit_log(first).recovered() is None
    heir = on_node(tmp_path, "two", 2)
    settle_in(heir)
    restored = Path(heir.state) / "restored"
    assert {f.name: f.read_bytes() for f in restored.iterdir()} == {
        "0.state": b"state of the old text",
        "restored.json": b"{}",
    }
    assert (settle(heir), shape_of(heir)) == (str(restored), "new")
    running(heir)
    committed(heir, 1)
    third = on_node(tmp_path, "three", 3)
    settle_in(third)
    assert (settle(third), shape_of(third)) == ("", "new")
    assert list((tmp_path / "store" / "begin").iterdir()) == []
