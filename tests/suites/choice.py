"""Which tests a change touches: those that it changes itself, those that import what it changes, those of the packages that it changes, and of those above."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

UNKNOWN = 2.0
"""Seconds that a file of tests counts for which nobody has run yet."""

CHANGED = "changed"
IMPORTS = "imports what has changed"
MIRRORS = "of a package that has changed"
ABOVE = "of what stands above"
REASONS = (CHANGED, IMPORTS, MIRRORS, ABOVE)
# Folders of other things than the package, and who tests them.
BESIDE = {
    "docs": "tests/docs",
    "examples": "tests/docs",
    "README.md": "tests/docs",
    "CONTRIBUTING.md": "tests/docs",
    "bench": "tests/bench",
    "deploy": "tests/deploy",
}


@dataclass(frozen=True, slots=True)
class TestFile:
    """A file of tests, the modules of nadi that it imports, and the seconds that it took when it was run last."""

    __test__ = False

    path: str
    imports: frozenset[str] = frozenset()
    seconds: float = UNKNOWN


@dataclass(frozen=True, slots=True)
class Choice:
    """`left_out` has files by the reason why they would be run."""

    run: tuple[TestFile, ...]
    left_out: Mapping[str, tuple[TestFile, ...]]


def module_of(path: str) -> str:
    """The module in a file, or the package of a file that is none; "" outside of the package.

    >>> module_of("src/nadi/io/journal.py"), module_of("src/nadi/errors/conditions.toml"), module_of("docs/index.md")
    ('nadi.io.journal', 'nadi.errors', '')
    """
    parts = PurePosixPath(path).parts
    if parts[:2] != ("src", "nadi"):
        return ""
    if not path.endswith(".py") or parts[-1] == "__init__.py":
        return ".".join(parts[1:-1])
    return ".".join(parts[1:]).removesuffix(".py")


def chosen(
    changed: Iterable[str], files: Iterable[TestFile], importers: Mapping[str, frozenset[str]], budget: float
) -> Choice:
    """The files of tests to run within `budget` seconds, those nearest to the change first, of equal ones the quickest first.

    `changed` are paths in the project, `importers` has who imports a module, directly or not.

    >>> files = [TestFile("tests/io/test_io_a.py", frozenset({"nadi.io.a"}), 5), TestFile("tests/cli/test_cli_b.py", frozenset({"nadi.cli.b"}), 90)]
    >>> found = chosen(["src/nadi/io/a.py"], files, {"nadi.io.a": frozenset({"nadi.cli.b"})}, 60)
    >>> [file.path for file in found.run], {why: len(those) for why, those in found.left_out.items()}
    (['tests/io/test_io_a.py'], {'of what stands above': 1})
    """
    paths = set(changed)
    modules = {module for path in paths if (module := module_of(path))}
    above = frozenset().union(*(importers.get(module, frozenset()) for module in modules))
    folders = {f"tests/{module.split('.')[1]}/" for module in modules if "." in module}
    folders |= {f"{BESIDE[first]}/" for path in paths if (first := path.split("/")[0]) in BESIDE}
    # What tests share, such as `conftest.py` and servers, changes the tests beside and below it.
    folders |= {path.rpartition("/")[0] + "/" for path in paths if path.startswith("tests/") and not _is_test(path)}

    def reason(file: TestFile) -> str:
        if file.path in paths:
            return CHANGED
        if file.imports & modules:
            return IMPORTS
        if file.path.startswith(tuple(folders)):
            return MIRRORS
        return ABOVE if file.imports & above else ""

    ranked = [(REASONS.index(why), file.seconds, file) for file in files if (why := reason(file))]
    run, left = list[TestFile](), dict[str, list[TestFile]]()
    for rank, seconds, file in sorted(ranked, key=lambda one: (one[:2], one[2].path)):
        if rank == 0 or sum(one.seconds for one in run) + seconds <= budget:
            run.append(file)
        else:
            left.setdefault(REASONS[rank], []).append(file)
    return Choice(tuple(run), {why: tuple(those) for why, those in left.items()})


def _is_test(path: str) -> bool:
    return path.rpartition("/")[2].startswith("test_")
