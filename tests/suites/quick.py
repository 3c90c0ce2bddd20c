"""`python -m tests.suites.quick [--base main] [--seconds 45]`: run the tests that a change touches, and say which are left out.

The change is what the working tree has that the commit `--base` has not. How long a file of tests takes is known from the last `make test`.
"""

from __future__ import annotations

import argparse
import ast
import subprocess
import sys
from collections.abc import Iterable

import grimp

from tests.suites.choice import UNKNOWN, Choice, TestFile, chosen, module_of
from tests.suites.outcome import outcome_of
from tests.suites.started import OUTPUTS, PROJECT, processes, test_paths

PROCESSES = 2


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.suites.quick", description=__doc__)
    parser.add_argument("--base", default="main")
    parser.add_argument("--seconds", type=float, default=45.0)
    given = parser.parse_args(words)
    changed = changes(given.base)
    if not changed:
        print(f"the working tree has nothing that {given.base} has not: no tests to run")
        return 0
    found = chosen(changed, test_files(), importers(changed), given.seconds * PROCESSES)
    print(f"{len(changed)} files differ from {given.base}: {len(found.run)} files of tests, {_sum(found.run):.0f} s")
    status = _run(found) if found.run else 0
    for why, those in found.left_out.items():
        print(f"left out, {why}: {len(those)} files, {_sum(those):.0f} s: {', '.join(_packages(those))}")
    print("left out: tests that are slow or long, and with `make test` all others")
    return status


def _run(found: Choice) -> int:
    runs = processes("quick")
    outcome = runs.run("quick", ("-n", str(PROCESSES), *(file.path for file in found.run)), live=True)
    return 0 if outcome.green else 1


def _sum(files: Iterable[TestFile]) -> float:
    """Seconds of processes."""
    return sum(file.seconds for file in files)


def _packages(files: Iterable[TestFile]) -> list[str]:
    return sorted({"/".join(file.path.split("/")[:2]) for file in files})


def changes(base: str) -> list[str]:
    """The paths of files that differ, new ones too. Errors: exits where there is no such commit."""
    lines = [
        *_git("diff", "--name-only", base, "--"),
        *_git("ls-files", "--others", "--exclude-standard"),
    ]
    return sorted(set(lines))


def _git(*words: str) -> list[str]:
    done = subprocess.run(["git", *words], cwd=PROJECT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"git {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout.splitlines()


def importers(changed: Iterable[str]) -> dict[str, frozenset[str]]:
    """Of each module that has changed: who imports it, directly or through others."""
    graph = grimp.build_graph("nadi", cache_dir=None)
    modules = {module_of(path) for path in changed} & graph.modules
    return {module: frozenset(graph.find_downstream_modules(module)) for module in modules}


def test_files() -> list[TestFile]:
    seconds = known_seconds()
    return [
        TestFile(path, imports_of((PROJECT / path).read_text(encoding="utf-8")), seconds.get(path, UNKNOWN))
        for path in test_paths(PROJECT, ["tests"])
    ]


test_files.__test__ = False  # type: ignore[attr-defined]


def imports_of(source: str) -> frozenset[str]:
    """The modules of nadi that a file imports; of `from a import b` both a and a.b, as b may be a module.

    >>> sorted(imports_of("from nadi.io import journal"))
    ['nadi.io', 'nadi.io.journal']
    """
    found = set[str]()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return frozenset(name for name in found if name.split(".")[0] == "nadi")


def known_seconds() -> dict[str, float]:
    """Of each file of tests, as the runs of all suites have recorded; the last one counts."""
    found: dict[str, float] = {}
    for record in sorted(OUTPUTS.glob("suites/*/tests.jsonl")):
        found |= outcome_of(record.read_text(encoding="utf-8").splitlines(), 0).files
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
