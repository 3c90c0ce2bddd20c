"""`nadi …` on a machine of its own: the name `node.test` is this node's address, as if each machine had it in its own /etc/hosts.

Both nodes are given the same text of an app, so a source says one address for both. A node that stands still keeps its port, and its partner must be able to
listen on the same one elsewhere. SIGUSR1 has it say where all its threads are.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import socket
from typing import Any

from nadi.cli import main

NAME = "node.test"
ADDRESS = "HA_ADDRESS"
"""The variable of the environment that has the address."""

_made = socket.create_server


def _create_server(address: tuple[str, int], **options: Any) -> socket.socket:
    host, port = address
    return _made((os.environ[ADDRESS] if host == NAME else host, port), **options)


if __name__ == "__main__":
    faulthandler.register(signal.SIGUSR1)
    socket.create_server = _create_server  # type: ignore[assignment]
    main()
