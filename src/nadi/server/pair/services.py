"""What a node of a pair keeps under `<home>/pair/`, in both roles: its own journal, logs and objects, and the socket at which writers ask before they write.

journal/      a NATS server
logs.db       a SQLite database: cut logs, commit records, epochs, notes, errors
state/        objects: state logs, what sinks know; in ~revisions/ revisions, where they are files that no other node reaches
held/         what the active node has sent, and is not in a service yet
sync/         the socket of event sync
store.json    which store this is, and what it has seen
apps.json     the texts of apps that both nodes have
surplus.log   what only this node had when it came back, until the active one has it
returned.jsonl    what only the partner had when it came back, and no error store has taken
"""

from __future__ import annotations

from collections.abc import Mapping

from nadi.config.ownership import make_private
from nadi.io.natsserver import NatsServer, free_port
from nadi.replica.address import with_replica
from nadi.server.home import Home


class PairServices:
    """See the module's text. The server runs between `start` and `stop`."""

    def __init__(self, home: Home) -> None:
        self.folder = home.folder / "pair"
        self.logs = self.folder / "logs.db"
        self.objects = self.folder / "state"
        self.socket = self.folder / "sync" / "s"
        self.texts = self.folder / "apps.json"
        self.returned = self.folder / "returned.jsonl"
        self._nats = NatsServer(self.folder / "journal", free_port())  # so that its URL is known before it runs

    def make(self) -> None:
        """Make the folders. Errors: FOLDER_NOT_PRIVATE, FOLDER_NOT_MADE."""
        for folder in (self.folder, self.objects, self.socket.parent):
            make_private(folder)

    def start(self) -> None:
        """Errors: SERVER_NOT_STARTED, FOLDER_NOT_PRIVATE, FOLDER_NOT_MADE."""
        self._nats.start()

    def stop(self) -> None:
        self._nats.stop()

    @property
    def journal(self) -> str:
        """The URL of the journal, for who keeps the copy."""
        return self._nats.url

    @property
    def revisions(self) -> str:
        """The URL of a folder of the objects, which no app has: no name of one has a '~' there."""
        return with_replica(f"file://{self.objects}/~revisions", self.socket)

    @property
    def conf(self) -> Mapping[str, str]:
        """Where apps keep what they have: each write is asked for at the socket."""
        return {
            "nadi.journal.url": with_replica(self.journal, self.socket),
            "nadi.cuts.url": with_replica(f"sqlite:///{self.logs}", self.socket),
            "nadi.state.url": with_replica(f"file://{self.objects}", self.socket),
        }
