"""Generated bugs: every condition turned round, every `and` made an `or`, every comparison another one, every effect left out, one at a time, in the modules of
the protocol. What the simulator does not find is either no bug (the same behaviour, or one that nothing promises), or a hole in the invariants.

    PYTHONPATH=src:tests/simulation python tests/simulation/mutants.py --number 60 --schedules 500 --seed 1
    PYTHONPATH=src:tests/simulation python tests/simulation/mutants.py --module changes --number 60 --schedules 500
    PYTHONPATH=src:tests/simulation:tests/simulation/pair python tests/simulation/mutants.py --pair --number 60 --schedules 500
"""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from types import CodeType, FunctionType
from typing import Any

from simrun import CLUSTER, Found, Suite, first_found

MODULES = (
    "leases",
    "election",
    "leader",
    "ledger",
    "reconciliation",
    "changes",
    "presence",
    "instances",
    "worker",
    "manager",
    "writes",
)
PAIR_MODULES = tuple(
    f"pair.{name}"
    for name in (
        "beats", "companions", "follower", "gate", "handover", "insync", "membership", "node", "promotion", "right", "term"
    )
)  # fmt: skip
PATIENCE = 10.0
"""Seconds that one schedule may take: a mutant may never end."""

_OTHER: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.GtE, ast.LtE: ast.Gt, ast.Gt: ast.LtE, ast.GtE: ast.Lt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Mutant:
    """A change of one function."""

    module: str
    function: str  # its qualified name
    line: int
    what: str
    code: CodeType

    def __str__(self) -> str:
        return f"{self.module}.{self.function}, line {self.line}: {self.what}"


def mutants(module: str) -> Iterator[Mutant]:
    """All of a module."""
    source = Path(inspect.getfile(importlib.import_module(f"nadi.cluster.{module}"))).read_text()
    for n in range(len(list(_places(ast.parse(source))))):
        tree = ast.parse(source)
        function, line, apply = list(_places(tree))[n]
        what = apply()
        code = _code(compile(ast.fix_missing_locations(tree), f"<mutant of {module}>", "exec"), function)
        if code is not None:
            yield Mutant(module, function, line, what, code)


def _places(tree: ast.Module) -> Iterator[tuple[str, int, Any]]:
    """Where something can be changed: the function, the line, and what changes the tree and says how."""
    for function, node in _functions(tree.body, ""):
        for inner in ast.walk(node):
            if isinstance(inner, ast.Compare) and len(inner.ops) == 1 and type(inner.ops[0]) in _OTHER:
                yield function, inner.lineno, lambda inner=inner: _compare(inner)
            elif isinstance(inner, ast.BoolOp):
                yield function, inner.lineno, lambda inner=inner: _bool(inner)
            elif isinstance(inner, ast.UnaryOp) and isinstance(inner.op, ast.Not):
                yield function, inner.lineno, lambda inner=inner: _not(inner)
            elif isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Add):
                yield function, inner.lineno, lambda inner=inner: _add(inner)
            for name in ("body", "orelse"):
                body = getattr(inner, name, None)
                for at, statement in enumerate(body if isinstance(body, list) else ()):
                    if _is_effect(statement):
                        yield function, statement.lineno, lambda body=body, at=at: _leave_out(body, at)


def _functions(body: list[ast.stmt], within: str) -> Iterator[tuple[str, ast.AST]]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from _functions(node.body, f"{within}{node.name}.")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield within + node.name, node


def _is_effect(node: ast.stmt) -> bool:
    if isinstance(node, ast.Expr):
        return not isinstance(node.value, ast.Constant)
    if isinstance(node, ast.Assign):
        return isinstance(node.targets[0], ast.Attribute | ast.Subscript)
    return isinstance(node, ast.Delete | ast.AugAssign)


def _compare(node: ast.Compare) -> str:
    before = ast.unparse(node)
    node.ops = [_OTHER[type(node.ops[0])]()]
    return f"{before} → {ast.unparse(node)}"


def _bool(node: ast.BoolOp) -> str:
    before = ast.unparse(node)
    node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    return f"{before} → {ast.unparse(node)}"


def _not(node: ast.UnaryOp) -> str:
    before = ast.unparse(node)
    node.operand = ast.UnaryOp(ast.Not(), node.operand)
    return f"{before} → {ast.unparse(node)}"


def _add(node: ast.BinOp) -> str:
    before = ast.unparse(node)
    node.op = ast.Sub()
    return f"{before} → {ast.unparse(node)}"


def _leave_out(body: list[ast.stmt], at: int) -> str:
    left = ast.unparse(body[at])
    body[at] = ast.copy_location(ast.Pass(), body[at])
    return f"left out: {left}"


def _code(code: CodeType, function: str) -> CodeType | None:
    """The code of a function in that of its module."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            if constant.co_qualname == function:
                return constant
            found = _code(constant, function)
            if found is not None:
                return found
    return None


@contextmanager
def alive(mutant: Mutant) -> Iterator[bool]:
    """The production modules with a mutant; False where the function cannot be changed so."""
    where: Any = importlib.import_module(f"nadi.cluster.{mutant.module}")
    for name in mutant.function.split("."):
        where = inspect.getattr_static(where, name)
    if isinstance(where, property):
        where = where.fget
    if isinstance(where, staticmethod):
        where = where.__func__
    before = where.__code__ if isinstance(where, FunctionType) else None
    if before is None or len(before.co_freevars) != len(mutant.code.co_freevars):
        yield False
        return
    where.__code__ = mutant.code
    try:
        yield True
    finally:
        where.__code__ = before


class Endless(Exception):
    """A schedule that does not end."""


def _endless(_number: int, _frame: object) -> None:
    raise Endless


def hunted(mutant: Mutant, schedules: int, suite: Suite = CLUSTER) -> tuple[int, Found] | str | None:
    """How many schedules it takes to find a mutant; None where none does, a text where it cannot live."""
    before = signal.signal(signal.SIGALRM, _endless)
    try:
        with alive(mutant) as lives:
            if not lives:
                return "cannot be made"
            signal.setitimer(signal.ITIMER_REAL, PATIENCE + schedules * 0.2)
            return first_found(1, schedules, suite)
    except Endless:
        return 1, Found(0, "it does not end", "")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def sample(number: int, seed: int, modules: tuple[str, ...] = MODULES) -> list[Mutant]:
    """Some of all."""
    all_of_them = [mutant for module in modules for mutant in mutants(module)]
    Random(seed).shuffle(all_of_them)
    return all_of_them[:number]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("--number", 60), ("--schedules", 500), ("--seed", 1)):
        parser.add_argument(name, type=int, default=default)
    parser.add_argument("--pair", action="store_true", help="those of the pair")
    parser.add_argument("--module", choices=MODULES, help="those of one module of the cluster")
    asked = parser.parse_args()
    modules: tuple[str, ...] = (asked.module,) if asked.module else MODULES
    suite = CLUSTER
    if asked.pair:
        from pairrun import PAIR

        modules, suite = PAIR_MODULES, PAIR
    found = alive_ones = 0
    for mutant in sample(asked.number, asked.seed, modules):
        outcome = hunted(mutant, asked.schedules, suite)
        if isinstance(outcome, str):
            continue
        found += outcome is not None
        alive_ones += outcome is None
        print(f"{'LIVES' if outcome is None else outcome[0]}\t{mutant}", flush=True)
    print(f"{found} of {found + alive_ones} found")


if __name__ == "__main__":
    main()
