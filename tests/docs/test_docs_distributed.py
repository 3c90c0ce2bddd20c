"""The way to a cluster in the page about it: every command is run, in order, and prints what is shown."""

from __future__ import annotations

import os
import secrets
import signal
from contextlib import suppress
from pathlib import Path

import pytest
from docpages import ROOT
from servers.ports import free_ports
from test_docs_worker import Shell, replaced, walk

PAGE = ROOT / "docs" / "operations" / "distributed.md"
LOGS = ("manager.log", "worker1.log", "worker2.log", "errors")


@pytest.mark.spark
@pytest.mark.slow
def test_the_way_to_an_app_on_two_workers_is_as_it_is_shown(tmp_path: Path):
    manager, one, two, query_one, query_two, nats, source = free_ports(7)
    changes = {
        "9190": f"{manager}",
        "9090": f"{one}",
        "9091": f"{two}",
        "7070": f"{query_one}",
        "7071": f"{query_two}",
        "4222": f"{nats}",
        "8006": f"{source}",
    }
    mark = secrets.token_hex(8)
    shell = Shell(tmp_path, {"NADI_DOCS": mark})
    try:
        ran = walk(PAGE, shell, tmp_path, lambda command: replaced(command, changes), LOGS)
    finally:
        end_all(mark)
        shell.close()
    assert ran >= 20


def end_all(mark: str) -> None:
    """Kill what the commands have started: it has inherited the mark."""
    wanted = f"NADI_DOCS={mark}".encode()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        with suppress(OSError):
            is_shell = (entry / "comm").read_text().strip() == "bash"
            if not is_shell and wanted in (entry / "environ").read_bytes().split(b"\0"):
                os.kill(int(entry.name), signal.SIGKILL)
