"""Apps of the active node run under its token, and all of them end when its term does."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from nadi.errors import NadiError, error
from nadi.metrics import AppProgress
from nadi.pipeline.node import AppText
from nadi.server.pair import ownedhost
from nadi.server.pair.ownedhost import OwnedHost


class Node:
    """Runs apps by name; one whose name is `Slow` ends only when it is broken off."""

    def __init__(self) -> None:
        self.runs: dict[str, int] = {}
        self.broken = threading.Event()
        self.enters: Callable[[str], object] = lambda _name: None

    def add(self, text: AppText, wanted: Callable[[], bool]) -> AppProgress:
        self.enters(text.text)
        if not wanted():
            raise error("APP_NOT_ON_NODE", app=text.text, folder="f", hint="")
        self.runs[text.text] = text.owner
        return AppProgress(text.text, "running")

    def remove(self, name: str, revision: bool = True) -> object:
        if name not in self.runs:
            raise error("APP_NOT_ON_NODE", app=name, folder="f", hint="")
        if name == "Slow":
            assert self.broken.wait(60)
        return self.runs.pop(name)

    def break_off(self) -> None:
        self.broken.set()


@pytest.fixture
def node() -> Node:
    return Node()


def host(node: Node, token: int = 7) -> OwnedHost:
    return OwnedHost(node, token, lambda _text: None, lambda text: text.text)


def test_an_app_runs_under_the_token_of_the_term(node: Node):
    host(node).add(AppText("A"))
    assert node.runs == {"A": 7}


def test_all_end_with_the_term_and_none_is_taken_after_it(node: Node):
    made = host(node)
    for name in "ABC":
        made.add(AppText(name))
    made.remove("B")
    made.end(gentle=True)
    assert node.runs == {}
    assert not node.broken.is_set()
    with pytest.raises(NadiError, match="NOT_ACTIVE"):
        made.add(AppText("D"))
    made.end(gentle=True)  # once more is nothing


@pytest.mark.parametrize("gentle", [True, False])
def test_what_does_not_end_by_itself_is_broken_off(node: Node, gentle: bool, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ownedhost, "GENTLE", 0.1)
    made = host(node)
    made.add(AppText("Slow"))
    made.add(AppText("A"))
    made.end(gentle)
    assert node.broken.is_set()
    assert node.runs == {}


def test_an_app_that_was_about_to_enter_when_the_term_ended_does_not_run(node: Node):
    made = host(node)
    node.enters = lambda _name: made.end(gentle=False)
    with pytest.raises(NadiError, match="APP_NOT_ON_NODE"):
        made.add(AppText("A"))
    assert node.runs == {}
