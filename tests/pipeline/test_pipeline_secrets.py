"""Finding 7: what a node keeps of an app has no value of its connections, and an app whose password changes is the same app."""

from __future__ import annotations

from pathlib import Path

import pytest

from nadi.lang.refs import places_of
from nadi.persistence.revisions import meta_of
from nadi.pipeline.engine import plan_app
from nadi.pipeline.node import AppText, NodeOptions, make_spec
from nadi.pipeline.revision.update import plan_update
from nadi.pipeline.shape import read_text
from nadi.pipeline.spec import AppSpec

TEXT = """@app:name('A')
@source(type='file', file.uri='${FOLDER}/in', @map(type='json')) define stream S (a int);
@sink(type='http', publisher.url='http://u:${PASSWORD}@127.0.0.1/', basic.auth.password='${PASSWORD}', @map(type='json'))
define stream O (a int);
from S[a > ${LIMIT}] select a insert into O;"""


def text_of(folder: Path, password: str = "S3cret", limit: str = "5") -> AppText:
    return AppText.of(TEXT, {"FOLDER": str(folder), "PASSWORD": password, "LIMIT": limit}, "a.siddhi")


def spec_of(folder: Path, text: AppText) -> AppSpec:
    (folder / "in").touch()
    return make_spec(text, plan_app(text.text, text.variables), NodeOptions(folder / "state"), 1, "")


def kept(folder: Path) -> str:
    return "".join(p.read_text(errors="replace") for p in (folder / "state").rglob("*") if p.is_file())


def test_the_state_folder_and_the_plan_have_no_secret_and_connectors_have_it(tmp_path: Path) -> None:
    text = text_of(tmp_path)
    spec = spec_of(tmp_path, text)
    app = spec.plan()
    assert "S3cret" not in kept(tmp_path) + repr(text) + app.text + meta_of(app, {"clock": 1, "n": 1}).text
    (sink,) = spec.load_connectors().connectors(app, "sink")
    assert sink.options["basic.auth.password"] == "S3cret"
    assert sink.options["publisher.url"] == "http://u:S3cret@127.0.0.1/"
    assert AppSpec.from_json(spec.to_json()).plan().text == app.text


def test_an_app_with_another_password_is_the_same_app_and_its_hosts_begin_anew(tmp_path: Path) -> None:
    before = spec_of(tmp_path, text_of(tmp_path))
    other = text_of(tmp_path, "another")
    after = spec_of(tmp_path, other)
    assert before.text == after.text == read_text(tmp_path / "state" / "A")
    assert before.id != after.id
    options = NodeOptions(tmp_path / "state")
    assert plan_update(other, plan_app(other.text, other.variables), options, "") is None


def test_an_app_with_another_limit_is_another_text(tmp_path: Path) -> None:
    spec_of(tmp_path, text_of(tmp_path))
    assert text_of(tmp_path, limit="6").text != read_text(tmp_path / "state" / "A")


def test_which_file_is_read_is_a_part_of_the_text(tmp_path: Path) -> None:
    assert f"file.uri='{tmp_path}/in'" in text_of(tmp_path).text


@pytest.mark.parametrize("names", [("a.b", "a_b"), ("x", "x y")])
def test_options_of_refs_are_kept_apart_too(names: tuple[str, str]) -> None:
    refs = {
        n: ("http", {"publisher.url": f"http://{i}", "basic.auth.password": f"S3cret{i}"}) for i, n in enumerate(names)
    }
    text = "".join(f"@sink(ref='{n}', @map(type='json')) define stream S{i} (a int);" for i, n in enumerate(names))
    made = AppText.of(text, {}, refs=refs)
    assert "S3cret" not in made.text
    assert sorted(made.variables.values()) == ["S3cret0", "S3cret1", "http://0", "http://1"]
    app = plan_app(made.text, made.variables)
    found = [a.get("basic.auth.password") for s in app.streams.values() for a in s.annotations]
    assert found == ["S3cret0", "S3cret1"]
    assert len(places_of(refs)[1]) == 4
