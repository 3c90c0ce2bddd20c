"""`nadi --version`."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nadi.cli.main import cli
from nadi.config.release import VARIABLE

PROJECT = Path(__file__).parents[2] / "pyproject.toml"


def test_the_version_printed_is_that_of_the_project(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    version = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["version"]
    answer = CliRunner().invoke(cli, ["--version"])
    assert (answer.exit_code, answer.output) == (0, f"nadi {version}\n")


def test_a_build_of_ones_own_prints_its_own_name(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(VARIABLE, "0.1.0+ours")
    assert CliRunner().invoke(cli, ["--version"]).output == "nadi 0.1.0+ours\n"


def test_a_command_still_has_its_own_help():
    answer = CliRunner().invoke(cli, ["check", "--help"])
    assert answer.exit_code == 0
    assert "Print all errors of all apps" in answer.output
