"""Which run of a group is the oldest that hosts of a JVM may serve, for hosts that were not up when the group moved to another place.

A host that is up is told so (`forget`). One that starts later knows nothing, and Java may still ask it for the run that was left: it looks here, once for each
group that it hears of. The node writes the file, in the folder of the hosts, which goes with the JVM.
"""

from __future__ import annotations

import threading
from pathlib import Path

import msgspec

FILE = "fences"

Group = tuple[str, str]
"""The state folder of an app and its group."""

_PACK = msgspec.msgpack.Encoder().encode
_UNPACK = msgspec.msgpack.Decoder(list[tuple[Group, int]]).decode


def read_fence(folder: Path, group: Group) -> int:
    """The epoch of the oldest run of a group that counts; 0 where it has not moved."""
    try:
        return dict(_UNPACK((folder / FILE).read_bytes())).get(group, 0)
    except FileNotFoundError:
        return 0


class Fences:
    """The file as the node has it; used from several threads.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> fences = Fences(folder)
    >>> fences.raise_to(("state", ""), 3)
    >>> read_fence(folder, ("state", "")), read_fence(folder, ("other", ""))
    (3, 0)
    >>> fences.drop(("state", ""))
    >>> (folder / FILE).exists()
    False
    """

    def __init__(self, folder: Path) -> None:
        self._file = folder / FILE
        self._known: dict[Group, int] = {}
        self._lock = threading.Lock()

    def raise_to(self, group: Group, epoch: int) -> None:
        """No run before this one counts any more."""
        with self._lock:
            self._known[group] = epoch
            self._write()

    def drop(self, group: Group) -> None:
        """The app has ended: what may come later is another one's."""
        with self._lock:
            if self._known.pop(group, None) is not None:
                self._write()

    def close(self) -> None:
        """Remove the file."""
        with self._lock:
            self._known.clear()
            self._write()

    def _write(self) -> None:
        if not self._known:
            self._file.unlink(missing_ok=True)
            return
        fresh = self._file.with_suffix(".new")
        fresh.write_bytes(_PACK(sorted(self._known.items())))
        fresh.replace(self._file)
