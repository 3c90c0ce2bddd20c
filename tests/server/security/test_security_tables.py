"""The tables of permissions and of applications, in a database of each kind."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from servers.emptydatabase import EmptyDatabase
from sqlalchemy import text

from nadi.config.auth import AuthProperties
from nadi.config.places import DataSource
from nadi.errors import NadiError
from nadi.server.security.external.applications import Applications, SecretBox
from nadi.server.security.external.service import Client
from nadi.server.security.grants import PermissionStore, Unknown, open_permissions, permission_id
from nadi.server.security.permissions import SAPP, SIM, Permission
from nadi.server.security.users import User

pytestmark = pytest.mark.timeout(120)
OTHER = Permission("sapp", "SiddhiApp.View")


def store_of(database: EmptyDatabase, folder: Path) -> PermissionStore:
    address = database.address
    return open_permissions(folder, DataSource("P", address.url, address.user, address.password))


def may(store: PermissionStore, *roles: str, wanted: Permission = SAPP.view) -> bool:
    return store.has_one(User("vic", (), False, roles), (wanted,))


def test_a_statement_of_the_reference_reads_what_is_written(database: EmptyDatabase, tmp_path: Path):
    """WSO2 quotes no names, so the tables have to be called what its statements mean."""
    store = store_of(database, tmp_path)
    store.add(SAPP.view)
    store.grant(SAPP.view, "2")
    asked = "SELECT APP_NAME, PERMISSION_STRING, ROLE_ID, PERMISSION_ID FROM ROLE_PERMISSIONS"
    with database.engine.connect() as connection:
        assert list(connection.execute(text(asked))) == [("SAPP", "siddhiApp.view", "2", permission_id(SAPP.view))]
        (count,) = connection.execute(text("SELECT count(PERMISSION_ID) FROM PERMISSIONS")).one()
    assert count == 1
    store.close()


def test_what_the_reference_has_written_is_read(database: EmptyDatabase, tmp_path: Path):
    id_ = permission_id(SAPP.view)
    statements = (
        "CREATE TABLE PERMISSIONS (APP_NAME VARCHAR(255) NOT NULL, PERMISSION_STRING VARCHAR(255) NOT NULL, "
        "PERMISSION_ID VARCHAR(255) NOT NULL, PRIMARY KEY (APP_NAME, PERMISSION_STRING))",
        "CREATE TABLE ROLE_PERMISSIONS (APP_NAME VARCHAR(255) NOT NULL, PERMISSION_STRING VARCHAR(255) NOT NULL, "
        "ROLE_ID VARCHAR(255) NOT NULL, PERMISSION_ID VARCHAR(255) NOT NULL)",
        f"INSERT INTO PERMISSIONS VALUES ('SAPP', 'siddhiApp.view', '{id_}')",
        f"INSERT INTO ROLE_PERMISSIONS VALUES ('SAPP', 'siddhiApp.view', 'Ops', '{id_}')",
    )
    with database.engine.begin() as connection:
        for statement in statements:
            connection.execute(text(statement))
    store = store_of(database, tmp_path)
    assert may(store, "Ops")
    assert not may(store, "ops")  # though the tables of MariaDB that it made think them the same
    assert not may(store, "Ops", wanted=OTHER)
    assert store.roles_of(id_) == ["Ops"]
    store.close()


def test_names_that_differ_in_case_are_two(database: EmptyDatabase, tmp_path: Path):
    store = store_of(database, tmp_path)
    assert store.add(SAPP.view) != store.add(OTHER)
    store.grant(SAPP.view, "Ops")
    assert (may(store, "Ops"), may(store, "ops"), may(store, "Ops", wanted=OTHER)) == (True, False, False)
    assert [one.permission for one in store.of_app("sapp")] == [OTHER]
    store.revoke(OTHER, "Ops")
    store.drop(permission_id(OTHER))
    assert may(store, "Ops")
    store.close()


def test_two_nodes_that_register_at_the_same_moment_register_one(database: EmptyDatabase, tmp_path: Path):
    stores = [store_of(database, tmp_path) for _ in range(2)]

    def register(n: int) -> str:
        return stores[n % 2].add(SIM.view)

    with ThreadPoolExecutor(8) as pool:
        ids = set(pool.map(register, range(16)))
    assert ids == {permission_id(SIM.view)}
    assert len(stores[0].of_app("SIM")) == 1
    stores[0].grant(SIM.view, "2")
    assert may(stores[1], "2", wanted=SIM.view)
    stores[1].revoke_all(permission_id(SIM.view))
    assert not may(stores[0], "2", wanted=SIM.view)
    with pytest.raises(Unknown):
        stores[0].grant(SIM.manage, "2")
    for store in stores:
        store.close()


def test_a_database_that_is_away_lets_nobody_in_and_is_asked_again(database: EmptyDatabase, tmp_path: Path):
    store = store_of(database, tmp_path)
    store.add(SAPP.view)
    with database.away(), pytest.raises(NadiError) as raised:
        store.grant(SAPP.view, "2")
    assert raised.value.condition in ("CONNECTION_UNAVAILABLE", "REFUSED")
    store.grant(SAPP.view, "2")
    assert may(store, "2")
    store.close()


def test_a_worker_starts_though_the_database_is_away(database: EmptyDatabase, tmp_path: Path):
    with database.away():
        store = store_of(database, tmp_path)
    store.add(SAPP.view)
    assert [one.permission for one in store.of_app("SAPP")] == [SAPP.view]
    store.close()


class FakeService:
    """Registers clients."""

    def __init__(self) -> None:
        self.registered: list[str] = []

    def register(self, name: str, callback: str) -> Client:
        self.registered.append(callback)
        return Client(name, f"id-of-{name}", "s" * 200)


def test_applications_are_kept_for_the_nodes_that_have_the_key(database: EmptyDatabase, tmp_path: Path):
    service: Any = FakeService()
    box = SecretBox(tmp_path / "oauth.key")

    def opened(secret_box: SecretBox, **given: str) -> Applications:
        return Applications(AuthProperties.model_validate(given), service, database.engine, secret_box)

    first = opened(box).client("portal")
    assert opened(box).client("portal") == first
    assert opened(box).client("unheard-of").name == "sp"
    assert service.registered == [f"https://localhost:9643/login/callback/{app}" for app in ("portal", "sp")]
    with database.engine.connect() as connection:
        kept = connection.execute(text("SELECT CLIENTNAME, CLIENTID, CLIENTSECRET FROM OAUTHAPP")).all()
    assert {name for name, _id, _secret in kept} == {"sp_portal", "sp"}
    assert not [secret for _name, _id, secret in kept if "ssss" in secret]
    assert opened(SecretBox(tmp_path / "other.key")).client("portal") == first  # registered once more
    assert len(service.registered) == 3
    given = opened(box, portalClientId="mine", portalClientSecret="hush")
    assert given.client("portal") == Client("sp_portal", "mine", "hush")
    assert given.is_own("mine")
    assert not given.is_own("of-another")
