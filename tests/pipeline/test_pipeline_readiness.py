"""Waiting for sockets in a process with many open files."""

from __future__ import annotations

import os
import resource
import socket
from pathlib import Path

import pytest

from nadi.io.readiness import readable
from nadi.pipeline.hosting.lane import LaneClient, LaneServer, Op

MANY = 1_100  # more than `select` can count


def test_a_lane_serves_in_a_process_with_more_open_files_than_select_can_count(tmp_path: Path):
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] < MANY + 100:
        pytest.skip("this process may not open so many files")
    held = [os.open(os.devnull, os.O_RDONLY) for _ in range(MANY)]
    try:
        with (
            LaneServer(tmp_path / "s.lane", lambda request: bytes(request.payload)) as server,
            LaneClient(server.path) as client,
        ):
            assert client.ask(Op.WAKE, b"app") == b"app"
            assert client._connection.fileno() > MANY
    finally:
        for descriptor in held:
            os.close(descriptor)


def test_who_is_gone_is_seen_there_too():
    held = [os.open(os.devnull, os.O_RDONLY) for _ in range(MANY)]
    try:
        here, there = socket.socketpair()
        assert readable([here], 0.0) == []
        there.close()
        assert readable([here], 5.0) == [here]
        here.close()
    finally:
        for descriptor in held:
            os.close(descriptor)
