"""What a deployment says of users and permissions, made: who proves users, who has which permissions."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from nadi.config.auth import OAUTH_APP_DB, PERMISSIONS_DB, Auth
from nadi.config.deployment import Deployment
from nadi.config.places import DataSource
from nadi.server.security.external.applications import KEY, Applications, SecretBox
from nadi.server.security.external.codeflow import CodeFlow
from nadi.server.security.external.idtokens import IdTokens
from nadi.server.security.external.provider import ExternalProvider
from nadi.server.security.external.service import Service
from nadi.server.security.grants import AllGranted, PermissionStore, engine_of, open_permissions
from nadi.server.security.permissions import Grants, OpenChanges
from nadi.server.security.providers import LocalProvider, Provider, SingleSignOn
from nadi.server.security.sessions import Sessions
from nadi.server.security.users import make_users

_PERMISSIONS, _OAUTH = "wso2.analytics.permissions.datasourceName", "auth.configs.properties.databaseName"
_APPLICATIONS = "oauthapps.db"


@dataclass(frozen=True, slots=True)
class Identity:
    """What the REST APIs need. `password` is that of the administrator where this start has made it ("": it has not); `grant` is what a login is that does not
    say it ("": none)."""

    provider: Provider
    sso: SingleSignOn | None
    permissions: PermissionStore
    grants: Grants
    notices: tuple[str, ...]
    password: str = ""
    grant: str = ""

    def close(self) -> None:
        """Close the connections to the provider and to databases."""
        self.provider.close()
        self.permissions.close()


def make_identity(folder: Path, deployment: Deployment) -> Identity:
    """The users and permissions of a worker whose security folder this is.

    Errors: INVALID_SETTING, USERS_DAMAGED, DATABASE_UNKNOWN, FOLDER_NOT_MADE.
    """
    auth, configured = deployment.sections.auth, deployment.sections.permissions
    store = open_permissions(folder, _source(deployment, configured.datasource_name, PERMISSIONS_DB, _PERMISSIONS))
    grants: Grants = AllGranted() if configured.is_permission_disabled else store
    if not auth.rest.changes_need_permission:
        grants = OpenChanges(grants)
    if auth.type == "external":
        source = _source(deployment, auth.properties.database_name, OAUTH_APP_DB, _OAUTH)
        provider, sso = make_external(folder, auth, source)
        return Identity(provider, sso, store, grants, (), grant=auth.properties.grant_type)
    made = make_users(folder, auth.user_manager)
    sessions = Sessions(auth.properties.session_timeout, auth.properties.refresh_session_timeout)
    return Identity(LocalProvider(made.users, sessions), None, store, grants, made.notices, made.password)


def make_external(
    folder: Path, auth: Auth, source: DataSource | None, clock: Callable[[], float] = time.time
) -> tuple[ExternalProvider, CodeFlow]:
    """The users of an identity provider, and logins on its pages. It is asked nothing yet."""
    service = Service(auth.properties)
    box = SecretBox(folder / KEY)
    applications = Applications(auth.properties, service, engine_of(folder / _APPLICATIONS, source), box)
    provider = ExternalProvider(auth, service, applications, clock)
    tokens = IdTokens(service, auth.properties.issuer, clock)
    return provider, CodeFlow(auth, service, applications, provider, tokens, box, clock)


def _source(deployment: Deployment, name: str, default: str, path: str) -> DataSource | None:
    """A data source; that of the default name need not be there, and a file stands in for it. Errors: INVALID_SETTING."""
    sources = deployment.sections.datasources
    return sources.find(name) if name == default else sources.source(name, path)
