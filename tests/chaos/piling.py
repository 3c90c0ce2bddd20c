"""What must not pile up while things are killed: processes, memory, files of the state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from faults import hosts_of, is_host, is_jvm
from world import World

from nadi.pipeline.cutting import cutlog
from nadi.pipeline.cutting.commitlog import KEPT, CommitLog
from nadi.pipeline.statelog.names import named
from nadi.pipeline.statelog.stores import open_store


def too_many(world: World) -> str:
    """What there is of processes that should be gone: those of earlier nodes, hosts of an earlier JVM, a second host in one place; "" where all is well."""
    for node in world.nodes[:-1]:
        if left := node.commands():
            return f"left of an earlier node: {left}"
    commands = world.node.commands()
    jvms = [pid for pid, text in commands.items() if is_jvm(text)]
    if len(jvms) > 1:
        return f"JVMs {jvms}"
    places: Counter[tuple[str, ...]] = Counter()
    for process in hosts_of(world):
        places[tuple(commands.get(process.pid, "- -").split()[-2:])] += 1
    wrong = [place for place, count in places.items() if count > 1 or int(place[1]) not in jvms]
    return f"hosts (index, JVM) {wrong} of JVMs {jvms}" if wrong else ""


def more_memory(known: Mapping[str, int], world: World) -> dict[str, int]:
    """The most that the node's processes have held, in MB, with what they hold now."""
    found = dict(known)
    for pid, text in world.node.commands().items():
        kind = "JVM" if is_jvm(text) else "host" if is_host(text) else "driver" if pid == world.node.process.pid else ""
        if kind:
            found[kind] = max(found.get(kind, 0), _resident(pid))
    return found


def _resident(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return next((int(line.split()[1]) // 1024 for line in lines if line.startswith("VmRSS:")), 0)


def left_over(state: Path) -> list[str]:
    """What is wrong with the files of an app that does not run: objects of earlier runs that nothing needs, more files than are kept."""
    folder = state / "cuts"
    record = CommitLog(folder, 0)
    objects = set(open_store(state / "log").list())
    last, needed = cutlog.current_epoch(folder), record.objects()
    old = sorted(name for name in objects - needed if named(name).epoch < last)
    told = [f"{state.name}: objects that no line needs: {old[:5]}"] if old else []
    gone = sorted(needed - objects)
    told += [f"{state.name}: objects that are missing: {gone[:5]}"] if gone else []
    records = sorted(path.name for path in folder.glob("commits-*"))
    told += [f"{state.name}: {records}"] if len(records) > KEPT else []
    aside = sorted(path.name for path in (state / "revisions").glob("copy-*"))
    return told + ([f"{state.name}: {aside}"] if aside else [])


def files(state: Path) -> str:
    """How many files of which kind an app has, for the report."""
    record = CommitLog(state / "cuts", 0)
    log = [path.name for path in (state / "log").iterdir()]
    needed = record.objects()
    kinds = {
        "needed": sum(name in needed for name in log),
        "left by attempts": sum(name not in needed and name[0] in "bd" for name in log),
        "torn": sum(name.startswith(".") for name in log),
    }
    told = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    return f"{state.name}: objects {told}; {len(list((state / 'cuts').iterdir()))} files in cuts"
