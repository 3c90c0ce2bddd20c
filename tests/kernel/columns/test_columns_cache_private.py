"""Finding 15: what others may have put into the cache is not run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from nadi.errors import NadiError
from nadi.kernel.columns.cached import cache_folder, cache_root, java_folder, note_compiled


@pytest.mark.parametrize(
    ("folder", "place"),
    [("", cache_root), ("", cache_folder), ("", java_folder), ("loops", cache_folder), ("java", java_folder)],
)
def test_a_cache_that_others_may_write_to_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, place: Callable[[], Path]
):
    monkeypatch.setenv("NADI_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache" / folder).mkdir(parents=True)
    (tmp_path / "cache" / folder).chmod(0o777)
    with pytest.raises(NadiError) as raised:
        place()
    assert raised.value.condition == "FOLDER_NOT_PRIVATE"


def test_what_is_kept_is_for_its_user_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("NADI_CACHE", str(tmp_path / "made" / "cache"))
    note_compiled("define stream S (a int);", ())
    assert [oct(p.stat().st_mode & 0o077) for p in (tmp_path / "made").rglob("*") if p.is_dir()] == ["0o0", "0o0"]


def test_a_cache_that_root_has_prepared_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """As in the image of a container."""
    monkeypatch.setenv("NADI_CACHE", str(tmp_path))
    monkeypatch.setattr("os.geteuid", lambda: 1_000)
    if tmp_path.stat().st_uid == 0:
        assert cache_root() == tmp_path
    else:
        with pytest.raises(NadiError):
            cache_root()
