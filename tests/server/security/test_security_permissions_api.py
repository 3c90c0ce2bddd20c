"""`/permissions`: every path, code and body; and what grants let users do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from security_build import Clock, local_identity, serving_identity, users_section
from sqlalchemy import create_engine, inspect, text

from nadi.config.places import DataSource
from nadi.errors import NadiError
from nadi.server.security.grants import FILE, PermissionStore, Unknown, open_permissions, permission_id
from nadi.server.security.permissions import SAPP, Permission
from nadi.server.security.users import User

VIEW = {"appName": "SAPP", "permissionString": "siddhiApp.view"}
MANAGE = {"appName": "SAPP", "permissionString": "siddhiApp.manage"}
VIEW_ID = permission_id(SAPP.view)
NO_ID = "00000000-0000-3000-8000-000000000000"
ADA = ("ada", "right")


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    content = {"auth.configs": users_section(vic="2", max="3", both="2,3", nil="4", none="")}
    identity = local_identity(tmp_path_factory.mktemp("security"), Clock(), content)
    with serving_identity(identity) as made:
        made.auth = ADA
        yield made


@pytest.fixture(autouse=True)
def _clean(client: httpx.Client) -> None:
    for permission in (VIEW, MANAGE):
        id_ = client.post("/permissions", json=permission).text
        assert client.delete(f"/permissions/{id_}").status_code == 200


def grant(client: httpx.Client, permission: dict[str, str], role: str, action: str = "grant") -> httpx.Response:
    return client.post(f"/permissions/roles/{role}?action={action}", json=permission)


def test_a_permission_is_registered_under_the_id_that_the_reference_gives_it(client: httpx.Client):
    answer = client.post("/permissions", json={"appName": "MON", "permissionString": "MON.consumer"})
    assert (answer.status_code, answer.text) == (200, "f0c74633-2f07-3896-841a-154afb0c29da")
    again = client.post("/permissions/", json={"appName": "MON", "permissionString": "MON.consumer"})
    assert (again.status_code, again.text) == (200, answer.text)
    listed = client.get("/permissions/app/MON")
    assert listed.json() == [{"permissionID": answer.text, "permissionString": "MON.consumer"}]
    assert client.delete(f"/permissions/{answer.text}").status_code == 200


def test_the_permissions_of_an_application_are_listed_by_name(client: httpx.Client):
    assert client.get("/permissions/app/SAPP").json() == []
    for permission in (VIEW, MANAGE):
        client.post("/permissions", json=permission)
    found = client.get("/permissions/app/SAPP").json()
    assert [one["permissionString"] for one in found] == ["siddhiApp.manage", "siddhiApp.view"]


def test_a_deleted_permission_is_gone_with_its_grants(client: httpx.Client):
    client.post("/permissions", json=VIEW)
    grant(client, VIEW, "2")
    answer = client.delete(f"/permissions/{VIEW_ID}")
    assert answer.json() == {"code": 4, "type": "ok", "message": f"Deleted permission with ID: {VIEW_ID}"}
    assert client.get(f"/permissions/{VIEW_ID}/roles").status_code == 404
    client.post("/permissions", json=VIEW)
    assert client.get(f"/permissions/{VIEW_ID}/roles").json() == []


def test_the_roles_that_have_a_permission_are_listed_with_their_names(client: httpx.Client):
    client.post("/permissions", json=VIEW)
    for role in ("3", "2", "2"):
        answer = grant(client, VIEW, role)
        message = "Action, grant for permission, Permission[appName=SAPP, permissionString=siddhiApp.view] successful."
        assert answer.json() == {"code": 4, "type": "ok", "message": message}
    assert client.get(f"/permissions/{VIEW_ID}/roles").json() == [
        {"id": "2", "name": "viewers"},
        {"id": "3", "name": "operators"},
    ]


def test_whether_a_role_has_a_permission_is_answered_by_the_outcome(client: httpx.Client):
    client.post("/permissions", json=VIEW)
    grant(client, VIEW, "2")
    yes, no = client.get(f"/permissions/auth/{VIEW_ID}/2"), client.get(f"/permissions/auth/{VIEW_ID}/3")
    assert (yes.status_code, yes.json()["code"], yes.json()["type"]) == (200, 4, "ok")
    assert (no.status_code, no.json()["code"], no.json()["type"]) == (404, 1, "error")
    assert client.get(f"/permissions/auth/{NO_ID}/2").status_code == 404


def test_a_permission_is_taken_from_a_role(client: httpx.Client):
    client.post("/permissions", json=VIEW)
    grant(client, VIEW, "2")
    grant(client, VIEW, "3")
    assert grant(client, VIEW, "2", "revoke").status_code == 200
    assert [role["id"] for role in client.get(f"/permissions/{VIEW_ID}/roles").json()] == ["3"]
    assert grant(client, VIEW, "2", "revoke").status_code == 200


def test_a_permission_is_taken_from_all_roles(client: httpx.Client):
    client.post("/permissions", json=VIEW)
    grant(client, VIEW, "2")
    grant(client, VIEW, "3")
    answer = client.post(f"/permissions/revoke/{VIEW_ID}")
    message = f"Permission revoke for permissionID {VIEW_ID} success."
    assert answer.json() == {"code": 4, "type": "ok", "message": message}
    assert client.get(f"/permissions/{VIEW_ID}/roles").json() == []


def test_what_is_not_there_is_404(client: httpx.Client):
    for answer in (
        client.delete(f"/permissions/{NO_ID}"),
        client.get(f"/permissions/{NO_ID}/roles"),
        client.post(f"/permissions/revoke/{NO_ID}"),
        grant(client, VIEW, "2"),  # it is not registered
    ):
        assert (answer.status_code, answer.json()["code"], answer.json()["type"]) == (404, 1, "error")
    client.post("/permissions", json=VIEW)
    assert grant(client, VIEW, "9").status_code == 404  # no such role


@pytest.mark.parametrize("action", ["", "give", "grant,revoke"])
def test_an_action_that_is_none_is_400(client: httpx.Client, action: str):
    assert grant(client, VIEW, "2", action).status_code == 400


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"appName": "A"},
        {"appName": "", "permissionString": "x"},
        {"appName": "A\n", "permissionString": "x"},
        {"appName": "A\0", "permissionString": "x"},
        {"appName": " A", "permissionString": "x"},
        {"appName": "A", "permissionString": "x" * 256},
        {"appName": "A, permissionString=b", "permissionString": "c"},  # its id would be that of another
        {"appName": 5, "permissionString": "x"},
        [],
    ],
)
def test_what_is_no_permission_is_400(client: httpx.Client, body: Any):
    assert client.post("/permissions", json=body).status_code == 400


REQUESTS = [
    ("POST", "/permissions"),
    ("DELETE", f"/permissions/{VIEW_ID}"),
    ("GET", f"/permissions/{VIEW_ID}/roles"),
    ("GET", "/permissions/app/SAPP"),
    ("GET", f"/permissions/auth/{VIEW_ID}/2"),
    ("POST", "/permissions/roles/2?action=grant"),
    ("POST", f"/permissions/revoke/{VIEW_ID}"),
]


@pytest.mark.parametrize(("method", "path"), REQUESTS)
def test_only_administrators_see_and_change_permissions(client: httpx.Client, method: str, path: str):
    client.post("/permissions", json=MANAGE)
    grant(client, MANAGE, "3")
    for user in ("vic", "max", "none"):
        answer = client.request(method, path, json=VIEW, auth=(user, "right"))
        assert answer.status_code == 401
        assert answer.headers["content-type"].startswith("text/plain")
    assert client.request(method, path, json=VIEW, auth=None).status_code == 400


# ---- what grants let users do


def test_a_user_may_what_one_of_the_roles_may_and_no_longer_than_that(client: httpx.Client):
    def codes() -> dict[str, tuple[int, int]]:
        return {
            user: (
                client.get("/look", auth=(user, "right")).status_code,
                client.post("/change", auth=(user, "right")).status_code,
            )
            for user in ("vic", "max", "both", "nil")
        }

    assert codes() == dict.fromkeys(("vic", "max", "both", "nil"), (401, 401))
    for permission in (VIEW, MANAGE):
        client.post("/permissions", json=permission)
    grant(client, VIEW, "2")
    grant(client, MANAGE, "3")
    assert codes() == {"vic": (200, 401), "max": (200, 200), "both": (200, 200), "nil": (401, 401)}
    grant(client, MANAGE, "3", "revoke")
    assert codes() == {"vic": (200, 401), "max": (401, 401), "both": (200, 401), "nil": (401, 401)}


def test_permissions_that_are_disabled_let_every_user_do_everything_but_what_is_for_administrators(tmp_path: Path):
    content = {"auth.configs": users_section(vic="2"), "wso2.analytics.permissions": {"isPermissionDisabled": True}}
    with serving_identity(local_identity(tmp_path, Clock(), content)) as client:
        assert client.post("/change", auth=("vic", "right")).status_code == 200
        assert client.get("/permissions/app/SAPP", auth=("vic", "right")).status_code == 401


# ---- the tables


def test_the_tables_have_the_names_and_columns_of_the_contract(tmp_path: Path):
    store = open_permissions(tmp_path, None)
    store.add(SAPP.view)
    store.grant(SAPP.view, "2")
    found = create_engine(f"sqlite:///{tmp_path / FILE}")
    columns = {
        name: [c["name"] for c in inspect(found).get_columns(name)] for name in ("PERMISSIONS", "ROLE_PERMISSIONS")
    }
    assert columns == {
        "PERMISSIONS": ["APP_NAME", "PERMISSION_STRING", "PERMISSION_ID"],
        "ROLE_PERMISSIONS": ["APP_NAME", "PERMISSION_STRING", "ROLE_ID", "PERMISSION_ID"],
    }
    assert inspect(found).get_pk_constraint("PERMISSIONS")["constrained_columns"] == ["APP_NAME", "PERMISSION_STRING"]
    with found.connect() as connection:
        assert list(connection.execute(text("SELECT ROLE_ID, PERMISSION_ID FROM ROLE_PERMISSIONS"))) == [("2", VIEW_ID)]
    found.dispose()
    assert (tmp_path / FILE).stat().st_mode & 0o077 == 0


def test_permissions_are_in_the_data_source_that_is_configured(tmp_path: Path):
    entry = {"name": "P", "definition": {"configuration": {"jdbcUrl": f"jdbc:h2:{tmp_path / 'other'}"}}}
    content = {
        "auth.configs": users_section(),
        "wso2.analytics.permissions": {"datasourceName": "P"},
        "wso2.datasources": {"dataSources": [entry]},
    }
    local_identity(tmp_path, Clock(), content).permissions.add(SAPP.view)
    assert not (tmp_path / FILE).exists()
    again = open_permissions(tmp_path, DataSource("P", f"jdbc:sqlite:{tmp_path / 'other.sqlite'}"))
    assert [one.permission for one in again.of_app("SAPP")] == [SAPP.view]


def test_a_database_that_cannot_be_reached_lets_nobody_in(tmp_path: Path):
    store = open_permissions(tmp_path, None)
    (tmp_path / FILE).unlink()
    (tmp_path / FILE).mkdir()
    store._engine.dispose()
    with pytest.raises(NadiError):
        store.has_one(User("vic", ("viewers",), False, ("2",)), (SAPP.view,))


def test_roles_that_differ_in_case_are_two(tmp_path: Path):
    store = open_permissions(tmp_path, None)
    store.add(SAPP.view)
    store.grant(SAPP.view, "Ops")
    assert store.has_one(User("a", (), False, ("Ops",)), (SAPP.view,))
    assert not store.has_one(User("b", (), False, ("ops",)), (SAPP.view,))
    assert not store.has_one(User("c", (), False, ("Ops",)), (Permission("sapp", "siddhiApp.view"),))


def test_a_permission_that_was_never_registered_cannot_be_granted(tmp_path: Path):
    store: PermissionStore = open_permissions(tmp_path, None)
    with pytest.raises(Unknown):
        store.grant(SAPP.view, "2")
