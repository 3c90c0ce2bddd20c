"""Finding 12: the folder of an app lies in the state folder, and is a folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from nadi.errors import NadiError
from nadi.functions import default_registry
from nadi.pipeline.appfolder import app_folder
from nadi.pipeline.node import AppText, NodeOptions, make_spec
from nadi.plan import plan_app


def test_the_folder_of_an_app_is_named_by_it(tmp_path: Path) -> None:
    assert app_folder(tmp_path, "Größte Bestellungen") == tmp_path.resolve() / "Größte Bestellungen"


@pytest.mark.parametrize("name", ["../escape", "/tmp/escape", "..", "", "node.lock", "logs"])
def test_a_name_that_leads_elsewhere_has_no_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(NadiError, match="APP_FOLDER_UNSAFE"):
        app_folder(tmp_path / "state", name)
    assert not any(tmp_path.iterdir())


def test_a_link_in_the_place_of_an_apps_folder_is_refused_and_nothing_is_written_behind_it(tmp_path: Path) -> None:
    state, elsewhere = tmp_path / "state", tmp_path / "elsewhere"
    state.mkdir()
    elsewhere.mkdir()
    (state / "A").symlink_to(elsewhere)
    text = "@app:name('A') define stream S (a int);"
    with pytest.raises(NadiError, match="it is a link"):
        make_spec(AppText(text), plan_app(text, default_registry()), NodeOptions(state), 1, "")
    assert not any(elsewhere.iterdir())


def test_a_file_in_the_place_of_an_apps_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "A").touch()
    with pytest.raises(NadiError, match="it is no folder"):
        app_folder(tmp_path, "A")
