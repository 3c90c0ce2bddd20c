"""What an app leaves where all workers reach it: its cut log, its record of commits, its state log, its journal, its revisions."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nadi.config import Persistence
from nadi.errors import error
from nadi.io.copiedappends import remove_stream
from nadi.io.journalmessages import stream_name
from nadi.io.natsclient import shared
from nadi.io.remotefiles import inside, is_remote, shown, system_at
from nadi.persistence.revisions import delete_revisions
from nadi.persistence.stores import store_of
from nadi.pipeline.cutting.committable import TableCommitLog
from nadi.pipeline.cutting.forgotten import forget_cuts
from nadi.pipeline.statelog.copied import remove_objects
from nadi.replica.address import replica_of


@dataclass(frozen=True, slots=True)
class Leftovers:
    """Where the workers of a cluster keep it, by the settings that they share; "" for what is not known here: that stays."""

    cuts: str = ""
    state: str = ""
    journal: str = ""
    persistence: Persistence = field(default_factory=Persistence)

    def remove(self, instances: Sequence[str]) -> None:
        """Remove all that instances have left that run no more.

        Errors: CONNECTION_UNAVAILABLE, REFUSED, STATE_LOG_FAILED, INVALID_SETTING, PERSISTENCE_STORE_FAILED.
        """
        for name in instances:
            if self.cuts:
                forget_cuts(self.cuts, name)
            if self.state:
                _remove_folder(inside(self.state, name))
            if self.journal:
                remove_stream(shared(self.journal), stream_name(name))
        if self.persistence.enabled:
            self._forget(instances)

    def _forget(self, instances: Sequence[str]) -> None:
        store = store_of(self.persistence, Path())
        try:
            for name in instances:
                delete_revisions(store, name)
        finally:
            store.close()

    def has_committed(self, home: str) -> bool:
        """Whether what has this home has committed anything; False where that is not known here. Errors: CONNECTION_UNAVAILABLE, REFUSED."""
        return bool(self.cuts) and TableCommitLog(self.cuts, home, 0).recovered() is not None


def _remove_folder(place: str) -> None:
    """A folder, or all objects below a URL; where there is nothing, nothing. Errors: STATE_LOG_FAILED, INVALID_SETTING."""
    try:
        if is_remote(place):
            system, path = system_at(place)
            system.delete_dir(path)
        else:
            url, socket = replica_of(place)
            folder = Path(url.removeprefix("file://"))
            shutil.rmtree(folder) if socket is None else remove_objects(folder, socket)
    except FileNotFoundError:
        return
    except OSError as reason:
        raise error("STATE_LOG_FAILED", store=shown(place), reason=reason) from reason
