"""`nadi functions`: what apps can call, and how."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from nadi.errors import did_you_mean, error
from nadi.functions.registry import Registry, default_registry
from nadi.lang.tree import Type
from nadi.plan.catalog import Argument, SignatureError

KINDS = {
    "function": "functions",
    "aggregator": "aggregators",
    "window": "windows",
    "stream_function": "stream functions",
}
_ANY = "|".join(map(str, Type))


@dataclass(frozen=True, slots=True)
class Explained:
    """An entry as the command shows it; `takes` are its overloads."""

    name: str
    kind: str
    takes: tuple[str, ...]
    doc: str
    examples: tuple[str, ...]

    @property
    def namespace(self) -> str:
        return self.name.partition(":")[0] if ":" in self.name else ""


def show(name: str, as_json: bool) -> int:
    """Print all entries, or those of a name or a namespace; the exit status.

    Raises:
        FUNCTION_NOT_FOUND: there is none of that name.
    """
    found = [e for e in explained(default_registry()) if not name or name in (e.name, e.namespace)]
    if not found:
        known = [e.name for e in explained(default_registry())]
        raise error("FUNCTION_NOT_FOUND", name=name, hint=did_you_mean(name, known))
    if as_json:
        print(json.dumps([as_record(e) for e in found], indent=2, ensure_ascii=False))
    elif name and all(e.name == name for e in found):
        print("\n".join(page(e) for e in found), end="")
    else:
        print(listing(found), end="")
    return 0


def explained(registry: Registry) -> Iterator[Explained]:
    """All entries, by namespace (those without one first), kind and name."""
    every = [(kind, name) for kind in KINDS for name in registry.names(kind)]
    order = list(KINDS)
    for kind, name in sorted(every, key=lambda e: (e[1].rpartition(":")[0], order.index(e[0]), e[1])):
        entry: Any = getattr(registry, kind)(name)
        check = getattr(entry, "returns", None) or getattr(entry, "adds", None) or entry.check
        takes = overloads(check) or (f"({', '.join(entry.parameters)})",)
        yield Explained(name, kind, takes, entry.doc, getattr(entry, "examples", ()))


def overloads(check: Callable[[tuple[Argument, ...]], Any]) -> tuple[str, ...]:
    """What an entry takes, in the words in which it refuses other arguments: `(<int> window.length)`; nothing where it tells in other words."""
    for arguments in ((), (Argument(Type.OBJECT),) * 9):
        try:
            check(arguments)
        except SignatureError as refusal:
            text = str(refusal)
            if text.startswith("takes ("):
                text = text.removeprefix("takes ").rpartition(", found ")[0]
                return tuple(o.replace(f"<{_ANY}>", "<any>") for o in re.split(r" or (?=\()", text))
    return ()


def listing(entries: list[Explained]) -> str:
    """One line per entry, under headings."""
    width = max(len(e.name) for e in entries) + 2
    lines: list[str] = []
    heading = ""
    for e in entries:
        title = f"{e.namespace or 'without a namespace'}: {KINDS[e.kind]}"
        if title != heading:
            lines += ["", title] if lines else [title]
            heading = title
        lines.append(f"  {e.name:<{width}}{e.doc}")
    return "\n".join(lines) + "\n"


def page(e: Explained) -> str:
    """Everything about one entry."""
    lines = [f"{e.name}, a {e.kind.replace('_', ' ')}", "", f"  {e.doc}", ""]
    lines += [f"  {e.name}{takes}" for takes in e.takes]
    if e.examples:
        lines += ["", *(f"  {example}" for example in e.examples)]
    return "\n".join(lines) + "\n"


def as_record(e: Explained) -> dict[str, object]:
    """An entry as tools read it."""
    return {
        "name": e.name,
        "namespace": e.namespace,
        "kind": e.kind,
        "takes": list(e.takes),
        "doc": e.doc,
        "examples": list(e.examples),
    }
