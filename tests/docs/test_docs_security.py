"""The page about users and permissions: every command is run, in order, and prints what is shown."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from docpages import ROOT, blocks
from servers.ports import free_ports
from test_docs_worker import Shell, replaced, walk

from nadi.config.auth import RestAuth
from nadi.config.deployment import deployment_of
from nadi.config.settings import read_settings
from nadi.server.security.grants import permission_id
from nadi.server.security.permissions import SAPP

PAGE = ROOT / "docs" / "operations" / "security.md"


@pytest.mark.spark
def test_the_way_from_two_users_to_a_grant_is_as_it_is_shown(tmp_path: Path):
    plain, secure, query = free_ports(3)
    listeners = [
        {"id": "a", "port": plain},
        {"id": "b", "port": secure, "scheme": "https"},
    ]
    ports = {
        "wso2.transport.http": {"listenerConfigurations": listeners},
        "siddhi.stores.query.api": {"listenerConfigurations": [{"id": "q", "port": query}]},
    }
    changes = {
        "auth.configs:": f"{yaml.safe_dump(ports)}auth.configs:",
        "9090": f"{plain}",
        "9443": f"{secure}",
    }
    shell = Shell(tmp_path)
    try:
        ran = walk(PAGE, shell, tmp_path, lambda command: replaced(command, changes))
    finally:
        shell.run("kill $WORKER; wait")
        shell.close()
    assert ran >= 15


def test_the_id_that_is_shown_is_that_of_the_permission():
    assert permission_id(SAPP.view) in PAGE.read_text()


def test_the_deployment_of_a_provider_that_is_shown_is_one_without_notices():
    bounds, reach, provider = (deployment_of(yaml.safe_load(b.text)) for b in blocks(PAGE) if b.kind == "yaml")
    assert bounds.notices == reach.notices == provider.notices == ()
    assert read_settings(reach.conf).connector_folders
    assert bounds.sections.auth.rest == RestAuth()  # what is shown is what it is without
    found = provider
    assert found.sections.auth.properties.issuer == "https://idp.example:9443/oauth2/token"
