"""Finding 12: the name of an app does not lead out of the state folder, and is none of the node's own."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nadi.errors import NadiError
from nadi.functions import default_registry
from nadi.plan import diagnose, plan_app
from nadi.plan.appnames import unsafe

TEXT = '-- an app\n@app:name("""{name}""")\ndefine stream S (a int);'

UNSAFE = [
    "../../escape",
    "/etc/cron.d/job",
    "..",
    ".",
    ".hidden",
    "a/b",
    "a\\\\b",
    "node.lock",
    "Node.Socket",
    "node.socket.new",
    "logs",
    "LOGS",
    "nats",
    "siddhi-app-persistence",
    "a\\u0000b",
    "a\nb",
    "\\u001b[2J",
    "\\u202egnp",
    " ",
    " padded",
    "ä" * 101,
]
KEPT = [
    "Orders",
    "Orders_2.eu",
    "My first app",
    "Größte Bestellungen",
    "注文",
    "App (v2) #3, 100% 'new'",
    "logs2",
    "x" * 200,
    "~root",
    "$HOME",
    "-rf",
]


@pytest.mark.parametrize("name", UNSAFE)
def test_a_name_that_is_no_folder_beside_the_others_is_an_error_with_its_place(name: str) -> None:
    text = TEXT.format(name=name)
    with pytest.raises(NadiError) as failed:
        plan_app(text, default_registry())
    assert failed.value.condition == "APP_NAME_UNSAFE"
    (found,) = diagnose(text, "a.siddhi", default_registry())
    assert (found.condition, found.span.line, found.span.column) == ("APP_NAME_UNSAFE", 2, 11)
    assert found.message.isprintable()


@pytest.mark.parametrize("name", KEPT)
def test_names_that_people_use_stay(name: str) -> None:
    assert plan_app(TEXT.format(name=name), default_registry()).name == name


def test_the_error_of_a_name_does_not_hide_the_others() -> None:
    text = (
        "@app:name('..') @app:playback(increment='1 sec') define stream S (a int); from Nowhere select * insert into O;"
    )
    found = [d.condition for d in diagnose(text, "", default_registry())]
    assert found == ["APP_NAME_UNSAFE", "ANNOTATION_REJECTED", "STREAM_NOT_DEFINED"]


@given(st.text(max_size=30))
def test_a_name_that_is_taken_is_one_part_of_a_path(name: str) -> None:
    if name and not unsafe(name):
        assert "/" not in name
        assert name not in (".", "..")
        assert "\0" not in name
