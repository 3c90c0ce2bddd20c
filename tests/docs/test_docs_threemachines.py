"""The page about three machines: its files are files that nodes take, its commands make certificates, its SQL makes the databases."""

from __future__ import annotations

import re
import ssl
import subprocess
from pathlib import Path

import pytest
import yaml
from docpages import ROOT
from servers.databases import NotPossible, mariadb, postgres
from sqlalchemy import text

from nadi.config.deployment import Deployment, deployment_of
from nadi.databases import Address, connect

PAGE = (ROOT / "docs" / "operations" / "threemachines.md").read_text(encoding="utf-8")
SECRETS = {"${env:NADI_CLUSTER_SECRET}": "s" * 48, "${env:NADI_DB_PASSWORD}": "p"}


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def node(role: str) -> Deployment:
    """The common part and that of a role, as one file."""
    common, *roles = blocks("yaml")
    (own,) = (block for block in roles if f"id: {role}-a" in block)
    whole = f"{common}\n{own}"
    for name, value in SECRETS.items():
        whole = whole.replace(name, value)
    return deployment_of(yaml.safe_load(whole))


@pytest.mark.parametrize("role", ["manager", "worker"])
def test_the_files_are_taken_without_a_notice(role: str):
    found = node(role)
    assert not list(found.notices)
    config = found.sections.deployment_config
    assert config.is_distributed
    assert not found.conf["nadi.cuts.url"].startswith("sqlite")


def test_a_manager_and_a_worker_name_each_other_as_they_are_reached():
    manager, worker = node("manager").sections.deployment_config, node("worker").sections.deployment_config
    named = [one.address for one in worker.managers]
    assert named == ["https://a.example.com:9543", "https://b.example.com:9543"]
    assert manager.interface(9543).address == named[0]
    assert worker.interface(9443).address == "https://a.example.com:9443"


def test_the_certificates_are_those_of_the_machines_and_the_authority_is_trusted(tmp_path: Path):
    (commands,) = blocks("console")
    for command in re.findall(r"^\$ (.*)$", commands, re.MULTILINE):
        subprocess.run(["bash", "-e", "-c", command], cwd=tmp_path, check=True, capture_output=True)
    for host in "abc":
        served = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        served.load_cert_chain(tmp_path / f"{host}.pem", tmp_path / f"{host}.key")
        done = subprocess.run(
            ["openssl", "verify", "-CAfile", "authority.pem", "-verify_hostname", f"{host}.example.com", f"{host}.pem"],
            cwd=tmp_path,
            check=False,
            capture_output=True,
        )
        assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_the_sql_for_mysql_makes_what_nodes_connect_to():
    _postgres, commands, _nats = blocks("text")
    urls = re.findall(r"`((?:jdbc:)?mysql://[^`]*)`", PAGE)
    try:
        with mariadb() as server:
            engine = connect(Address(server.jdbc.replace("/test", "/mysql"), server.user, server.password))
            with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
                commands = commands.replace("'nadi'@", "'other'@")  # the server's own administrator is called nadi
                for command in filter(str.strip, commands.split(";")):
                    connection.exec_driver_sql(command.replace("%", "%%"))  # a lone % is a parameter to the driver
            engine.dispose()
            assert len(urls) == 2
            for url in urls:
                at = url.replace("db.example.com:3306", f"127.0.0.1:{server.port}")
                at = at.replace("nadi:${env:NADI_DB_PASSWORD}", "other:change-this")
                own = connect(Address(at, "other", "change-this"))
                with own.begin() as connection:
                    connection.execute(text("create table made (a int)"))
                own.dispose()
    except NotPossible as reason:
        pytest.skip(str(reason))


@pytest.mark.slow
def test_the_sql_makes_what_nodes_connect_to():
    commands, _mysql, _nats = blocks("text")
    try:
        with postgres() as server:
            engine = connect(Address(server.jdbc.replace("/test", "/postgres"), server.user, server.password))
            with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
                commands = commands.replace("ROLE nadi", "ROLE other").replace("OWNER nadi", "OWNER other")
                for command in filter(str.strip, commands.split(";")):  # the server's own administrator is called nadi
                    connection.execute(text(command))
            engine.dispose()
            for name in ("nadi_cluster", "nadi_cuts"):
                own = connect(Address(server.jdbc.replace("/test", f"/{name}"), "other", "change-this"))
                with own.begin() as connection:
                    connection.execute(text("create table made (a int)"))
                own.dispose()
    except NotPossible as reason:
        pytest.skip(str(reason))
