"""What the first start of an app has fixed is read as it was written, and one who damaged it is told so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nadi.errors import NadiError
from nadi.pipeline.engine import plan_app
from nadi.pipeline.node import AppText, NodeOptions, make_spec
from nadi.pipeline.revision.atrest import let_go
from nadi.pipeline.revision.update import plan_update
from nadi.pipeline.shape import Shape, noted

APP = "@app:name('A') @source(type='inMemory', topic='t') define stream S (n int); from S select n insert into O;"
WHOLE = json.loads(Shape("single", 1, {"inMemory source of S (topic=t)": 0}, APP).to_json())


@pytest.fixture
def options(tmp_path: Path) -> NodeOptions:
    """A state folder whose app has started."""
    options = NodeOptions(tmp_path / "state")
    make_spec(AppText(APP), plan_app(APP), options, 1, "")
    return options


DAMAGES = {
    "nothing": b"",
    "a part": json.dumps(WHOLE).encode()[:40],
    "no JSON": b"buckets: 1",
    "no UTF-8": json.dumps(WHOLE).encode().replace(b"single", b"\xff"),
    "a list": b"[]",
    "no version": json.dumps({k: v for k, v in WHOLE.items() if k != "version"}).encode(),
    "a version to come": json.dumps({**WHOLE, "version": 99}).encode(),
    "no inputs": json.dumps({k: v for k, v in WHOLE.items() if k != "inputs"}).encode(),
    "no sources": json.dumps({"version": 1, "sharding": "single", "buckets": 1}).encode(),
    "text for a number": json.dumps({**WHOLE, "buckets": "1"}).encode(),
    "no bucket": json.dumps({**WHOLE, "buckets": 0}).encode(),
    "inputs that are a list": json.dumps({**WHOLE, "inputs": ["S"]}).encode(),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_note_that_was_damaged_is_named_with_what_to_do(options: NodeOptions, damage: bytes) -> None:
    path = options.state / "A" / "pipeline.json"
    path.write_bytes(damage)
    with pytest.raises(NadiError) as told:
        make_spec(AppText(APP), plan_app(APP), options, 1, "")
    assert told.value.condition == "SHAPE_DAMAGED"
    assert str(path) in str(told.value)
    assert "nadi restore" in str(told.value)
    assert path.read_bytes() == damage


def test_a_change_of_the_text_names_it_too(options: NodeOptions) -> None:
    (options.state / "A" / "pipeline.json").write_text("{")
    text = AppText(APP.replace("select n ", "select n + 1 as n "))
    app = plan_app(text.text)
    for act in (lambda: plan_update(text, app, options, ""), lambda: let_go(text, app, options, lambda _apps: "")):
        with pytest.raises(NadiError, match="SHAPE_DAMAGED"):
            act()


def test_a_note_is_for_its_owner_alone(options: NodeOptions) -> None:
    path = options.state / "A" / "pipeline.json"
    assert path.stat().st_mode & 0o077 == 0
    assert [p.name for p in path.parent.iterdir() if "pipeline" in p.name] == ["pipeline.json"]


def test_a_folder_without_one_has_not_started(tmp_path: Path) -> None:
    assert noted(tmp_path) is None
