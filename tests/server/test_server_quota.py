"""Finding N9: a user has so many apps and no more."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
from restworker import rest_worker

from nadi.errors import NadiError
from nadi.server.quota import Quota
from nadi.server.security.users import User

VIC, ADA = User("vic", (), False), User("ada", ("admin",), True)


def named(name: str) -> bytes:
    return f"@App:name('{name}') define stream In (a int); from In select a insert into Out;".encode()


def taken(quota: Quota, user: User | None, there: list[str], name: str) -> bool:
    try:
        with quota.one_more(user, named(name)) as is_there:
            there.append(name)
            is_there(name)
    except NadiError:
        return False
    return True


def test_a_user_has_so_many_apps_and_no_more_until_one_goes(tmp_path: Path):
    there: list[str] = []
    quota = Quota(tmp_path / "owners.json", 2, lambda: there)
    assert [taken(quota, VIC, there, name) for name in "ABC"] == [True, True, False]
    assert taken(quota, VIC, there, "A")  # an update
    assert taken(quota, User("eve", (), False), there, "D")
    assert [taken(quota, ADA, there, name) for name in "EFG"] == [True] * 3
    assert taken(quota, None, there, "H")  # nobody has to say who they are
    again = Quota(tmp_path / "owners.json", 2, lambda: there)
    assert not taken(again, VIC, there, "C")
    there.remove("B")
    assert taken(again, VIC, there, "C")


def test_no_bound_is_none(tmp_path: Path):
    there: list[str] = []
    quota = Quota(tmp_path / "owners.json", 0, lambda: there)
    assert all(taken(quota, VIC, there, f"A{n}") for n in range(50))


def test_what_is_there_does_not_count_as_what_comes_too(tmp_path: Path):
    """An answer that is on its way when the next request comes."""
    there: list[str] = []
    quota = Quota(tmp_path / "owners.json", 2, lambda: there)
    with quota.one_more(VIC, named("A")) as is_there:
        there.append("A")
        is_there("A")
        assert taken(quota, VIC, there, "B")
        assert not taken(quota, VIC, there, "C")


def test_who_deploys_many_at_the_same_time_gets_no_more(tmp_path: Path):
    there: list[str] = []
    quota, together = Quota(tmp_path / "owners.json", 3, lambda: list(there)), Barrier(10)

    def deploy(n: int) -> bool:
        together.wait()
        return taken(quota, VIC, there, f"A{n}")

    with ThreadPoolExecutor(10) as threads:
        assert sum(threads.map(deploy, range(10))) == 3


@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_rest_answers_403_to_the_app_that_is_one_too_many(tmp_path: Path, method: str):
    with rest_worker(tmp_path, nadi={"apps": {"user": 2}}) as worker:

        def sent(name: str, who: str = "ops") -> int:
            return worker.api.request(method, "/siddhi-apps", content=named(name), auth=(who, "right")).status_code

        assert [sent(name) for name in "ABC"] == [201, 201, 403]
        answer = worker.api.request(method, "/siddhi-apps", content=named("C"), auth=("ops", "right"))
        assert (answer.json()["code"], "nadi.apps.user" in answer.json()["message"]) == (800101, True)
        assert sent("A") == (409 if method == "POST" else 200)
        assert sent("C", "ada") == 201
        assert worker.api.delete("/siddhi-apps/A", auth=("ops", "right")).status_code == 200
        assert sent("D") == 201
