"""Another version of an app takes the place of the one that is there: at the moment when all instances of that one have drained.

    asked ──► all instances start again as ones that drain ──► each has drained: a row says so, and it never runs again
          ──► all have, and lie nowhere: the app, its instances and their epochs are those of the new version ──► placed like any others

Each arrow is one transaction of a leader, and what it needs to know is in rows: so any leader goes on with it. Instances of the new version begin with what
those before them have left; that is between them and the services that both reach (`nadi.pipeline.revision.inheritance`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from nadi.cluster.ledger import Ledger
from nadi.cluster.messages import PartText
from nadi.cluster.rows import App, AppChange, Drained, Part, Placement, Stale

if TYPE_CHECKING:
    from nadi.cluster.reconciliation import Situation


def digest_of(text: str) -> str:
    """What tells one text from another.

    >>> digest_of("from S select a insert into T;")[:12]
    'e3b0ce45601b'
    """
    return hashlib.sha256(text.encode()).hexdigest()


def part_of(app: str, text: PartText) -> Part:
    """An instance as the database has it."""
    digest = digest_of(text.text)
    return Part(
        text.instance,
        app,
        text.group,
        digest,
        text.text,
        text.receiver,
        text.weight,
        text.listens,
        text.home,
        text.heritage,
    )


def as_json(parts: Sequence[PartText]) -> str:
    """Instances as the row of a change has them."""
    return msgspec.json.encode(parts).decode()


def leave(ledger: Ledger, app: str, version: int, text: str, generation: str) -> None:
    """Note that what a version of an app has, or would have had, is to be removed."""
    row = Stale(f"{app}:{version}", app, version, text, generation)
    ledger.stale[row.name] = row


def change_apps(ledger: Ledger, about: Situation) -> None:
    """Have apps that change drain, and those that have become what they are to be."""
    for change in [ledger.changes[app] for app in sorted(ledger.changes)]:
        parts = ledger.parts_of(change.app)
        for part in parts:
            _drain(ledger, about, part)
        if all(part.instance in ledger.drained and part.instance not in ledger.placements for part in parts):
            _become(ledger, about, change)


def _drain(ledger: Ledger, about: Situation, part: Part) -> None:
    row = ledger.placements.get(part.instance)
    if row is None or not row.wanted:
        return
    if not row.drains:
        ledger.placements[part.instance] = replace(row, epoch=ledger.raised(part.instance), drains=True)
    elif _has_drained(row, about):
        ledger.drained[part.instance] = Drained(part.instance, part.app, row.epoch)
        ledger.placements[part.instance] = replace(row, wanted=False)
        about.says("instance has drained", part.instance)


def _has_drained(row: Placement, about: Situation) -> bool:
    heard = about.presences.get(row.worker)
    found = None if heard is None else heard.running.get(row.instance)
    return found is not None and (found.epoch, found.state) == (row.epoch, "drained")


def _become(ledger: Ledger, about: Situation, change: AppChange) -> None:
    """The new version is the app from now on."""
    before = ledger.apps[change.app]
    leave(ledger, before.name, before.version, before.text, before.generation)
    ledger.apps[change.app] = App(change.app, change.version, change.digest, change.text, change.generation)
    for part in ledger.parts_of(change.app):
        del ledger.parts[part.instance]
        ledger.drained.pop(part.instance, None)
        ledger.failures.pop(part.instance, None)
        ledger.beginnings.pop(part.instance, None)
    for text in msgspec.json.decode(change.parts, type=tuple[PartText, ...]):
        ledger.parts[text.instance] = part_of(change.app, text)
    del ledger.changes[change.app]
    about.says("app changed", change.app, change.digest)
