"""The apps of the passive node: what goes wrong with one of them is told, and no other one waits for it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from nadi.pipeline.node import AppText
from nadi.server.appfiles import AppFile, AppFiles
from nadi.server.pair.apptexts import AppTexts
from nadi.server.pair.passiveapps import PassiveApps

TEXT = "@App:name('{}') define stream S (a int);"


class Checks:
    """Checks nothing; fails as a defect would, for an app of this name."""

    def checked(self, file: AppFile) -> AppText:
        if file.name == "Broken":
            raise RecursionError("maximum recursion depth exceeded")
        return AppText.of(file.text, {})


class Over:
    """Work that is over."""

    is_over = True

    def close(self) -> None:
        """Nothing is under way."""


class Compiles:
    """Notes what it is to compile; `fails` as a defect would."""

    def __init__(self) -> None:
        self.fails = False
        self.asked: list[set[str]] = []

    def __call__(self, texts: Mapping[str, AppText]) -> Over:
        self.asked.append(set(texts))
        if self.fails:
            raise ValueError("a compiler that fails")
        return Over()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("Broken", "Whole"):
        (tmp_path / "apps").mkdir(exist_ok=True)
        (tmp_path / "apps" / f"{name}.siddhi").write_text(TEXT.format(name))
    return tmp_path


def passive(folder: Path, compiles: Compiles) -> PassiveApps:
    files = AppFiles(folder / "apps", 1_000)
    return PassiveApps(files, AppTexts(folder / "apps.json"), Checks(), compiles, 0.05, lambda: None)


def test_an_app_on_which_the_check_itself_fails_is_inactive_and_the_others_are_ready(folder: Path):
    compiles = Compiles()
    apps = passive(folder, compiles)
    apps.look()
    assert [(found.name, found.state) for found in apps.statuses()] == [("Broken", "inactive"), ("Whole", "passive")]
    assert "maximum recursion depth" in apps.statuses()[0].reason
    assert (compiles.asked, apps.waits()) == ([{"Whole"}], "")


def test_a_look_that_fails_is_made_again(folder: Path):
    compiles = Compiles()
    compiles.fails = True
    apps = passive(folder, compiles)
    apps.start()
    try:
        while len(compiles.asked) < 2:
            apps.wake()
        assert apps.waits() == "its apps have not been looked at yet"
        compiles.fails = False
        while apps.waits():
            apps.wake()
        assert [found.name for found in apps.statuses()] == ["Broken", "Whole"]
    finally:
        apps.close()
