"""Puts event sync and the node of a pair together: what decides, the link to the partner, its passive end, the copies, the socket of the writers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from nadi.cluster.contract import Clock
from nadi.cluster.leases import Candidate
from nadi.cluster.pair import DiskMemory, PairNode
from nadi.cluster.sqlstore import SqlStore
from nadi.config.deployment import Deployment
from nadi.config.loopback import with_port
from nadi.eventsync.bulk import WriteDown
from nadi.eventsync.contract import Copy, Duties, Hello
from nadi.eventsync.counters import Counters
from nadi.eventsync.journalcopy import JournalCopy
from nadi.eventsync.keys import Keys
from nadi.eventsync.link import TcpLink
from nadi.eventsync.local import LocalEnd
from nadi.eventsync.logscopy import LogsCopy
from nadi.eventsync.objectscopy import ObjectsCopy
from nadi.eventsync.passive import PassiveEnd
from nadi.io.certificate import OwnCertificate
from nadi.io.wallclock import WALL, machine_ms
from nadi.server.pair.apptexts import CopiedTexts, NotedCopy
from nadi.server.pair.place import PairPlace
from nadi.server.pair.services import PairServices


@dataclass(frozen=True, slots=True)
class Parts:
    """What a node brings in: `duties` begin and end with its roles, `describe` says what it is, `texts` are its apps, `changed` is called when its status may
    be another one, `returned` keeps what only a partner had that returns."""

    duties: Duties
    describe: Callable[[], Hello]
    texts: CopiedTexts
    changed: Callable[[], None]
    returned: WriteDown


class Sync:
    """See the module's text; in one event loop, which `run` is in."""

    def __init__(
        self,
        place: PairPlace,
        services: PairServices,
        store: SqlStore,
        keys: Keys,
        incarnation: str,
        parts: Parts,
        clock: Clock,
    ) -> None:
        self.counters = Counters()
        self._place = place
        copies: list[Copy] = [
            JournalCopy(services.journal),
            LogsCopy(services.logs),
            ObjectsCopy(services.objects),
            NotedCopy(parts.texts),
        ]
        silence = place.settings.lease
        link = TcpLink(keys, services.objects, copies, parts.returned, silence, self.counters)
        me = Candidate(place.id, incarnation, with_port(*place.reached))
        self.node = PairNode(
            me,
            place.settings,
            clock,
            machine_ms,
            store,
            DiskMemory(services.folder),
            link,
            parts.duties,
            parts.describe,
            self._changed,
            store,
        )
        self._heard = parts.changed
        self._passive = PassiveEnd(
            keys,
            services.folder,
            services.objects,
            copies,
            self.node.passive,
            lambda other: other != place.id,
            silence,
            self.counters,
        )
        self._local = LocalEnd(services.socket, self.node, copies)

    def _changed(self) -> None:
        """The node has heard of the database, and with it what time it is for both nodes."""
        if self.node.ahead is not None:
            ahead, unsure = self.node.ahead
            WALL.agree(machine_ms() + ahead, unsure)
        self._heard()

    async def run(self) -> None:
        """Live until cancelled. Errors: those of `PairNode.run`; SERVER_NOT_STARTED, STATE_FILE_NOT_READABLE."""
        await self._local.open()
        try:
            await self._passive.open(*self._place.listens)
            try:
                await self.node.run()
            finally:
                await self._passive.close()
        finally:
            await self._local.close()

    async def take_over(self) -> None:
        """Apply what the partner has sent. Errors: those of `PassiveEnd.take_over`."""
        await self._passive.take_over()

    async def begin_anew(self) -> None:
        """Have the session begin anew, as this node is not what it was when it began: the partner takes it out of the in-sync set, and looks at it again."""
        await self._passive.interrupt("files of its apps have changed by hand")


def keys_of(deployment: Deployment, secret: str, certificate: OwnCertificate) -> Keys:
    """What the ends of event sync know each other by. Errors: CERTIFICATE_UNUSABLE."""
    authority = deployment.sections.own.cluster.authority
    return Keys(secret, certificate.tls(), Path(authority) if authority else None)
