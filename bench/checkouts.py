"""The source checkouts that a run measures: this one, and with `--against` another one beside it."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from bench.children import ROOT, ChildFailedError

THIS, OTHER = "this", "other"
MARK = "NADI_BENCH_RUN"  # in the environment of every process of a node: the folder of its run


@dataclass(frozen=True, slots=True)
class Checkout:
    """A folder with the sources of nadi. `label` names it in results; `commit` is what git says of it; `packages` are folders with others that it finds."""

    label: str
    root: Path
    commit: str
    packages: tuple[Path, ...] = ()

    @property
    def sources(self) -> Path:
        return self.root / "src"

    def environment(self, folder: Path) -> dict[str, str]:
        """The environment of a process that imports nadi from here; `folder` marks all processes that it starts."""
        found = os.pathsep.join(map(str, (self.sources, *self.packages)))
        return {**os.environ, "PYTHONPATH": found, "PYTHONUNBUFFERED": "1", MARK: str(folder)}


def checkouts(against: Path | None) -> tuple[Checkout, ...]:
    """This checkout, and the one it is compared with. Errors: ChildFailedError where a folder has no nadi that can be imported."""
    roots = [(THIS, ROOT), *([(OTHER, against.resolve())] if against is not None else [])]
    found = tuple(Checkout(label, root, _commit(root)) for label, root in roots)
    for checkout in found:
        _check_import(checkout)
    return found


def _commit(root: Path) -> str:
    command = ["git", "-C", str(root), "describe", "--always", "--dirty"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else "?"


def _check_import(checkout: Checkout) -> None:
    """An installed package must not hide the sources of a checkout: both sides would be the same then."""
    command = [sys.executable, "-P", "-c", "import nadi; print(nadi.__file__)"]
    done = subprocess.run(
        command, env=checkout.environment(checkout.root), capture_output=True, text=True, check=False, cwd="/"
    )
    found = done.stdout.strip()
    if done.returncode != 0:
        raise ChildFailedError(f"{checkout.root} has no nadi: {(done.stderr.strip() or '?').splitlines()[-1]}")
    if not Path(found).resolve().is_relative_to(checkout.sources.resolve()):
        raise ChildFailedError(f"{checkout.root} has no nadi: Python takes {found} instead")


def cache_root() -> Path:
    """Where nadi keeps what it has compiled, for this user."""
    named = os.environ.get("NADI_CACHE")
    return Path(named) if named else Path.home() / ".cache" / "nadi"


def archive_is_there(cache: Path | None = None) -> bool:
    """Whether there is an archive of Java's classes (`nadi prepare`). Without one each start takes longer, and a node makes one beside its work."""
    return any(((cache or cache_root()) / "java").glob("*.jsa"))
