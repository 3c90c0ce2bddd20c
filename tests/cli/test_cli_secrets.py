"""`nadi secret` and what `nadi config` shows of secrets."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from nadi.cli.main import cli


def test_a_secret_comes_from_a_pipe_and_its_value_is_printed_nowhere(tmp_path: Path):
    run, home = CliRunner(), ["--home", str(tmp_path / "home")]
    kept = run.invoke(cli, ["secret", "set", "db", *home], input="hush\n")
    assert (kept.exit_code, kept.stdout) == (0, "db is kept; ${sec:db} stands for it from the worker's next start\n")
    assert run.invoke(cli, ["secret", "list", *home]).stdout == "db\n"
    assert (tmp_path / "home/security").stat().st_mode & 0o777 == 0o700
    file = tmp_path / "deployment.yaml"
    file.write_text('wso2.carbon: {name: "${sec:db}"}')
    assert "hush" not in run.invoke(cli, ["config", "show", str(file), *home]).stdout
    assert run.invoke(cli, ["config", "check", str(file), *home]).exit_code == 0
    assert run.invoke(cli, ["secret", "delete", "db", *home]).exit_code == 0
    assert run.invoke(cli, ["secret", "list", *home]).stdout == ""


def test_a_value_on_the_command_line_is_refused(tmp_path: Path):
    done = CliRunner().invoke(cli, ["secret", "set", "db", "hush", "--home", str(tmp_path)])
    assert done.exit_code == 2
