"""The applications that nadi is to an identity provider: given in the deployment, or registered once and kept in a table of WSO2's.

OAUTHAPP      CLIENTNAME (the key), CLIENTID, CLIENTSECRET (AES-256-GCM, base64)

oauth.key     in the security folder, 0600: what opens the secrets. Nodes that share the table share the key.
"""

from __future__ import annotations

import base64
import contextlib
import os
import secrets
import threading
from collections.abc import Iterator
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from sqlalchemy import Column, Engine, MetaData, String, Table, delete, insert, select
from sqlalchemy.exc import DBAPIError, IntegrityError

from nadi.config.auth import AuthProperties
from nadi.config.ownership import OWN_FILE
from nadi.databases import make_tables, translated
from nadi.errors import error
from nadi.server.security.external.service import Client, Service
from nadi.server.security.providers import PAGE

DEFAULT = "sp"
KEY = "oauth.key"
_NONCE, _LENGTH = 12, 32


class SecretBox:
    """Seals texts with a key of the security folder, which the first use makes."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def sealed(self, name: str, text: str) -> str:
        """A text that only `opened` reads, and only under the same name. Errors: SECRETS_KEY_WRONG."""
        nonce = secrets.token_bytes(_NONCE)
        return base64.b64encode(nonce + AESGCM(self._key()).encrypt(nonce, text.encode(), name.encode())).decode()

    def opened(self, name: str, sealed: str) -> str | None:
        """The text; None where it was not sealed with this key under this name. Errors: SECRETS_KEY_WRONG."""
        try:
            data = base64.b64decode(sealed, validate=True)
            return AESGCM(self._key()).decrypt(data[:_NONCE], data[_NONCE:], name.encode()).decode()
        except (InvalidTag, ValueError):
            return None

    def _key(self) -> bytes:
        try:
            with os.fdopen(os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWN_FILE), "wb") as out:
                out.write(secrets.token_bytes(_LENGTH))
        except FileExistsError:
            pass  # it was made before
        except OSError as reason:
            raise error("SECRETS_KEY_WRONG", where=self._file, reason=reason.strerror) from reason
        try:
            key = self._file.read_bytes()
        except OSError as reason:
            raise error("SECRETS_KEY_WRONG", where=self._file, reason=reason.strerror) from reason
        if len(key) != _LENGTH:
            raise error("SECRETS_KEY_WRONG", where=self._file, reason=f"it has {len(key)} bytes, not {_LENGTH}")
        return key


class Applications:
    """See the module's text. Errors of every method: PROVIDER_UNAVAILABLE, CONNECTION_UNAVAILABLE, REFUSED, SECRETS_KEY_WRONG."""

    def __init__(self, given: AuthProperties, service: Service, engine: Engine, box: SecretBox) -> None:
        self._service = service
        self._engine = engine
        self._box = box
        self._base = given.base_url
        self._given = {
            PAGE: Client("nadi_status_page", given.page_client_id, given.page_client_secret),
            DEFAULT: Client("sp", given.sp_client_id, given.sp_client_secret),
            given.portal_context: Client("sp_portal", given.portal_client_id, given.portal_client_secret),
            given.status_context: Client("sp_status_dashboard", given.status_client_id, given.status_client_secret),
            given.rules_context: Client("sp_business_rules", given.rules_client_id, given.rules_client_secret),
        }
        self._known: dict[str, Client] = {}
        self._lock = threading.Lock()
        self._table = _table(engine.dialect.name)
        self._made = False

    def close(self) -> None:
        """Close the connections."""
        self._engine.dispose()

    def has(self, app: str) -> bool:
        """Whether an application is one of its own to the provider."""
        return app in self._given

    def callback(self, app: str) -> str:
        """Where the provider sends a browser after a login to an application."""
        return f"{self._base}/login/callback/{app}"

    def home(self, app: str) -> str:
        """The address of an application, to go to after a login."""
        return f"{self._base}/" if app == PAGE else f"{self._base}/{app}"

    def client(self, app: str) -> Client:
        """What nadi is to the provider for an application; one that is none of its own is `sp`. The first time it may have to be registered."""
        context = app if app in self._given else DEFAULT
        with self._lock:
            if context not in self._known:
                self._known[context] = self._found(context)
            return self._known[context]

    def is_own(self, client_id: str) -> bool:
        """Whether an id is one that nadi has with the provider."""
        with self._lock:
            if any(secrets.compare_digest(one.id.encode(), client_id.encode()) for one in self._known.values()):
                return True
        kept = [one.id for one in self._kept()]
        return client_id in (*kept, *(one.id for one in self._given.values() if one.id))

    def _found(self, context: str) -> Client:
        given = self._given[context]
        if given.id:
            self._keep(given)
            return given
        for one in self._kept():
            if one.name == given.name:
                return one
        made = self._service.register(given.name, self.callback(context))
        self._keep(made)
        return made

    # ---- the table

    def _kept(self) -> list[Client]:
        """Those in the table that this node's key opens."""
        table = self._table
        with self._told(), self._engine.connect() as connection:
            rows = connection.execute(select(table.c.name, table.c.id, table.c.secret)).all()
        opened = [(name, id_, self._box.opened(f"{name} {id_}", sealed)) for name, id_, sealed in rows]
        return [Client(name, id_, secret) for name, id_, secret in opened if secret is not None]

    def _keep(self, client: Client) -> None:
        table = self._table
        sealed = self._box.sealed(f"{client.name} {client.id}", client.secret)
        row = {"name": client.name, "id": client.id, "secret": sealed}
        # another node may just have done so
        with contextlib.suppress(IntegrityError), self._told(), self._engine.begin() as connection:
            connection.execute(delete(table).where(table.c.name == client.name))
            connection.execute(insert(table), [row])

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """Errors of a driver as conditions; the first use makes the table, where it is missing."""
        try:
            if not self._made:
                make_tables(self._engine, self._table)
                self._made = True
            yield
        except IntegrityError:
            raise
        except DBAPIError as reason:
            raise translated(reason, "OAuth applications") from reason


def _table(dialect: str) -> Table:
    """The table for a database. PostgreSQL folds names that are not quoted to lower case, and WSO2 quotes none."""
    spelled = str.lower if dialect == "postgresql" else str
    return Table(
        spelled("OAUTHAPP"),
        MetaData(),
        Column(spelled("CLIENTNAME"), String(255), key="name", primary_key=True),
        Column(spelled("CLIENTID"), String(255), key="id"),
        Column(spelled("CLIENTSECRET"), String(1_024), key="secret"),
    )
