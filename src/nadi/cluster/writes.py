"""What users ask of the leader: pure functions that change a copy of the ledger and say what was done. Asking twice for the same changes nothing more."""

from __future__ import annotations

from dataclasses import replace

from nadi.cluster.appstates import fits, packed, parts_of
from nadi.cluster.changes import as_json, digest_of, leave, part_of
from nadi.cluster.ledger import Ledger
from nadi.cluster.messages import Cleaned, Delete, Deploy, Done, Drain, Forget, Move, Record, Restart, Restore, Write
from nadi.cluster.placement import Wish
from nadi.cluster.reconciliation import Situation
from nadi.cluster.rows import App, AppChange, Beginning, Revision


def written(ledger: Ledger, about: Situation, asked: Write) -> Done:
    """Enter what was asked into the ledger."""
    match asked:
        case Deploy():
            return _deploy(ledger, about, asked)
        case Delete():
            return _delete(ledger, about, asked)
        case Drain():
            return _drain(ledger, about, asked)
        case Move():
            return _move(ledger, about, asked)
        case Restart():
            return _restart(ledger, about, asked)
        case Record():
            return _record(ledger, about, asked)
        case Restore():
            return _restore(ledger, about, asked)
        case Forget():
            return _forget(ledger, about, asked)
        case Cleaned():
            return Done("absent" if ledger.stale.pop(asked.name, None) is None else "deleted")


def version_of(ledger: Ledger, app: str) -> int:
    """The version of an app, also of one that was deleted: it counts on when the name is used again. 0: there was none of this name."""
    found = ledger.epochs.get(_counter(app))
    return 0 if found is None else found.epoch


def _counter(app: str) -> str:
    """The key of an app's counter among those of instances, none of which has a colon in its name."""
    return f"app:{app}"


def _deploy(ledger: Ledger, about: Situation, asked: Deploy) -> Done:
    known, version = ledger.apps.get(asked.name), version_of(ledger, asked.name)
    digest = digest_of(asked.text)
    parts = {text.instance: part_of(asked.name, text) for text in asked.parts}
    before = {part.instance: part for part in ledger.parts_of(asked.name)}
    changing = asked.name in ledger.changes
    same = known is not None and known.digest == digest and parts == before and not changing
    if asked.base is not None and not same:
        return _change(ledger, about, asked, version)
    if changing or _is_stale(asked.after, version, same):
        return Done("stale", version=version)
    if same:
        return Done("unchanged", version=version)
    version = ledger.raised(_counter(asked.name))
    ledger.apps[asked.name] = App(asked.name, version, digest, asked.text, asked.generation)
    for instance in before:
        if instance not in parts:
            del ledger.parts[instance]
    ledger.parts.update(parts)
    what = "created" if known is None else "updated"
    about.says(f"app {what}", asked.name, digest)
    return Done(what, version=version)


def _change(ledger: Ledger, about: Situation, asked: Deploy, version: int) -> Done:
    """Have another version take the place of the one that is there, once that has drained."""
    known, pending = ledger.apps.get(asked.name), ledger.changes.get(asked.name)
    parts = as_json(asked.parts)
    same = pending is not None and (pending.digest, pending.parts) == (digest_of(asked.text), parts)
    if known is None or known.version != asked.base or _is_stale(asked.after, version, same):
        return Done("stale", version=version)
    if same:
        return Done("unchanged", version=version)
    if pending is not None:
        leave(ledger, asked.name, pending.version, pending.text, pending.generation)
    version = ledger.raised(_counter(asked.name))
    ledger.changes[asked.name] = AppChange(
        asked.name, version, digest_of(asked.text), asked.text, asked.generation, parts
    )
    about.says("app changes", asked.name, "when it has drained")
    return Done("changing", version=version)


def _is_stale(after: int | None, version: int, done: bool) -> bool:
    """Whether a write was meant for another version than there is. One that was made already, and is asked again, is not."""
    return after is not None and after != version and not (done and after == version - 1)


