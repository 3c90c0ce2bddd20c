"""`auth.configs` and `wso2.analytics.permissions` of a deployment.yaml: who may log in, by whom they are proven, where permissions are kept."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from nadi.config.loopback import is_here
from nadi.config.section import Section

PERMISSIONS_DB, OAUTH_APP_DB = "WSO2_PERMISSIONS_DB", "WSO2_OAUTH_APP_DB"
_PROVIDER = "org.wso2.carbon.analytics.permissions.internal.impl.DefaultPermissionProvider"
_OWN_PROVIDER = _PROVIDER.rpartition(".")[2]
_LOCAL = {"session_timeout", "refresh_session_timeout"}
_KEY_MANAGER = "https://localhost:9443/oauth2"


class User(Section):
    """A user of `userStore.users`. `password` is base64, as the reference has it, or an argon2 hash; `roles` are ids, with commas between them."""

    username: str = Field(min_length=1)
    password: str = Field(min_length=1, repr=False)
    roles: str | int = ""

    @property
    def role_ids(self) -> tuple[str, ...]:
        """The ids of the roles."""
        return tuple(part.strip() for part in str(self.roles).split(",") if part.strip())


class UserEntry(Section):
    user: User


class Role(Section):
    """A role of `userStore.roles`."""

    id: str | int
    display_name: str = Field(default="", alias="displayName")

    @field_validator("id")
    @classmethod
    def _is_one(cls, value: str | int) -> str | int:
        if "," in str(value) or not str(value).strip():
            raise ValueError("an id without commas: users name several roles with commas between them")
        return value


class RoleEntry(Section):
    role: Role


class UserStore(Section):
    """The local users and roles."""

    users: tuple[UserEntry, ...] = ()
    roles: tuple[RoleEntry, ...] = ()


class UserManager(Section):
    """Users of the role `adminRole` may do everything."""

    admin_role: str = Field(default="admin", min_length=1, alias="adminRole")
    user_store: UserStore = Field(default=UserStore(), alias="userStore")


class RestAuth(Section):
    """Which paths of the REST APIs want credentials: all but those that match a pattern of `exclude` (`*`, `?`).

    nadi's own: how many wrong passwords, and how many tokens that an external provider does not know, an address may send in a quarter of an hour; 0: any
    number. `changesNeedPermission`: on-demand queries that change something and single events of the simulator want a permission; in the reference every user
    may.
    """

    auth_enable: bool = Field(default=True, alias="authEnable")
    exclude: tuple[str, ...] = ()
    wrong_passwords: int = Field(default=100, ge=0, alias="wrongPasswordsOfAddress")
    changes_need_permission: bool = Field(default=False, alias="changesNeedPermission")
    unknown_tokens: int = Field(default=100, ge=0, alias="unknownTokensOfAddress")


class AuthProperties(Section):
    """Type `local`: how long a login lasts, in seconds. Type `external`: where the provider is, and what nadi is to it; timeouts of its answers in ms.

    nadi's own: `statusPageClientId` and `statusPageClientSecret`, what the page at `/` is to the provider; `jwksUrl` (default: kmTokenUrl/jwks) and `issuer`
    (kmTokenUrl/token), by which id tokens are checked; `trustedCertificates`, a file in PEM with the provider's authority; `defaultUserStore` is the prefix
    that is taken off names of users and roles.
    """

    session_timeout: int = Field(default=3_600, ge=1, alias="sessionTimeout")
    refresh_session_timeout: int = Field(default=86_400, ge=1, alias="refreshSessionTimeout")

    dcr_url: str = Field(default="https://localhost:9443/identity/connect/register", alias="kmDcrUrl")
    token_url: str = Field(default=_KEY_MANAGER, alias="kmTokenUrl")
    km_username: str = Field(default="admin", alias="kmUsername")
    km_password: str = Field(default="admin", alias="kmPassword", repr=False)
    idp_url: str = Field(default="https://localhost:9443/scim2", alias="idpBaseUrl")
    idp_username: str = Field(default="admin", alias="idpUsername")
    idp_password: str = Field(default="admin", alias="idpPassword", repr=False)
    given_introspection_url: str = Field(default="", alias="introspectionUrl")
    base_url: str = Field(default="https://localhost:9643", alias="baseUrl")
    grant_type: Literal["password", "authorization_code"] = Field(default="password", alias="grantType")
    user_info_algorithm: str = Field(default="SHA256withRSA", alias="oidcUserInfoAlgo")
    portal_context: str = Field(default="portal", alias="portalAppContext")
    status_context: str = Field(default="monitoring", alias="statusDashboardAppContext")
    rules_context: str = Field(default="business-rules", alias="businessRulesAppContext")
    sp_client_id: str = Field(default="", alias="spClientId")
    sp_client_secret: str = Field(default="", alias="spClientSecret", repr=False)
    portal_client_id: str = Field(default="", alias="portalClientId")
    portal_client_secret: str = Field(default="", alias="portalClientSecret", repr=False)
    status_client_id: str = Field(default="", alias="statusDashboardClientId")
    status_client_secret: str = Field(default="", alias="statusDashboardClientSecret", repr=False)
    rules_client_id: str = Field(default="", alias="businessRulesClientId")
    rules_client_secret: str = Field(default="", alias="businessRulesClientSecret", repr=False)
    page_client_id: str = Field(default="", alias="statusPageClientId")
    page_client_secret: str = Field(default="", alias="statusPageClientSecret", repr=False)
    given_owner: str = Field(default="", alias="dcrAppOwner")
    database_name: str = Field(default=OAUTH_APP_DB, alias="databaseName")
    cache_timeout: int = Field(default=900, ge=0, alias="cacheTimeout")
    connection_timeout: int = Field(default=10_000, ge=1, alias="connectionTimeout")
    read_timeout: int = Field(default=60_000, ge=1, alias="readTimeout")
    default_user_store: str = Field(default="PRIMARY", alias="defaultUserStore")
    external_logout_url: str = Field(default="", alias="externalLogoutUrl")
    given_jwks_url: str = Field(default="", alias="jwksUrl")
    given_issuer: str = Field(default="", alias="issuer")
    trusted_certificates: str = Field(default="", alias="trustedCertificates")

    @field_validator(
        "dcr_url",
        "token_url",
        "idp_url",
        "given_introspection_url",
        "base_url",
        "external_logout_url",
        "given_jwks_url",
    )
    @classmethod
    def _is_safe(cls, value: str) -> str:
        """Passwords and tokens go to these addresses."""
        if value and not _is_private(value):
            raise ValueError("an address with https; http only on this machine")
        return value.rstrip("/")

    @property
    def introspection_url(self) -> str:
        """Where tokens are asked about."""
        return self.given_introspection_url or f"{self.token_url}/introspect"

    @property
    def jwks_url(self) -> str:
        """Where the keys are that id tokens are signed with."""
        return self.given_jwks_url or f"{self.token_url}/jwks"

    @property
    def issuer(self) -> str:
        """Who signs id tokens."""
        return self.given_issuer or f"{self.token_url}/token"

    @property
    def owner(self) -> str:
        """Whose the applications are that nadi registers."""
        return self.given_owner or self.km_username


class Auth(Section):
    """`auth.configs`."""

    type: Literal["local", "external"] = "local"
    sso_enabled: bool = Field(default=False, alias="ssoEnabled")
    properties: AuthProperties = AuthProperties()
    rest: RestAuth = Field(default=RestAuth(), alias="restAPIAuthConfigs")
    user_manager: UserManager = Field(default=UserManager(), alias="userManager")

    def notices(self) -> Iterator[str]:
        """What an operator should look at."""
        given = self.properties
        if self.type == "external" and "admin" in (given.km_password, given.idp_password):
            yield "'auth.configs.properties': kmPassword or idpPassword is the well-known 'admin'"
        if self.type == "local" and self.sso_enabled:
            yield "'auth.configs.ssoEnabled' has no effect: it takes the type 'external'"
        if self.type == "local":
            for name in sorted(given.model_fields_set & AuthProperties.model_fields.keys() - _LOCAL):
                alias = AuthProperties.model_fields[name].alias
                yield f"'auth.configs.properties.{alias}' has no effect: it is for the type 'external'"


class Permissions(Section):
    """`wso2.analytics.permissions`: where permissions are kept. `isPermissionDisabled`: every user may do everything."""

    permission_provider: str = Field(default=_PROVIDER, alias="permissionProvider")
    datasource_name: str = Field(default=PERMISSIONS_DB, min_length=1, alias="datasourceName")
    is_permission_disabled: bool = Field(default=False, alias="isPermissionDisabled")

    @field_validator("permission_provider")
    @classmethod
    def _is_known(cls, value: str) -> str:
        if value.rpartition(".")[2] != _OWN_PROVIDER:
            raise ValueError(f"'{_OWN_PROVIDER}': no other class can be loaded")
        return value


def _is_private(url: str) -> bool:
    """Whether nobody on the way reads what is sent to an address."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return False
    if parts.scheme == "https":
        return bool(host)
    return parts.scheme == "http" and is_here(host)
