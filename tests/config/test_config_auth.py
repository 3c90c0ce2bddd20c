"""`auth.configs` and `wso2.analytics.permissions`: defaults of the contract, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from nadi.config.auth import Auth, Permissions
from nadi.config.deployment import MASKED, as_yaml, deployment_of
from nadi.errors import NadiError

DEFAULTS = {
    "sessionTimeout": 3600,
    "refreshSessionTimeout": 86400,
    "kmDcrUrl": "https://localhost:9443/identity/connect/register",
    "kmTokenUrl": "https://localhost:9443/oauth2",
    "kmUsername": "admin",
    "kmPassword": "admin",
    "idpBaseUrl": "https://localhost:9443/scim2",
    "idpUsername": "admin",
    "idpPassword": "admin",
    "baseUrl": "https://localhost:9643",
    "grantType": "password",
    "oidcUserInfoAlgo": "SHA256withRSA",
    "portalAppContext": "portal",
    "statusDashboardAppContext": "monitoring",
    "businessRulesAppContext": "business-rules",
    "databaseName": "WSO2_OAUTH_APP_DB",
    "cacheTimeout": 900,
    "connectionTimeout": 10000,
    "readTimeout": 60000,
    "defaultUserStore": "PRIMARY",
}


def test_the_defaults_are_those_of_the_contract():
    found = Auth().properties.model_dump(by_alias=True)
    assert {name: found[name] for name in DEFAULTS} == DEFAULTS
    assert Auth().properties.introspection_url == "https://localhost:9443/oauth2/introspect"
    assert Auth().properties.owner == "admin"
    permissions = Permissions()
    assert (permissions.datasource_name, permissions.is_permission_disabled) == ("WSO2_PERMISSIONS_DB", False)


@pytest.mark.parametrize(
    ("content", "name", "wanted"),
    [
        ({"auth.configs": {"type": "custom"}}, "auth.configs.type", "'local' or 'external'"),
        (
            {"auth.configs": {"properties": {"grantType": "implicit"}}},
            "auth.configs.properties.grantType",
            "'password' or 'authorization_code'",
        ),
        (
            {"auth.configs": {"properties": {"idpBaseUrl": "http://idp.example/scim2"}}},
            "auth.configs.properties.idpBaseUrl",
            "https",
        ),
        (
            {"auth.configs": {"userManager": {"userStore": {"roles": [{"role": {"id": "1,2"}}]}}}},
            "auth.configs.userManager.userStore.roles[0].role.id",
            "without commas",
        ),
        (
            {"wso2.analytics.permissions": {"permissionProvider": "org.example.Mine"}},
            "wso2.analytics.permissions.permissionProvider",
            "DefaultPermissionProvider",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_its_path(content: dict[str, Any], name: str, wanted: str):
    with pytest.raises(NadiError) as raised:
        deployment_of(content)
    assert raised.value.condition == "INVALID_SETTING"
    assert raised.value.parameters["name"] == name
    assert wanted in str(raised.value.parameters["wanted"])


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:9763/oauth2", "http://localhost/oauth2", "http://[::1]:1", "https://x"]
)
def test_http_is_taken_on_this_machine_only(url: str):
    assert Auth.model_validate({"properties": {"kmTokenUrl": f"{url}/"}}).properties.token_url == url


def test_secrets_are_masked_and_addresses_are_not():
    properties = {"kmPassword": "hush", "spClientSecret": "hush", "kmTokenUrl": "https://idp.example/oauth2"}
    shown = as_yaml(deployment_of({"auth.configs": {"type": "external", "properties": properties}}))
    found = shown["auth.configs"]["properties"]
    assert (found["kmPassword"], found["spClientSecret"]) == (MASKED, MASKED)
    assert found["kmTokenUrl"] == "https://idp.example/oauth2"
    assert "hush" not in str(shown)


def test_sso_of_local_users_is_a_notice():
    assert any("ssoEnabled" in one for one in deployment_of({"auth.configs": {"ssoEnabled": True}}).notices)
