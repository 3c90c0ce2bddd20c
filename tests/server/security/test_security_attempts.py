"""Who tries passwords and tokens without end is slowed down, and nobody else: by user and address, and by address alone."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from security_build import (
    Browser,
    Clock,
    application_of,
    identity_of,
    local_identity,
    serving,
    serving_identity,
    users_section,
)
from servers.identityserver import IdentityServer, identity_server

from nadi.config.auth import Auth
from nadi.config.deployment import deployment_of
from nadi.errors import NadiError, error
from nadi.server.security import allowances
from nadi.server.security.allowances import WITHIN, Allowance, place
from nadi.server.security.attempts import FREE, KNOWN_FOR, Attempts
from nadi.server.security.audit import Origin
from nadi.server.security.entrance import Busy, Entrance, TooMany
from nadi.server.security.external import provider
from nadi.server.security.external.service import Service


def tried(attempts: Attempts, user: str, address: str, right: bool = False) -> float:
    """The time that an attempt has to wait; one that has not to is made."""
    attempt = attempts.begin(user, address)
    if attempt.wait == 0.0:
        attempts.end(attempt, right)
    return attempt.wait


# ---- passwords


def test_one_password_on_many_users_from_one_address_is_slowed():
    clock = Clock()
    attempts = Attempts(clock, of_address=20)
    waits = [tried(attempts, f"user-{n}", "10.0.0.1") for n in range(21)]
    assert waits == [0.0] * 20 + [WITHIN / 20]
    assert tried(attempts, "user-0", "10.0.0.2") == 0.0  # another address is none of it
    clock.now += WITHIN / 20
    assert tried(attempts, "user-22", "10.0.0.1") == 0.0  # one comes back
    assert tried(attempts, "user-23", "10.0.0.1") > 0.0
    clock.now += WITHIN
    assert [tried(attempts, f"user-{n}", "10.0.0.1") for n in range(30, 50)] == [0.0] * 20  # all of it


def test_right_passwords_take_nothing_of_what_an_address_may():
    attempts = Attempts(Clock(), of_address=3)
    assert [tried(attempts, f"user-{n}", "10.0.0.1", right=True) for n in range(50)] == [0.0] * 50
    assert tried(attempts, "mallory", "10.0.0.1") == 0.0


def test_a_user_who_is_known_at_an_address_is_not_held_up_by_others_there():
    clock = Clock()
    attempts = Attempts(clock, of_address=3)
    tried(attempts, "ada", "10.0.0.1", right=True)
    while tried(attempts, f"user-{clock.now}", "10.0.0.1") == 0.0:
        pass
    assert tried(attempts, "ada", "10.0.0.1", right=True) == 0.0
    assert tried(attempts, "vic", "10.0.0.1", right=True) > 0.0
    assert [tried(attempts, "ada", "10.0.0.1") for _ in range(FREE + 2)] == [0.0] * (FREE + 1) + [1.0]
    clock.now += KNOWN_FOR + 1
    while tried(attempts, f"user-{clock.now}", "10.0.0.1") == 0.0:
        pass
    assert tried(attempts, "ada", "10.0.0.1", right=True) > 0.0


def test_a_right_password_for_one_user_does_not_buy_wrong_ones_for_others():
    attempts = Attempts(Clock(), of_address=20)
    for n in range(20):
        assert tried(attempts, f"user-{n}", "10.0.0.1") == 0.0
        tried(attempts, "mallory", "10.0.0.1", right=True)
    assert tried(attempts, "user-21", "10.0.0.1") > 0.0


def test_a_bound_of_0_is_none():
    attempts = Attempts(Clock(), of_address=0)
    assert [tried(attempts, f"user-{n}", "10.0.0.1") for n in range(1_000)] == [0.0] * 1_000


def test_who_tries_many_at_the_same_time_gets_no_more():
    attempts, together = Attempts(Clock(), of_address=10), threading.Barrier(50)
    waits: list[float] = []

    def attempt(n: int) -> None:
        together.wait()
        waits.append(attempts.begin(f"user-{n}", "10.0.0.1").wait)

    threads = [threading.Thread(target=attempt, args=(n,)) for n in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert waits.count(0.0) == 10


def test_a_password_that_nobody_could_check_is_not_counted():
    entrance = Entrance(Attempts(Clock(), of_address=3))

    def away() -> None:
        raise error("PROVIDER_UNAVAILABLE", url="x", reason="it is down")

    for n in range(20):
        with pytest.raises(NadiError):
            entrance._enter(Origin(f"user-{n}", "10.0.0.1", "/"), "password", away)
    assert entrance._enter(Origin("ada", "10.0.0.1", "/"), "password", lambda: "ada") == "ada"
    for n in range(3):
        assert entrance._enter(Origin(f"user-{n}", "10.0.0.1", "/"), "password", lambda: None) is None
    assert isinstance(entrance._enter(Origin("user-4", "10.0.0.1", "/"), "password", lambda: None), TooMany)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2001:db8:1:2::1", "2001:db8:1:2:ffff::9", True),
        ("2001:db8:1:2::1", "2001:db8:1:3::1", False),
        ("::ffff:10.0.0.1", "10.0.0.1", True),
        ("::ffff:10.0.0.1", "::ffff:10.0.0.2", False),
        ("10.0.0.1", "10.0.0.2", False),
        ("fe80::1%eth0", "fe80::2%eth0", True),
    ],
)
def test_addresses_that_one_network_chooses_from_are_one(one: str, other: str, same: bool):
    assert (place(one) == place(other)) == same


def test_addresses_without_end_take_bounded_memory(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(allowances, "REMEMBERED", 100)
    allowance = Allowance(5, Clock())
    for n in range(1_000):
        allowance.take(f"10.0.{n // 256}.{n % 256}")
    assert len(allowance._used) == 100


@given(st.lists(st.tuples(st.sampled_from(["take", "give back", "wait"]), st.floats(0.1, 100)), max_size=60))
def test_in_any_quarter_of_an_hour_no_more_is_taken_than_twice_the_allowance(steps: list[tuple[str, float]]):
    """All of it at once, and what comes back meanwhile; and a wait that was kept is enough."""
    clock = Clock()
    allowance, taken = Allowance(5, clock), 0
    taken_at: list[float] = []
    for step, seconds in steps:
        if step == "wait":
            clock.now += seconds
        elif step == "give back" and taken_at:
            allowance.give_back("a")
            taken_at.pop()
        elif step == "take":
            wait = allowance.take("a")
            if wait > 0:
                clock.now += wait + 0.001
                assert allowance.take("a") == 0.0
            taken_at.append(clock.now)
        taken = len([at for at in taken_at if at > clock.now - WITHIN])
        assert taken <= 10


# ---- over http


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    identity = local_identity(tmp_path_factory.mktemp("security"), Clock(), {"auth.configs": users_section(vic="2")})
    with serving_identity(identity, Attempts(Clock(), of_address=4)) as made:
        yield made


def test_an_address_that_has_tried_too_much_hears_429_and_those_who_are_known_there_go_on(client: httpx.Client):
    browser = Browser(client)
    assert browser.login("ada").status_code == 200
    for n in range(2):
        assert client.get("/own", auth=(f"a{n}", "Spring2026!")).status_code == 401
        assert Browser(client).login(f"b{n}", "Spring2026!").status_code == 401
    basic, form = client.get("/own", auth=("vic", "right")), Browser(client).login("vic")
    assert (basic.status_code, basic.headers["content-type"]) == (429, "text/plain; charset=utf-8")
    assert (form.status_code, form.json()["error"]) == (429, "Too_Many_Attempts")
    assert [int(answer.headers["retry-after"]) for answer in (basic, form)] == [226, 226]
    assert browser.get().status_code == 200  # a token is no password
    assert client.get("/own", auth=("ada", "right")).status_code == 200


def test_the_bounds_are_settings():
    section: dict[str, Any] = {"restAPIAuthConfigs": {"wrongPasswordsOfAddress": 7, "unknownTokensOfAddress": 0}}
    found = deployment_of({"auth.configs": section})
    assert (found.sections.auth.rest.wrong_passwords, found.sections.auth.rest.unknown_tokens) == (7, 0)
    assert not any("OfAddress" in notice for notice in found.notices)
    assert (Auth().rest.wrong_passwords, Auth().rest.unknown_tokens) == (100, 100)
    section["restAPIAuthConfigs"]["wrongPasswordsOfAddress"] = -1
    with pytest.raises(NadiError, match="wrongPasswordsOfAddress"):
        deployment_of({"auth.configs": section})


# ---- tokens that an identity provider is asked about


ASKED_AT_A_TIME = 3


@dataclass
class World:
    idp: IdentityServer
    client: httpx.Client
    clock: Clock

    def get(self, token: str) -> httpx.Response:
        return self.client.get("/own", headers={"Authorization": f"Bearer {token}"})

    def asked(self, what: str) -> int:
        return self.idp.asked.count(what)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    with identity_server() as idp:
        clock = Clock(idp.now())
        idp.now = clock
        rest = {"restAPIAuthConfigs": {"unknownTokensOfAddress": 5}}
        monkeypatch.setattr(provider, "ASKED_AT_A_TIME", ASKED_AT_A_TIME)
        with identity_of(idp, tmp_path, clock, rest) as identity, serving(application_of(identity)) as client:
            yield World(idp, client, clock)


def test_a_token_that_is_not_known_is_asked_about_once_in_ten_seconds(world: World):
    assert [world.get("made-up").status_code for _ in range(20)] == [401] * 20
    assert world.asked("introspect") == 1
    world.clock.now += 11
    assert world.get("made-up").status_code == 401
    assert world.asked("introspect") == 2


def test_tokens_without_end_are_not_all_asked_about_and_known_ones_go_on(world: World):
    known = Browser(world.client)
    assert known.login("ada").status_code == 200
    before = world.asked("introspect")
    answers = [world.get(f"made-up-{n}") for n in range(20)]
    assert [answer.status_code for answer in answers] == [401] * 5 + [429] * 15
    assert int(answers[-1].headers["retry-after"]) == WITHIN / 5 + 1
    assert world.asked("introspect") == before + 5
    assert known.get().status_code == 200
    world.clock.now += WITHIN / 5
    assert known.login("ada").status_code == 200  # a password is no token
    assert [world.get(f"another-{n}").status_code for n in range(2)] == [401, 429]


def test_good_tokens_take_nothing_of_what_an_address_may(world: World):
    for _ in range(20):
        assert Browser(world.client).login("ada").status_code == 200
    tokens = [world.idp.issue("ada", next(one for one in world.idp.clients if one != "other")) for _ in range(20)]
    assert [world.get(token).status_code for token in tokens] == [200] * 20


def test_logouts_and_refreshes_with_made_up_tokens_are_counted_with_them(world: World):
    logouts = [
        world.client.post("/logout/portal", headers={"Authorization": f"Bearer made-up-{n}"}).status_code
        for n in range(3)
    ]
    refreshes = []
    for n in range(4):
        headers = {"Authorization": f"Bearer made-up-{n}", "Cookie": "ASID=x"}
        answer = world.client.post("/login/portal", data={"grantType": "refresh_token"}, headers=headers)
        refreshes.append(answer.status_code)
    assert (logouts, refreshes) == ([200] * 3, [401, 401, 429, 429])
    assert answer.json()["error"] == "Too_Many_Attempts"
    assert int(answer.headers["retry-after"]) > 0
    assert world.asked("introspect") + world.asked("token") == 5


def test_a_provider_that_is_away_takes_nothing_of_what_an_address_may(world: World):
    world.idp.down = True
    assert [world.get(f"made-up-{n}").status_code for n in range(10)] == [500] * 10
    world.idp.down = False
    assert world.get("made-up").status_code == 401


def test_a_provider_that_hangs_takes_few_threads_and_known_tokens_go_on(world: World, monkeypatch: pytest.MonkeyPatch):
    known = Browser(world.client)
    assert known.login("ada").status_code == 200
    assert known.get().status_code == 200
    hangs, asking = threading.Event(), threading.Semaphore(0)

    def introspect(_self: object, _token: str) -> None:
        asking.release()
        hangs.wait(60)

    monkeypatch.setattr(Service, "introspect", introspect)
    with ThreadPoolExecutor(10) as pool:
        waiting = [pool.submit(world.get, f"made-up-{n}") for n in range(ASKED_AT_A_TIME)]
        for _ in waiting:
            assert asking.acquire(timeout=60)
        late = world.get("late")
        assert (late.status_code, late.headers["retry-after"]) == (429, "2")
        assert known.get().status_code == 200
        hangs.set()
        assert [one.result().status_code for one in waiting] == [401] * ASKED_AT_A_TIME
    assert world.get("late").status_code == 401


# ---- who waits for a check (finding N3)


def at(user: str, address: str = "10.0.0.1") -> Origin:
    return Origin(user, address, "/")


def test_a_password_that_is_remembered_waits_for_no_check_of_others():
    entrance, free = Entrance(Attempts(Clock())), threading.Event()

    async def run() -> str | TooMany | Busy | None:
        strangers = [
            asyncio.create_task(entrance.enter(at(f"user-{n}", f"10.0.1.{n}"), "basic", lambda: free.wait() and None))
            for n in range(60)
        ]
        await asyncio.sleep(0)
        found = await entrance.enter(at("ada"), "basic", lambda: "checked", lambda: "remembered")
        free.set()
        await asyncio.gather(*strangers)
        return found

    assert asyncio.run(run()) == "remembered"


def test_strangers_of_one_address_wait_in_small_numbers_and_others_find_room():
    attempts, free = Attempts(Clock()), threading.Event()
    attempts.end(attempts.begin("ada", "10.0.0.1"), right=True)
    entrance = Entrance(attempts)

    async def run() -> list[object]:
        waiting = [
            asyncio.create_task(entrance.enter(at(f"user-{n}"), "basic", lambda: free.wait() and None))
            for n in range(8)
        ]
        await asyncio.sleep(0)
        refused = await entrance.enter(at("mallory"), "basic", lambda: "checked")
        late = [
            asyncio.create_task(entrance.enter(origin, "basic", lambda: "checked"))
            for origin in (at("vic", "10.0.0.2"), at("ada"))
        ]
        await asyncio.sleep(0)
        free.set()
        await asyncio.gather(*waiting)
        return [refused, *await asyncio.gather(*late), await entrance.enter(at("eve"), "basic", lambda: "checked")]

    assert asyncio.run(run()) == [Busy(), "checked", "checked", "checked"]


def test_whoever_finds_no_room_hears_503_and_when_to_come_back(tmp_path: Path):
    identity = local_identity(tmp_path, Clock(), {"auth.configs": users_section(vic="2")})
    attempts = Attempts(Clock())
    for n in range(40):
        attempts.queue.take(f"10.0.1.{n}", is_known=False)
    with serving(application_of(identity, attempts)) as client:
        answer = client.get("/own", auth=("vic", "right"))
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "2")
        form = {"username": "vic", "password": "right", "grantType": "password"}
        assert client.post("/login/portal", data=form).status_code == 503
        attempts.queue.leave("10.0.1.1", is_known=False)
        assert client.get("/own", auth=("vic", "right")).status_code == 200
        attempts.queue.take("10.0.1.1", is_known=False)
        assert client.get("/own", auth=("vic", "right")).status_code == 200  # it is remembered
