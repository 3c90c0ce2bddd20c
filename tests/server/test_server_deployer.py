"""The deployer: what runs becomes what the folder has."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from server_build import FakeHost, FakePreparation, waits

from nadi.errors import NadiError
from nadi.io.retry import Policy
from nadi.metrics import AppProgress
from nadi.pipeline.engine import plan_app
from nadi.pipeline.node import AppText
from nadi.server import deployer as module
from nadi.server.appfiles import AppFiles
from nadi.server.apps import detailed
from nadi.server.claims import At, Claims, listens_at
from nadi.server.deployer import Deployer

WITHIN = 100.0


@pytest.fixture
def host() -> FakeHost:
    return FakeHost()


@pytest.fixture
def files(tmp_path: Path) -> AppFiles:
    return AppFiles(tmp_path, 1_000)


@pytest.fixture
def deployer(files: AppFiles, host: FakeHost) -> Iterator[Deployer]:
    made = Deployer(files, FakePreparation(), 3_600.0)
    made.start(host)
    yield made
    host.free.set()
    made.close()


def settled(deployer: Deployer, name: str) -> str:
    deployer.look()
    found = deployer.settled(name, WITHIN)
    assert found is not None
    return found.state


def test_a_file_that_comes_is_deployed_at_once(deployer: Deployer, files: AppFiles, host: FakeHost):
    files.write("A", "one")
    waits(lambda: host.runs == {"A": "one"})  # nobody woke the deployer: the folder did
    assert settled(deployer, "A") == "active"


def test_a_file_that_changes_is_updated_and_one_that_goes_is_undeployed(
    deployer: Deployer, files: AppFiles, host: FakeHost
):
    files.write("A", "one")
    assert settled(deployer, "A") == "active"
    files.write("A", "two")
    assert settled(deployer, "A") == "active"
    assert host.runs == {"A": "two"}
    files.remove("A")
    deployer.look()
    assert deployer.status("A") is None
    waits(lambda: host.runs == {})
    assert host.asked == [("add", "A"), ("remove", "A"), ("add", "A"), ("remove", "A")]


def test_an_app_that_cannot_run_is_inactive_with_the_reason_until_its_file_changes(
    deployer: Deployer, files: AppFiles, host: FakeHost
):
    files.write("A", "wrong")
    assert settled(deployer, "A") == "inactive"
    found = deployer.status("A")
    assert found is not None
    assert "APP_NOT_READABLE" in found.reason
    assert host.asked == []
    files.write("A", "right")
    assert settled(deployer, "A") == "active"


def test_what_may_pass_is_tried_again(
    deployer: Deployer, files: AppFiles, host: FakeHost, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, "RETRY", Policy(1, 1))
    files.write("A", "fails")
    waits(lambda: host.asked.count(("add", "A")) > 2)
    found = deployer.status("A")
    assert found is not None
    assert found.state == "inactive"


def test_apps_do_not_wait_for_one_that_hangs(deployer: Deployer, files: AppFiles, host: FakeHost):
    files.write("Slow", "hangs")
    waits(lambda: ("add", "Slow") in host.asked)
    for name in "ABC":
        files.write(name, name)
    assert [settled(deployer, name) for name in "ABC"] == ["active"] * 3
    found = deployer.status("Slow")
    assert found is not None
    assert found.state == "inactive"
    assert deployer.starting() == ["Slow"]


def test_any_number_of_apps_are_on_their_way_at_once(deployer: Deployer, files: AppFiles, host: FakeHost):
    names = [f"App{n}" for n in range(40)]
    for name in names:
        files.write(name, "hangs")
    waits(lambda: {name for _, name in host.asked} == set(names))
    host.free.set()
    assert {settled(deployer, name) for name in names} == {"active"}


def test_an_app_on_its_way_is_starting_and_says_what_it_waits_for(deployer: Deployer, files: AppFiles, host: FakeHost):
    files.write("A", "hangs")
    waits(lambda: ("add", "A") in host.asked)
    found = deployer.status("A")
    assert found is not None
    assert (found.starting, detailed(found)["status"], found.reason) == (True, "starting", "it is being deployed")
    deployer.note(AppProgress("A", awaits="its queries are compiled"))
    found = deployer.status("A")
    assert found is not None
    assert (found.starting, found.state, found.reason) == (True, "inactive", "its queries are compiled")
    host.free.set()
    assert settled(deployer, "A") == "active"
    found = deployer.status("A")
    assert found is not None
    assert (found.starting, detailed(found)["status"], found.reason) == (False, "active", "")


def test_a_file_that_changes_while_its_app_is_deployed_is_deployed_next(
    deployer: Deployer, files: AppFiles, host: FakeHost
):
    files.write("A", "hangs")
    waits(lambda: ("add", "A") in host.asked)
    files.write("A", "two")
    deployer.look()
    host.free.set()
    assert settled(deployer, "A") == "active"
    waits(lambda: host.runs == {"A": "two"})


def test_an_app_that_fails_later_is_started_again(
    deployer: Deployer, files: AppFiles, host: FakeHost, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, "RETRY", Policy(1, 1))
    files.write("A", "one")
    assert settled(deployer, "A") == "active"
    host.runs.clear()  # the node has let it go
    deployer.note(AppProgress("A", "failed", last_error="it broke"))
    waits(lambda: host.runs == {"A": "one"})
    assert settled(deployer, "A") == "active"


def test_an_app_that_waits_for_its_next_attempt_is_inactive_with_the_error(
    deployer: Deployer, files: AppFiles, host: FakeHost
):
    files.write("A", "one")
    assert settled(deployer, "A") == "active"
    deployer.note(AppProgress("A", "waiting", last_error="it broke"))
    found = deployer.status("A")
    assert found is not None
    assert (found.state, found.reason) == ("inactive", "it broke")


def test_an_app_is_restarted_on_request(deployer: Deployer, files: AppFiles, host: FakeHost):
    files.write("A", "one")
    assert settled(deployer, "A") == "active"
    assert deployer.restart("A")
    waits(lambda: host.asked == [("add", "A"), ("remove", "A"), ("add", "A")])
    assert settled(deployer, "A") == "active"
    assert not deployer.restart("B")


def test_the_node_begins_with_the_files_that_are_right(files: AppFiles, host: FakeHost):
    files.write("A", "one")
    files.write("B", "wrong")
    made = Deployer(files, FakePreparation(), 3_600.0)
    assert [text.text for text in made.first()] == ["one"]
    found = made.status("B")
    assert found is not None
    assert found.state == "inactive"
    assert made.starting() == ["A"]
    made.start(host)
    made.note(AppProgress("A", "running"))
    assert made.settled("A", WITHIN) is not None
    assert made.starting() == []
    made.close()
    assert host.asked == []  # the node has it already


def test_an_app_that_waits_for_its_first_event_runs(files: AppFiles, host: FakeHost):
    files.write("A", "one")
    made = Deployer(files, FakePreparation(), 3_600.0)
    made.first()
    made.start(host)
    made.note(AppProgress("A", "starting"))
    assert made.starting() == ["A"]
    made.note(AppProgress("A", "starting", carried=True))
    assert made.starting() == []
    found = made.status("A")
    assert found is not None
    assert found.state == "active"
    made.close()


def test_who_wants_to_know_is_told_of_apps_that_come_change_fail_and_go(
    deployer: Deployer, files: AppFiles, host: FakeHost
):
    seen: list[str] = []
    gone: list[str] = []

    def told() -> None:
        found = deployer.status("A")
        seen.append("gone" if found is None else found.state)

    deployer.tell(told, gone.append)
    files.write("A", "one")
    assert settled(deployer, "A") == "active"
    waits(lambda: seen[-1:] == ["active"])
    count = len(seen)
    deployer.note(AppProgress("A", "running", batches=1))
    assert len(seen) == count  # progress is no news
    deployer.note(AppProgress("A", "waiting", last_error="it broke"))
    assert seen[count:] == ["inactive"]
    assert gone == []
    files.remove("A")
    deployer.look()
    waits(lambda: seen[-1] == "gone")
    assert gone == ["A"]


def test_something_is_done_with_an_app_between_a_stop_and_the_next_start(
    deployer: Deployer, files: AppFiles, host: FakeHost
):
    files.write("A", "one")
    files.write("B", "two")
    assert [settled(deployer, name) for name in "AB"] == ["active"] * 2
    host.asked.clear()
    came = deployer.between("A", lambda text: (text.text, dict(host.runs)))
    assert came is not None
    assert came.result(WITHIN) == ("one", {"B": "two"})
    assert settled(deployer, "A") == "active"
    assert host.asked == [("remove without revision", "A"), ("add", "A")]
    assert deployer.between("C", lambda text: text) is None


def test_an_app_is_started_again_whatever_came_of_what_was_done_with_it(
    deployer: Deployer, files: AppFiles, host: FakeHost
):
    def fails(_text: object) -> None:
        raise ValueError("no")

    files.write("A", "one")
    assert settled(deployer, "A") == "active"
    came = deployer.between("A", fails)
    assert came is not None
    with pytest.raises(ValueError, match="no"):
        came.result(WITHIN)
    assert settled(deployer, "A") == "active"
    assert host.runs == {"A": "one"}


def test_who_waits_for_an_app_that_cannot_run_hears_why(deployer: Deployer, files: AppFiles, host: FakeHost):
    files.write("A", "wrong")
    assert settled(deployer, "A") == "inactive"
    came = deployer.between("A", lambda text: text)
    assert came is not None
    with pytest.raises(NadiError, match="APP_NOT_READABLE"):
        came.result(WITHIN)
    files.write("A", "stays")
    assert settled(deployer, "A") == "active"
    came = deployer.between("A", lambda text: text)
    assert came is not None
    with pytest.raises(NadiError, match="it is busy"):
        came.result(WITHIN)
    host.runs.clear()


def test_who_waits_when_the_deployer_closes_hears_it(files: AppFiles):
    made = Deployer(files, FakePreparation(), 3_600.0)
    files.write("A", "one")
    made.first()
    came = made.between("A", lambda text: text)
    assert came is not None
    made.close()
    with pytest.raises(NadiError, match="NODE_STOPPING"):
        came.result(WITHIN)
    with pytest.raises(NadiError, match="NODE_STOPPING"):
        made.between("A", lambda text: text)


def test_a_node_that_does_not_let_go_of_an_app_is_asked_again_later_and_not_at_once(
    deployer: Deployer, files: AppFiles, host: FakeHost, monkeypatch: pytest.MonkeyPatch
):
    waited: list[int] = []

    class Noted(Policy):
        def delay(self, tries: int) -> int:
            waited.append(tries)
            return 3_600_000

    monkeypatch.setattr(module, "RETRY", Noted(1, 1))
    files.write("A", "stays")
    assert settled(deployer, "A") == "active"
    files.remove("A")
    deployer.look()
    waits(lambda: waited == [1])
    files.write("B", "two")  # what else is due wakes the deployer, and it does not ask again
    assert settled(deployer, "B") == "active"
    assert host.asked.count(("remove", "A")) == 1
    host.runs["A"] = "goes"
    files.write("A", "goes")  # the file comes back, and goes: that is news
    deployer.look()
    files.remove("A")
    deployer.look()
    waits(lambda: "A" not in host.runs)


def test_who_waits_for_an_app_is_let_go_as_soon_as_the_deployer_is_closed(
    deployer: Deployer, files: AppFiles, host: FakeHost
):
    files.write("A", "hangs")
    deployer.look()
    with ThreadPoolExecutor() as aside:
        waiting = aside.submit(deployer.settled, "A", 10 * WITHIN)
        waits(lambda: host.asked == [("add", "A")])
        closing = aside.submit(deployer.close)
        try:
            found = waiting.result(WITHIN)
        finally:
            host.free.set()
        closing.result(WITHIN)
    assert found is not None
    assert found.state == "inactive"


# ---- whose address it is (finding N4)

LISTENS = "define stream S (a int); @source(type='http', receiver.url='{url}') define stream In (a int);"


def at(url: str) -> AppText:
    return AppText(LISTENS.format(url=url))


def addresses(text: AppText) -> list[At]:
    """In tests of the deployer a text is its URL, or has none."""
    return listens_at(plan_app(text.text)) if "http" in text.text else []


def test_a_path_belongs_to_the_app_that_had_it_first_until_that_is_undeployed(tmp_path: Path):
    claims = Claims(tmp_path / "addresses.json", addresses)
    claims.take("A", at("http://127.0.0.1:8006/in"))
    for other in (
        "http://127.0.0.1:8006/in",
        "http://0.0.0.0:8006/in",
        "http://localhost:8006/in",
        "https://127.0.0.1:8006/b",
    ):
        with pytest.raises(NadiError, match=r"ADDRESS_TAKEN.*'A'"):
            claims.take("B", at(other))
    claims.take("A", at("http://127.0.0.1:8006/in"))
    for other in ("http://127.0.0.1:8006/b", "http://127.0.0.1:8007/in", "http://127.0.0.2:8006/in"):
        claims.take("B", at(other))
    claims.drop("A")
    claims.take("B", at("http://127.0.0.1:8006/in"))


def test_an_app_that_listens_elsewhere_leaves_its_path_to_others(tmp_path: Path):
    claims = Claims(tmp_path / "addresses.json", addresses)
    claims.take("A", at("http://127.0.0.1:8006/in"))
    claims.take("A", at("http://127.0.0.1:8006/other"))
    claims.take("B", at("http://127.0.0.1:8006/in"))


def test_whose_a_path_is_outlasts_a_restart_and_not_its_app(tmp_path: Path):
    Claims(tmp_path / "addresses.json", addresses).take("B", at("http://127.0.0.1:8006/in"))
    again = Claims(tmp_path / "addresses.json", addresses)
    with pytest.raises(NadiError, match="ADDRESS_TAKEN"):
        again.take("A", at("http://127.0.0.1:8006/in"))
    again.keep(["A"])
    Claims(tmp_path / "addresses.json", addresses).take("A", at("http://127.0.0.1:8006/in"))


def test_a_second_app_gets_the_path_when_the_first_is_undeployed_and_not_while_it_is_stopped(
    tmp_path: Path, files: AppFiles, host: FakeHost
):
    url, again = "http://127.0.0.1:8006/in", "http://127.0.0.1:8006/in "
    made = Deployer(
        files, FakePreparation(), 3_600.0, Claims(None, lambda text: [At("h", 8006, text.text.strip(), False)])
    )
    made.start(host)
    try:
        files.write("A", url)
        assert settled(made, "A") == "active"
        files.write("B", again)
        assert settled(made, "B") == "inactive"
        stopped: list[bool] = []

        def look(_text: AppText) -> None:
            stopped.append("A" not in host.runs)
            made.restart("B")

        came = made.between("A", look)
        assert came is not None
        came.result(WITHIN)
        assert settled(made, "A") == "active"
        assert stopped == [True]
        assert settled(made, "B") == "inactive"
        status = made.status("B")
        assert status is not None
        assert "ADDRESS_TAKEN" in status.reason
        files.remove("A")
        made.look()
        waits(lambda: host.runs == {"B": again})
    finally:
        host.free.set()
        made.close()
