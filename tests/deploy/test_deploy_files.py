"""The files under deploy/, as far as they can be checked without an engine for containers and without running systemd."""

from __future__ import annotations

import configparser
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from nadi.config.deployment import environment_lookups, read_deployment

ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "deploy/docker"
UNIT = ROOT / "deploy/systemd/nadi-worker.service"
GIVEN = {"NADI_ADMIN_HASH": "$argon2id$v=19$m=65536,t=3,p=4$c29tZXNhbHQ$aGFzaA", "NADI_DB_PASSWORD": "pw"}


def instructions() -> Iterator[tuple[str, str]]:
    """Those of the Dockerfile, with their continuation lines."""
    text = re.sub(r"^\s*#.*\n", "", (DOCKER / "Dockerfile").read_text(), flags=re.MULTILINE)
    for line in text.replace("\\\n", " ").splitlines():
        if line.strip():
            word, _, rest = line.strip().partition(" ")
            yield word, rest.strip()


def compose(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((DOCKER / name).read_text())
    return found


def test_what_the_dockerfile_copies_is_there_and_not_ignored():
    ignored = (DOCKER / "Dockerfile.dockerignore").read_text().splitlines()
    let_through = [line[1:] for line in ignored if line.startswith("!")]
    copied = [
        path for word, rest in instructions() if word == "COPY" and "--from" not in rest for path in rest.split()[:-1]
    ]
    assert len(copied) >= 6
    for path in copied:
        assert (ROOT / path).exists(), path
        assert any(path == known or path.startswith(f"{known}/") for known in let_through), path


def test_the_image_runs_as_somebody_without_rights_and_has_a_health_check_and_a_volume():
    last = dict(instructions())
    assert last["USER"] == "10001:10001"
    assert "/health/ready" in last["HEALTHCHECK"]
    assert last["VOLUME"] == '["/var/lib/nadi"]'
    assert last["STOPSIGNAL"] == "SIGTERM"
    assert '"nadi", "worker", "--home", "/var/lib/nadi"' in last["ENTRYPOINT"]


@pytest.mark.parametrize("name", ["deployment.yaml", "deployment.postgres.yaml"])
def test_the_deployment_files_of_the_image_have_no_key_without_effect(name: str, tmp_path: Path):
    lookups = {**environment_lookups(tmp_path), "env": GIVEN.get}
    found = read_deployment(DOCKER / name, lookups)
    assert found.notices == ()
    assert [(one.host, one.port) for one in (*found.http, *found.query)] == [
        ("0.0.0.0", port) for port in (9090, 9443, 7070, 7443)
    ]
    assert found.sections.own.log.format == "json"
    if "postgres" in name:
        assert found.persistence.datasource is not None
        assert found.persistence.datasource.jdbc_url == "jdbc:postgresql://postgres:5432/PERSISTENCE_DB"


@pytest.mark.parametrize("names", [("compose.yaml",), ("compose.yaml", "compose.postgres.yaml")])
def test_the_compose_files_have_services_with_health_checks_and_volumes_that_are_there(names: tuple[str, ...]):
    files = [compose(name) for name in names]
    assert all(set(file) <= {"name", "services", "volumes"} for file in files)
    volumes = {name for file in files for name in file["volumes"]}
    services = {name for file in files for name in file["services"]}
    checked = {name for file in files for name, service in file["services"].items() if "healthcheck" in service}
    assert checked == services
    for file in files:
        for service in file["services"].values():
            for mount in service.get("volumes", ()):
                source, target = mount.split(":")[:2]
                assert target.startswith("/")
                assert (DOCKER / source).is_file() if source.startswith(".") else source in volumes
            for other, wanted in service.get("depends_on", {}).items():
                assert other in services
                assert wanted == {"condition": "service_healthy"}
    build = files[0]["services"]["worker"]["build"]
    assert (DOCKER / build["context"] / build["dockerfile"]).is_file()


def test_no_compose_file_has_a_password():
    for name in ("compose.yaml", "compose.postgres.yaml"):
        for service in compose(name)["services"].values():
            for key, value in service.get("environment", {}).items():
                if re.search("PASSWORD|HASH", key):
                    assert value.startswith("${"), key
                    assert ":?" in value, f"{key}: compose says what is missing"


def unit() -> configparser.ConfigParser:
    found = configparser.ConfigParser(strict=False, interpolation=None, comment_prefixes=("#",))
    found.optionxform = str  # type: ignore[assignment,method-assign]
    found.read(UNIT)
    return found


def test_the_unit_runs_a_worker_as_somebody_without_rights_and_closes_what_it_does_not_need():
    service = unit()["Service"]
    assert service["ExecStart"].endswith("nadi worker --home /var/lib/nadi --conf /etc/nadi/deployment.yaml")
    assert service["User"] == "nadi"
    assert service["StateDirectoryMode"] == "0700"
    assert service["KillMode"] == "mixed"
    for key in ("NoNewPrivileges", "ProtectHome", "PrivateTmp", "ProtectKernelTunables", "RestrictSUIDSGID"):
        assert service[key] == "yes"
    assert service["ProtectSystem"] == "strict"
    assert service["CapabilityBoundingSet"] == ""


def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path):
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not installed (Debian: apt-get install systemd)")
    copy = tmp_path / UNIT.name  # with a command that is there
    copy.write_text(UNIT.read_text().replace("/opt/nadi/bin/nadi worker", "/bin/true worker"))
    done = subprocess.run([analyze, "verify", str(copy)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
