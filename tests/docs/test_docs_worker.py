"""The path of a newcomer in the page about workers: every command is run, in order, and prints what is shown."""

from __future__ import annotations

import os
import re
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest
import yaml
from docpages import ROOT, blocks
from servers.ports import free_ports

from nadi.config.deployment import deployment_of

PAGE = ROOT / "docs" / "operations" / "worker.md"
LOGS = ("worker.log", "errors")
WITHIN = 180.0  # seconds for what comes by itself: a start of Spark, an output


class Shell:
    """A bash that commands are typed into."""

    def __init__(self, folder: Path, variables: Mapping[str, str] | None = None) -> None:
        self._said = folder / "said"
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        self._errors = (folder / "errors").open("wb")
        self._process = subprocess.Popen(
            ["bash"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            cwd=folder,
            env={**os.environ, "PATH": path, "NO_COLOR": "1", **(variables or {})},
        )

    def run(self, command: str) -> str:
        """What a command prints."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        mark = secrets.token_hex(8)
        self._process.stdin.write(f"{command}\necho; echo {mark}\n".encode())
        self._process.stdin.flush()
        lines = []
        for line in self._process.stdout:
            if line.strip().decode() == mark:
                return "".join(lines).rstrip()
            lines.append(line.decode())
        raise AssertionError("the shell has ended")

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()
        self._errors.close()


def commands(page: Path = PAGE) -> Iterator[tuple[str, str]]:
    """(command, what it is shown to print) of a page's console blocks."""
    for block in (b for b in blocks(page) if b.kind == "console"):
        for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
            if re.search("<<'?END", part):
                yield part.rstrip(), ""
            else:
                command, _, printed = part.partition("\n")
                yield command, printed.rstrip()


def matches(shown: str, printed: str) -> bool:
    """Whether something was printed as it is shown; … stands for anything."""
    pattern = ".*".join(re.escape(part) for part in shown.split("…"))
    return re.fullmatch(pattern, printed, re.DOTALL) is not None


def replaced(command: str, changes: Mapping[str, str]) -> str:
    """A command with other ports and folders."""
    for old, new in changes.items():
        command = command.replace(old, new)
    return command


def walk(page: Path, shell: Shell, folder: Path, changed: Callable[[str], str], logs: Sequence[str] = LOGS) -> int:
    """Run the commands of a page in order, as `changed` makes them, each until it prints what is shown; -> how many there were."""
    ran = 0
    for command, shown in commands(page):
        command = changed(command)
        until = time.monotonic() + WITHIN
        while not matches(shown, printed := shell.run(command)):
            said = "\n".join((folder / name).read_text() for name in logs if (folder / name).exists())
            assert time.monotonic() < until, f"{command}\nprinted {printed}\nshown {shown}\n{said}"
            time.sleep(0.2)
        ran += 1
    return ran


@pytest.mark.spark
def test_the_way_from_zero_to_a_running_app_is_as_it_is_shown(tmp_path: Path):
    rest, query, source = free_ports(3)
    home = f"home-{secrets.token_hex(4)}"  # what the page kills is this worker, not another one of the machine
    ports = {
        "wso2.transport.http": {"listenerConfigurations": [{"id": "a", "port": rest}]},
        "siddhi.stores.query.api": {"listenerConfigurations": [{"id": "q", "port": query}]},
    }
    (tmp_path / "ports.yaml").write_text(yaml.safe_dump(ports))
    changes = {
        "--home nadi-home 2>": f"--home {home} --conf ports.yaml 2>",
        "nadi-home": home,
        "9090": f"{rest}",
        "7070": f"{query}",
        "8006": f"{source}",
        "nadi app list": f"nadi app list --url http://127.0.0.1:{rest}",
        "nadi app delete": f"nadi app delete --url http://127.0.0.1:{rest}",
    }
    shell = Shell(tmp_path)
    try:
        ran = walk(PAGE, shell, tmp_path, lambda command: replaced(command, changes))
    finally:
        shell.run(f"pkill -INT -f 'nadi worker --home {home}'; wait")
        shell.close()
    assert ran >= 15
    assert "stopped" in (tmp_path / "worker.log").read_text()


def test_the_deployment_yaml_that_is_shown_is_one_without_notices():
    (block,) = (b for b in blocks(PAGE) if b.kind == "yaml")
    found = deployment_of(yaml.safe_load(block.text))
    assert found.notices == ()
    assert found.conf == {"nadi.batch.interval": "50"}
    assert [one.port for one in found.http] == [9090, 9443]
