"""A manager as a process has it: how it ends."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from servers.ports import free_port

from nadi.config.deployment import deployment_of
from nadi.server.distributed.managerserver import ClusterManager
from nadi.server.home import open_home

WITHIN = 30  # seconds


@pytest.fixture
def said() -> list[str]:
    """What the manager tells its operator."""
    return []


@pytest.fixture
def manager(tmp_path: Path, said: list[str]) -> ClusterManager:
    port = free_port()
    content = {
        "wso2.transport.http": {"listenerConfigurations": [{"id": "a", "port": port}]},
        "deployment.config": {
            "type": "distributed",
            "httpInterface": {"host": "127.0.0.1", "port": port},
            "natsServerUrl": "nats://127.0.0.1:1",
        },
    }
    return ClusterManager(deployment_of(content), open_home(tmp_path / "home"), said.append, lambda _: None)


def interrupted(work: Callable[[], object], handler: Callable[[], object]) -> Callable[[], None]:
    """The work, as signals may interrupt it: the handler runs at each call in it, with all locks that its thread has then."""

    def trace(_frame: FrameType, event: str, _given: Any) -> None:
        if event == "call":
            sys.settrace(None)
            handler()
            sys.settrace(trace)

    def run() -> None:
        sys.settrace(trace)
        try:
            work()
        finally:
            sys.settrace(None)

    return run


def test_a_signal_that_comes_as_a_manager_begins_to_wait_ends_it(manager: ClusterManager) -> None:
    waiting = threading.Thread(target=interrupted(manager._stop.wait, manager.request_stop), daemon=True)
    waiting.start()
    waiting.join(WITHIN)
    assert not waiting.is_alive()


def test_a_manager_whose_coordination_breaks_ends_and_says_why(
    manager: ClusterManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def breaks() -> None:
        raise ValueError("it broke")

    monkeypatch.setattr(manager._upkeep, "run", breaks)
    with pytest.raises(ValueError, match="it broke"):
        manager.run()


def test_a_manager_says_of_files_of_apps_that_it_does_not_deploy_them(
    manager: ClusterManager, tmp_path: Path, said: list[str]
) -> None:
    folder = tmp_path / "home" / "deployment" / "siddhi-files"
    (folder / "Orders.siddhi").write_text("@app:name('Orders') define stream In (a int);")
    manager.request_stop()
    manager.run()
    (told,) = (line for line in said if line.startswith("warning: not deployed"))
    assert f"Orders.siddhi in {folder}" in told
    assert "nadi app deploy" in told
