"""Ports that tests are given."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
from pathlib import Path

from servers import ports
from servers.ports import Ports, free_ports

from nadi.io import natsserver

TAKES = """
import sys
from pathlib import Path
from servers.ports import Ports
ports = Ports(Path(sys.argv[1]), range(int(sys.argv[2]), int(sys.argv[3])))
print(*(ports.take() for _ in range(10)), flush=True)
sys.stdin.read()
"""


def taken(made: Ports) -> list[int]:
    """All that are left."""
    found = []
    with contextlib.suppress(LookupError):
        while True:
            found.append(made.take())
    return found


def test_a_port_that_one_process_was_given_no_other_one_is_as_long_as_it_runs(tmp_path: Path) -> None:
    few = range(32_000, 32_200)  # nobody else has use for these
    file = tmp_path / "ports"
    command = [sys.executable, "-c", TAKES, str(file), str(few.start), str(few.stop)]
    paths = {"PYTHONPATH": f"{Path(__file__).parents[1]}:{Path(natsserver.__file__).parents[2]}"}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=paths) as other:
        assert other.stdout is not None
        theirs = {int(word) for word in other.stdout.readline().split()}
        mine = taken(Ports(file, few))
    assert len(theirs) == 10
    assert len(mine) == len(set(mine))
    assert not theirs & set(mine)
    assert theirs <= set(taken(Ports(file, few))), "it has ended"


def test_a_port_that_somebody_listens_on_is_not_given(tmp_path: Path) -> None:
    port = ports.free_port()
    with socket.create_server(("127.0.0.1", port)):
        assert taken(Ports(tmp_path / "ports", range(port, port + 1))) == []


def test_ports_of_tests_are_none_that_nodes_take() -> None:
    assert set(free_ports(20)) <= set(ports.PORTS)
    assert not set(ports.PORTS) & set(natsserver.PORTS)
