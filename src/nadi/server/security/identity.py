"""What a deployment says of users and permissions, made: who proves users, who has which permissions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from nadi.config.deployment import Deployment
from nadi.server.security.grants import AllGranted, PermissionStore, open_permissions
from nadi.server.security.permissions import Grants
from nadi.server.security.providers import LocalProvider, Provider, SingleSignOn
from nadi.server.security.sessions import Sessions
from nadi.server.security.users import make_users


@dataclass(frozen=True, slots=True)
class Identity:
    """What the REST APIs need. `password` is that of the administrator where this start has made it ("": it has not)."""

    provider: Provider
    sso: SingleSignOn | None
    permissions: PermissionStore
    grants: Grants
    notices: tuple[str, ...]
    password: str = ""


def make_identity(folder: Path, deployment: Deployment) -> Identity:
    """The users and permissions of a worker whose security folder this is.

    Errors: INVALID_SETTING, USERS_DAMAGED, DATABASE_UNKNOWN, CONNECTION_UNAVAILABLE, REFUSED.
    """
    auth, configured = deployment.sections.auth, deployment.sections.permissions
    store = open_permissions(folder, deployment.sections.datasources.find(configured.datasource_name))
    grants: Grants = AllGranted() if configured.is_permission_disabled else store
    made = make_users(folder, auth.user_manager)
    sessions = Sessions(auth.properties.session_timeout, auth.properties.refresh_session_timeout)
    provider = LocalProvider(made.users, sessions)
    return Identity(provider, None, store, grants, made.notices, made.password)
