"""The login API: `/login/{app}`, `/login/auth-type`, `/login/callback/{app}`, `/logout/{app}`, `/logout/slo/{app}`, and tokens in the guard."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from security_build import Browser, Clock, baked, local_identity, serving_identity, users_section

from nadi.server.security.attempts import FREE


@pytest.fixture(scope="module")
def clock() -> Clock:
    return Clock()


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory, clock: Clock) -> Iterator[httpx.Client]:
    content = {"auth.configs": users_section(vic="2", bob="2")}
    identity = local_identity(tmp_path_factory.mktemp("security"), clock, content)
    with serving_identity(identity) as made:
        yield made


@pytest.fixture
def ada(client: httpx.Client) -> Browser:
    browser = Browser(client)
    assert browser.login("ada").status_code == 200
    return browser


# ---- POST /login/{app}, password


def test_a_login_answers_halves_of_tokens_and_how_long_they_are_valid(client: httpx.Client):
    answer = Browser(client).login("ada")
    body = answer.json()
    assert answer.status_code == 200
    assert sorted(body) == ["LID", "PID", "authUser", "validityPeriod"]
    assert (body["authUser"], body["validityPeriod"]) == ("ada", 3600)
    assert len(body["PID"]) == len(body["LID"]) == 18  # of a UUID
    assert answer.headers["cache-control"] == "no-store"


def test_the_other_halves_are_cookies_of_their_paths_that_scripts_cannot_read(client: httpx.Client):
    answer = Browser(client).login("ada")
    cookies = baked(answer)
    assert {name: one["path"] for name, one in cookies.items()} == {
        "HID": "/portal",
        "JID": "/logout/portal",
        "ASID": "/login/portal",
    }
    assert cookies["HID"].value == cookies["JID"].value
    assert len({answer.json()["PID"], answer.json()["LID"], cookies["HID"].value, cookies["ASID"].value}) == 4
    for one in cookies.values():
        assert (one["secure"], one["httponly"], one["samesite"], one["max-age"]) == (True, True, "Strict", "")


def test_remember_me_keeps_the_cookie_of_the_refresh_token_for_seven_days(client: httpx.Client):
    cookies = baked(Browser(client).login("ada", rememberMe="true"))
    assert cookies["ASID"]["max-age"] == str(7 * 86_400)
    assert cookies["HID"]["max-age"] == ""


def test_a_wrong_password_is_401_with_the_error_of_the_contract(client: httpx.Client):
    for user, password in (("ada", "wrong"), ("nobody", "right"), ("", ""), ("ada", "")):
        answer = Browser(client).login(user, password)
        assert answer.status_code == 401
        assert answer.json()["error"] == "Invalid_Credentials"
        assert answer.json()["description"]
        assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("grant", ["", "client_credentials", "authorization_code", "PASSWORD"])
def test_a_grant_that_is_not_supported_is_400(client: httpx.Client, grant: str):
    answer = client.post("/login/portal", data={"grantType": grant, "username": "ada", "password": "right"})
    assert answer.status_code == 400
    assert answer.json()["error"] == "Grant_Type_Not_Supported"


def test_a_form_may_come_in_parts(client: httpx.Client):
    parts = {
        name: (None, value) for name, value in (("username", "ada"), ("password", "right"), ("grantType", "password"))
    }
    assert client.post("/login/portal", files=parts).status_code == 200


@pytest.mark.parametrize(
    "content",
    [
        b"username=ada&username=vic&password=right&grantType=password",
        b"a=1&" * 3_000,
        b"x" * 20_000,
    ],
)
def test_a_form_that_can_be_read_in_two_ways_is_refused(client: httpx.Client, content: bytes):
    headers = {"content-type": "application/x-www-form-urlencoded"}
    assert client.post("/login/portal", content=content, headers=headers).status_code in (400, 413)


@pytest.mark.parametrize("app", ["..", "a%20b", "a;Path=%2F", "a%0d%0ax", "%C3%A9", "x" * 65])
def test_an_application_that_cannot_be_a_path_of_a_cookie_is_400(client: httpx.Client, app: str):
    answer = client.post(f"/login/{app}", data={"grantType": "password", "username": "ada", "password": "right"})
    assert answer.status_code in (400, 404, 405)
    assert "set-cookie" not in answer.headers


def test_too_many_wrong_passwords_make_the_login_wait_too(tmp_path: Path):
    identity = local_identity(tmp_path, Clock(), {"auth.configs": users_section()})
    with serving_identity(identity) as client:
        browser = Browser(client)
        codes = [browser.login("ada", f"wrong{n}").status_code for n in range(FREE + 2)]
        assert codes == [401] * (FREE + 1) + [429]
        answer = browser.login("ada")
        assert answer.status_code == 429
        assert int(answer.headers["retry-after"]) >= 1
        assert client.get("/own", auth=("ada", "right")).status_code == 429  # the guard counts with it


# ---- tokens in the guard


def test_a_whole_token_is_taken(ada: Browser):
    answer = ada.client.get("/own", headers={"Authorization": f"Bearer {ada.token}"})
    assert (answer.status_code, answer.json()) == (200, "ada")


def test_the_first_half_is_taken_with_the_second_in_the_cookie(ada: Browser):
    assert ada.get().json() == "ada"


def test_basic_is_taken_as_before(client: httpx.Client):
    assert client.get("/own", auth=("vic", "right")).json() == "vic"


def test_a_token_that_is_not_known_is_401_with_a_text(client: httpx.Client):
    answer = client.get("/own", headers={"Authorization": "Bearer 00000000-0000-4000-8000-000000000000"})
    assert answer.status_code == 401
    assert answer.headers["content-type"].startswith("text/plain")
    assert "invalid_token" in answer.headers["www-authenticate"]


def test_a_token_has_an_end(ada: Browser, clock: Clock):
    clock.now += 3_599
    assert ada.get().status_code == 200
    clock.now += 1
    assert ada.get().status_code == 401


def test_a_login_again_gives_the_session_the_full_time(ada: Browser, clock: Clock):
    clock.now += 3_000
    again = Browser(ada.client)
    again.login("ada")
    clock.now += 3_000
    assert ada.get().status_code == 200
    assert again.get().status_code == 200


def test_a_login_of_another_application_id_is_a_session_of_its_own(client: httpx.Client, clock: Clock):
    one, other = Browser(client), Browser(client)
    one.login("bob", appId="one")
    clock.now += 3_000
    other.login("bob", appId="other")
    clock.now += 3_000
    assert one.get().status_code == 401
    assert other.get().status_code == 200


# ---- POST /login/{app}, refresh


def test_a_refresh_gives_new_tokens_and_ends_the_old_ones(ada: Browser):
    old, old_headers = ada.token, ada.headers("LID", "ASID")
    answer = ada.refresh()
    assert answer.status_code == 200
    assert answer.json()["authUser"] == "ada"
    assert ada.token != old
    assert ada.get().status_code == 200
    assert ada.client.get("/own", headers={"Authorization": f"Bearer {old}"}).status_code == 401
    assert ada.headers("LID", "ASID") != old_headers


def test_a_refresh_goes_on_after_the_access_token_has_ended(ada: Browser, clock: Clock):
    clock.now += 80_000
    assert ada.get().status_code == 401
    assert ada.refresh().status_code == 200
    assert ada.get().status_code == 200


def test_a_refresh_token_has_an_end(ada: Browser, clock: Clock):
    clock.now += 86_400
    answer = ada.refresh()
    assert answer.status_code == 401
    assert answer.json()["error"] == "Invalid_Credentials"


def test_a_refresh_without_header_or_cookie_is_400(ada: Browser):
    headers = ada.headers("LID", "ASID")
    for name in headers:
        answer = ada.client.post("/login/portal", data={"grantType": "refresh_token"}, headers={name: headers[name]})
        assert answer.status_code == 400
        assert answer.json()["error"] == "Invalid_Credentials"


def test_a_refresh_token_that_comes_again_ends_the_session(ada: Browser):
    stolen = ada.headers("LID", "ASID")
    assert ada.refresh().status_code == 200
    assert ada.get().status_code == 200
    again = ada.client.post("/login/portal", data={"grantType": "refresh_token"}, headers=stolen)
    assert again.status_code == 401
    assert ada.get().status_code == 401
    assert ada.refresh().status_code == 401


# ---- the other paths


def test_the_type_of_local_logins_is_default(client: httpx.Client):
    answer = client.get("/login/auth-type")
    assert (answer.status_code, answer.json()) == (200, {"authType": "default"})


def test_a_callback_is_400_without_an_identity_provider(client: httpx.Client):
    assert client.get("/login/callback/portal?code=x&state=y").status_code == 400


def test_a_logout_ends_the_session_and_removes_the_cookies(ada: Browser):
    refresh = ada.headers("LID", "ASID")
    answer = ada.logout()
    assert (answer.status_code, answer.content) == (200, b"")
    cookies = baked(answer)
    assert {"HID": "/portal", "JID": "/logout/portal", "ASID": "/login/portal"}.items() <= {
        name: one["path"] for name, one in cookies.items()
    }.items()
    assert all((one.value, one["max-age"]) == ("", "0") for one in cookies.values())
    assert ada.get().status_code == 401
    late = ada.client.post("/login/portal", data={"grantType": "refresh_token"}, headers=refresh)
    assert late.status_code == 401


def test_a_logout_takes_a_whole_token_too(ada: Browser):
    assert ada.client.post("/logout/portal", headers={"Authorization": f"Bearer {ada.token}"}).status_code == 200
    assert ada.get().status_code == 401


def test_a_logout_without_a_token_is_400(client: httpx.Client):
    for headers in ({}, {"Authorization": "Basic eDp5"}, {"Cookie": "JID=x"}):
        answer = client.post("/logout/portal", headers=headers)
        assert answer.status_code == 400
        assert answer.json()["error"] == "Internal_Server_Error"  # the contract's name for it


def test_a_single_logout_without_a_token_is_400(client: httpx.Client):
    assert client.get("/logout/slo/portal").status_code == 400
    assert client.get("/logout/slo/portal", headers={"Fid": "x"}).status_code == 400


def test_a_single_logout_of_a_local_user_ends_the_session(ada: Browser):
    assert ada.client.get("/logout/slo/portal", headers={"Authorization": f"Bearer {ada.token}"}).status_code == 200
    assert ada.get().status_code == 401


# ---- from other origins


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:1", ""])
def test_a_page_of_another_origin_changes_nothing(ada: Browser, origin: str):
    headers = {"Origin": origin}
    form = {"grantType": "password", "username": "ada", "password": "right"}
    assert ada.client.post("/login/portal", data=form, headers=headers).status_code == 403
    refresh = ada.headers("LID", "ASID") | headers
    assert ada.client.post("/login/portal", data={"grantType": "refresh_token"}, headers=refresh).status_code == 403
    assert ada.client.post("/logout/portal", headers=ada.headers("PID", "JID") | headers).status_code == 403
    assert ada.client.post("/own", headers=ada.headers() | headers).status_code == 403
    assert ada.client.post("/own", auth=("ada", "right"), headers=headers).status_code == 403
    assert ada.get().status_code == 200


def test_a_browser_that_says_that_another_site_asks_is_believed(ada: Browser):
    assert ada.client.post("/own", headers=ada.headers() | {"Sec-Fetch-Site": "cross-site"}).status_code == 403


def test_a_stranger_may_send_a_form_and_no_more(client: httpx.Client):
    for path in ("/login/portal", "/logout/portal", "/login/callback/portal"):
        assert client.post(path, content=b"x" * 20_000).status_code == 413


def test_a_page_of_the_same_origin_is_let_through(ada: Browser):
    origin = str(ada.client.base_url).rstrip("/")
    assert ada.client.post("/own", headers=ada.headers() | {"Origin": origin}).status_code == 200


def test_a_cookie_alone_names_nobody(ada: Browser):
    cookie = {"Cookie": f"HID={ada.cookies['HID']}; JID={ada.cookies['HID']}; ASID={ada.cookies['ASID']}"}
    assert ada.client.get("/own", headers=cookie).status_code == 400
    half = {"Authorization": f"Bearer {ada.cookies['HID']}"}
    assert ada.client.get("/own", headers=half).status_code == 401
    assert ada.client.get("/own", headers=half | cookie).status_code == 401


def test_a_user_name_is_read_as_it_is_written(client: httpx.Client):
    name = base64.b64encode(b"vic\0:right").decode()
    assert client.get("/own", headers={"Authorization": f"Basic {name}"}).status_code == 401