def _delete(ledger: Ledger, about: Situation, asked: Delete) -> Done:
    version, absent = version_of(ledger, asked.name), asked.name not in ledger.apps
    if _is_stale(asked.after, version, absent):
        return Done("stale", version=version)
    if absent:
        return Done("absent", version=version)
    known = ledger.apps.pop(asked.name)
    if known.generation:  # what the first version of a name has left is known without
        leave(ledger, known.name, known.version, known.text, known.generation)
    pending = ledger.changes.pop(asked.name, None)
    if pending is not None:
        leave(ledger, asked.name, pending.version, pending.text, pending.generation)
    for instance in [row.instance for row in ledger.drained.values() if row.app == asked.name]:
        del ledger.drained[instance]
    version = ledger.raised(_counter(asked.name))
    for part in ledger.parts_of(asked.name):
        del ledger.parts[part.instance]
        ledger.beginnings.pop(part.instance, None)
    for name in [row.name for row in ledger.revisions.values() if row.app == asked.name]:
        del ledger.revisions[name]
    about.says("app deleted", asked.name)
    return Done("deleted", version=version)


def _drain(ledger: Ledger, about: Situation, asked: Drain) -> Done:
    row = ledger.workers.get(asked.worker)
    if row is None:
        return Done("absent")
    if row.draining == asked.on:
        return Done("unchanged")
    ledger.workers[asked.worker] = replace(row, draining=asked.on)
    about.says("worker drains" if asked.on else "worker is used again", asked.worker)
    return Done("updated")


def _move(ledger: Ledger, about: Situation, asked: Move) -> Done:
    row = ledger.placements.get(asked.instance)
    if row is None:
        return Done("absent")
    if row.wanted:
        ledger.placements[asked.instance] = replace(row, wanted=False)
        about.wishes[asked.instance] = Wish(away=row.worker)
        about.says("instance moves", asked.instance, "on demand")
    return Done("moving")


def _restart(ledger: Ledger, about: Situation, asked: Restart) -> Done:
    if asked.name not in ledger.apps:
        return Done("absent", version=version_of(ledger, asked.name))
    for part in ledger.parts_of(asked.name):
        row = ledger.placements.get(part.instance)
        ledger.failures.pop(part.instance, None)
        if row is not None and row.wanted:  # what lies nowhere starts anyway
            epoch = ledger.raised(part.instance)
            ledger.placements[part.instance] = replace(row, epoch=epoch, digest=part.digest)
    about.says("app restarts", asked.name, "on demand")
    return Done("restarting", version=version_of(ledger, asked.name))


# ---- revisions


def _record(ledger: Ledger, about: Situation, asked: Record) -> Done:
    if asked.name in ledger.revisions:
        return Done("unchanged")
    known, version = ledger.apps.get(asked.app), version_of(ledger, asked.app)
    if known is None or version != asked.version or not fits(asked.parts, ledger.parts_of(asked.app)):
        return Done("stale", version=version)
    ledger.revisions[asked.name] = Revision(asked.name, asked.app, version, about.stamp, packed(asked.parts))
    about.says("revision made", asked.app, asked.name)
    return Done("recorded", version=version)


def _restore(ledger: Ledger, about: Situation, asked: Restore) -> Done:
    """Each instance gets a higher epoch, before which nothing of it is accepted any more, and with it what it begins with."""
    row = ledger.revisions.get(asked.revision)
    if row is None or row.app != asked.app or asked.app not in ledger.apps:
        return Done("absent")
    states = parts_of(row)
    if asked.app in ledger.changes or not fits(states, ledger.parts_of(asked.app)):
        return Done("unfit")
    for state in states:
        placed, known = ledger.placements.get(state.instance), ledger.epochs.get(state.instance)
        if placed is not None and placed.wanted:
            epoch = ledger.raised(state.instance)
            ledger.placements[state.instance] = replace(placed, epoch=epoch)
        else:
            epoch = 1 if known is None else known.epoch + 1  # what it will be placed with, or less
        ledger.beginnings[state.instance] = Beginning(state.instance, state.revision, epoch)
    about.says("app restored", asked.app, asked.revision)
    return Done("restoring")


def _forget(ledger: Ledger, about: Situation, asked: Forget) -> Done:
    gone = [name for name in asked.revisions if name in ledger.revisions]
    for name in gone:
        about.says("revision deleted", ledger.revisions.pop(name).app, name)
    return Done("deleted" if gone else "absent")
