"""The packages of nadi as `docs/internals/architecture.md` has them: read from their docstrings and from the import contracts, without importing any of them.

The docstring of a package begins with what the package is for. Its last paragraph begins with "Start with" and names what to read first.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src"
TOP = "nadi"


@dataclass(frozen=True, slots=True)
class Package:
    """A package, or a module directly below `nadi`: its dotted name, what it is for, and what to read first ("" for a module)."""

    name: str
    purpose: str
    start: str

    @property
    def parent(self) -> str:
        return self.name.rpartition(".")[0]


@dataclass(frozen=True, slots=True)
class Floors:
    """A contract of layers: the packages of `container` from the top floor down. Those of one floor import each other only where it is `open`."""

    container: str
    floors: tuple[tuple[str, ...], ...]
    open: frozenset[int]

    def below(self, child: str) -> tuple[str, ...] | None:
        """What a package of the container may import of its siblings; None where the contract does not say."""
        for number, floor in enumerate(self.floors):
            if child in floor:
                beside = floor if number in self.open else ()
                return (
                    *(one for one in beside if one != child),
                    *(one for f in self.floors[number + 1 :] for one in f),
                )
        return None


def contracts() -> list[dict[str, object]]:
    """The import contracts of pyproject.toml."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        found: list[dict[str, object]] = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    return found


@cache
def layers() -> dict[str, Floors]:
    """The contracts of layers, by their container."""
    found = {}
    for contract in contracts():
        if contract["type"] == "layers":
            (container,) = contract["containers"]  # type: ignore[misc]
            rows = [row for row in contract["layers"] if isinstance(row, str)]  # type: ignore[attr-defined]
            floors = tuple(tuple(one.strip() for one in row.replace(":", "|").split("|")) for row in rows)
            found[container] = Floors(container, floors, frozenset(i for i, row in enumerate(rows) if ":" in row))
    return found


def forbidden(name: str) -> tuple[str, ...]:
    """What a package must not import besides, by the contracts that forbid something."""
    found: list[str] = []
    for contract in contracts():
        if contract["type"] == "forbidden" and name in contract["source_modules"]:  # type: ignore[operator]
            found += contract["forbidden_modules"]  # type: ignore[arg-type]
    return tuple(found)


def packages() -> Iterator[Package]:
    """All packages of the source, and the modules directly below `nadi`, in the order of their names."""
    for file in sorted((SOURCE / TOP).rglob("*.py")):
        folder = file.parent.relative_to(SOURCE)
        if file.name == "__init__.py":
            yield _package(".".join(folder.parts), file)
        elif folder == Path(TOP):
            yield Package(f"{TOP}.{file.stem}", _paragraphs(file)[0], "")


def _package(name: str, file: Path) -> Package:
    told = _paragraphs(file)
    start = told[-1] if told[-1].startswith("Start with ") else ""
    return Package(name, told[0], start)


def _paragraphs(file: Path) -> list[str]:
    """The paragraphs of a module's docstring, each on one line."""
    text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return [" ".join(part.split()) for part in text.split("\n\n")]


def may_import(name: str) -> str:
    """What a package may import of the packages and modules that stand beside it, in words."""
    parent, _, child = name.rpartition(".")
    floors = layers().get(parent)
    if floors is not None and any(child in floor for floor in floors.floors):
        told = _downwards(floors, child)
    elif parent == TOP:
        told = "everything"  # such a module stands above all floors
    else:
        told = f"any module of `{_short(parent)}`"
    never = [f"`{_short(one)}`" for one in forbidden(name) if one.startswith(f"{TOP}.")]
    return f"{told}, but not {', '.join(never)}" if never else told


def _downwards(floors: Floors, child: str) -> str:
    """The floor at hand, where its packages import each other, or the next one, and that everything below follows."""
    number = next(n for n, floor in enumerate(floors.floors) if child in floor)
    beside = tuple(one for one in floors.floors[number] if one != child) if number in floors.open else ()
    rest = floors.floors[number + 1 :]
    names = [f"`{one}`" for one in (beside or (rest[0] if rest else ()))]
    deeper = bool(rest[1:] or (beside and rest))
    if not names:
        return "nothing of nadi" if floors.container == TOP else f"no other package of `{_short(floors.container)}`"
    return f"{', '.join(names)} and all floors below" if deeper else " and ".join(names)


def _short(name: str) -> str:
    return name.removeprefix(f"{TOP}.")


def table(names: list[Package], what: str = "what it may import") -> str:
    """Packages as the rows of a table."""
    lines = [f"| package | what it is for | {what} | where to start |", "|---|---|---|---|"]
    for one in names:
        start = one.start.removeprefix("Start with ").rstrip(".") or "it is one module"
        lines.append(f"| `{_short(one.name)}` | {one.purpose} | {may_import(one.name)} | {start} |")
    return "\n".join(lines)


def floors_table() -> str:
    """The packages directly below `nadi`, from the top floor down; then the modules beside them."""
    found = {one.name: one for one in packages() if one.name.count(".") == 1}
    order = [f"{TOP}.{one}" for floor in layers()[TOP].floors for one in floor]
    return table([found[name] for name in order] + [one for name, one in found.items() if name not in order])


LARGE = ("io", "kernel", "pipeline", "server")
"""Packages that have a table of their own."""


def inner_table(top: str) -> str:
    """The packages inside of one, from its top floor down where a contract says so."""
    inside = [one for one in packages() if one.name.startswith(f"{TOP}.{top}.")]
    floors = layers().get(f"{TOP}.{top}")
    order = [] if floors is None else [f"{TOP}.{top}.{one}" for floor in floors.floors for one in floor]
    inside.sort(key=lambda one: order.index(_near(one.name)) if _near(one.name) in order else len(order))
    return table(inside, "what it may import beside it")


def others_table() -> str:
    """The packages inside of all others."""
    inside = [one for one in packages() if one.name.count(".") > 1 and one.name.split(".")[1] not in LARGE]
    return table(inside, "what it may import beside it")


def _near(name: str) -> str:
    """The package of the second floor that one is in."""
    return ".".join(name.split(".")[:3])
