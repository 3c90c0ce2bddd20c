"""What has made a cut stands in it, and a nadi goes on only where its kernels would have given the same."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from pipeline_local import LocalNode
from pipeline_testlog import committed

from nadi.config import release
from nadi.errors import NadiError
from nadi.kernel import semantics
from nadi.pipeline.cutting import makers
from nadi.pipeline.cutting.cutlog import current_epoch
from nadi.pipeline.cutting.cutlogs import cuts_folder, newest_cut, open_cut_log
from nadi.pipeline.cutting.cuts import Cut
from nadi.pipeline.cutting.makers import Maker
from nadi.pipeline.spec import AppSpec

TEXT = """@app:name('A')
@source(type='test', file='{folder}/in', endless='true') define stream In (k string, n long);
@sink(type='test', file='{folder}/out') define stream Out (k string, total long);
from In select k, sum(n) as total insert into Out;"""

Speak = Callable[[str, int], None]


@pytest.fixture
def spec(tmp_path: Path) -> AppSpec:
    (tmp_path / "state").mkdir()
    text = TEXT.format(folder=tmp_path)
    return AppSpec("A", text, str(tmp_path / "state"), outputs=("Out",), connectors="pipeline_testlog", order_idle=0)


@pytest.fixture
def run_by(monkeypatch: pytest.MonkeyPatch) -> Speak:
    """From now on this process is a nadi of this version, whose kernels have these semantics."""

    def speak(version: str, number: int) -> None:
        monkeypatch.setenv(release.VARIABLE, version)
        for where in (semantics, makers):
            monkeypatch.setattr(where, "SEMANTICS", number)

    return speak


def put(spec: AppSpec, *numbers: int) -> None:
    with (Path(spec.state).parent / "in").open("a") as out:
        out.write("".join(f"{1_000 + n}\t{json.dumps(['a', n])}\n" for n in numbers))


def run(spec: AppSpec) -> list[object]:
    """One life of a node; -> all that its sink has."""
    node = LocalNode(spec)
    try:
        node.run()
    finally:
        node.close()
    return [row["total"] for row in committed(Path(spec.state).parent / "out")]


def test_a_cut_says_which_nadi_has_made_it_with_which_text_and_settings(spec: AppSpec, run_by: Speak) -> None:
    run_by("1.2.0", 4)
    put(spec, 1)
    run(spec)
    last = open_cut_log(spec).last()
    assert last is not None
    assert (last.by.nadi, last.by.semantics) == ("1.2.0", 4)
    assert last.by == Maker.of(spec)
    assert len({last.by.text, last.by.settings, ""}) == 3


def test_a_cut_of_before_says_nothing_and_is_the_same_cut() -> None:
    cut = Cut(3, 1, 30, 0, {(0, 0): 3}, by=Maker("1.2.0", 4, "ab", "cd"))
    told = cut.to_offset()
    assert Cut.from_offset(told).by == cut.by
    del told["by"]
    assert Cut.from_offset(told).by == Maker()
    assert Cut.from_offset(told) == cut


def test_an_older_nadi_does_not_go_on_after_a_newer_one_and_fences_nobody(spec: AppSpec, run_by: Speak) -> None:
    run_by("1.3.0", 2)
    put(spec, 1)
    run(spec)
    epoch = current_epoch(cuts_folder(spec.place.state))
    run_by("1.2.0", 1)
    with pytest.raises(NadiError) as found:
        run(spec)
    assert found.value.diagnostic.condition == "MADE_BY_NEWER"
    assert "of 'A' was made by nadi 1.3.0, whose kernels have semantics 2; nadi 1.2.0" in str(found.value)
    assert current_epoch(cuts_folder(spec.place.state)) == epoch
    run_by("1.4.0", 2)
    put(spec, 2)
    assert run(spec) == [1, 3]


def test_a_newer_nadi_goes_on_where_an_older_one_has_committed(spec: AppSpec, run_by: Speak) -> None:
    run_by("1.2.0", 1)
    put(spec, 1)
    run(spec)
    run_by("1.3.0", 2)
    put(spec, 2)
    assert run(spec) == [1, 3]
    last = newest_cut(spec)
    assert last is not None
    assert last.by.semantics == 2


def test_a_newer_nadi_does_not_take_a_cut_that_an_older_one_has_left(spec: AppSpec, run_by: Speak) -> None:
    run_by("1.2.0", 1)
    put(spec, 1)
    run(spec)
    put(spec, 2)
    leave_a_cut(spec)
    run_by("1.3.0", 2)
    with pytest.raises(NadiError) as found:
        run(spec)
    assert found.value.diagnostic.condition == "CUT_LEFT_BY_OLDER"
    run_by("1.2.0", 1)
    assert run(spec) == [1, 3]
    run_by("1.3.0", 2)
    put(spec, 3)
    assert run(spec) == [1, 3, 6]


def leave_a_cut(spec: AppSpec) -> None:
    """A run that dies when it has logged a cut."""
    node = LocalNode(spec)
    try:
        assert node.group.look()
    finally:
        node.close()
