"""Names in the documentation that stand for something in the source: found without importing any of it."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

from docpages import ROOT

SOURCE = ROOT / "src"
_NAMED = re.compile(r"`(nadi(?:\.\w+)+)`")
_Named = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def named_in(page: Path) -> list[str]:
    """The dotted names of a page that begin with nadi, in order; settings and loggers are none of them."""
    return _NAMED.findall(page.read_text(encoding="utf-8"))


def exists(name: str) -> bool:
    """Whether a dotted name is a package, a module, or something that a module defines, however deep in its classes."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        file = _file(tuple(parts[:count]))
        if file is not None:
            rest = parts[count:]
            return _defines(_body(file), rest) or (len(rest) == 1 and rest[0] in _passed_on(file))
    return False


def is_function(name: str) -> bool:
    """Whether a dotted name that exists is a function or a class of a module, and no module itself."""
    return exists(name) and _file(tuple(name.split("."))) is None


def _file(parts: tuple[str, ...]) -> Path | None:
    place = SOURCE.joinpath(*parts)
    return next((f for f in (place.with_suffix(".py"), place / "__init__.py") if f.is_file()), None)


@cache
def _body(file: Path) -> tuple[ast.stmt, ...]:
    return tuple(ast.parse(file.read_text(encoding="utf-8")).body)


def _defines(body: tuple[ast.stmt, ...], parts: list[str]) -> bool:
    if not parts:
        return True
    for statement in body:
        if isinstance(statement, _Named) and statement.name == parts[0]:
            inner = tuple(statement.body) if isinstance(statement, ast.ClassDef) else ()
            if _defines(inner, parts[1:]):
                return True
        if len(parts) == 1 and parts[0] in _assigned(statement):
            return True
    return False


def _passed_on(file: Path) -> set[str]:
    """What a package hands on of its modules."""
    if file.name != "__init__.py":
        return set()
    imports = [s for s in _body(file) if isinstance(s, ast.ImportFrom)]
    return {alias.asname or alias.name for one in imports for alias in one.names}


def _assigned(statement: ast.stmt) -> list[str]:
    """The names that a statement gives a value or a type."""
    targets: list[ast.expr] = []
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, ast.AnnAssign):
        targets = [statement.target]
    return [target.id for target in targets if isinstance(target, ast.Name)]
