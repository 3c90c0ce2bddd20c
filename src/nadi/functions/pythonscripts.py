"""Scripts in Python: what they may use, whether a body keeps to it, and the body as a compiled function.

The rules here keep scripts deterministic and make what they cannot have an error of the app's text. They are no wall: that is the sandbox of the runtime,
which takes from its process what these rules might let through.
"""

from __future__ import annotations

import ast
import base64
import builtins
import contextlib
import marshal
import textwrap
from collections.abc import Iterator
from types import CodeType

from nadi.errors import did_you_mean, nearest
from nadi.plan.catalog import ScriptProblem

_BUILTINS = """
abs all any bin bool bytes chr complex dict divmod enumerate filter float format frozenset hex int isinstance issubclass iter len list map max min next
oct ord pow range repr reversed round set slice sorted str sum tuple zip
ArithmeticError AssertionError AttributeError Exception IndexError KeyError LookupError OverflowError RecursionError RuntimeError StopIteration TypeError
UnicodeError ValueError ZeroDivisionError
"""

_MODULES = {
    "collections": "Counter OrderedDict defaultdict deque",
    "functools": "cmp_to_key partial reduce",
    "itertools": """
        accumulate chain combinations combinations_with_replacement compress count cycle dropwhile filterfalse groupby islice pairwise permutations
        product repeat starmap takewhile tee zip_longest""",
    "json": "dumps loads",
    "math": """
        acos acosh asin asinh atan atan2 atanh cbrt ceil comb copysign cos cosh degrees dist e erf erfc exp exp2 expm1 fabs factorial floor fmod frexp
        fsum gamma gcd hypot inf isclose isfinite isinf isnan isqrt lcm ldexp lgamma log log10 log1p log2 modf nan nextafter perm pi pow prod radians
        remainder sin sinh sqrt tan tanh tau trunc ulp""",
    "re": "A I IGNORECASE M S X compile escape findall finditer fullmatch match search split sub subn",
}

BUILTINS: tuple[str, ...] = tuple(_BUILTINS.split())
MODULES: dict[str, tuple[str, ...]] = {module: tuple(names.split()) for module, names in _MODULES.items()}
"""What `import` finds: none of it has a clock, chance, or a way to the outside."""

LONGEST = 100_000
"""Characters of a body, as in JavaScript."""

_FORBIDDEN_STARTS = ("_", "f_", "gi_", "cr_", "ag_", "tb_", "co_")
"""Attributes by which a value leads to the interpreter behind it."""

_FORBIDDEN_NAMES = ("format", "format_map", "mro")
_FORBIDDEN_NODES = {
    ast.ClassDef: "classes cannot be defined in a script function",
    ast.AsyncFunctionDef: "'async' has no meaning in a script function",
    ast.Await: "'await' has no meaning in a script function",
    ast.AsyncFor: "'async' has no meaning in a script function",
    ast.AsyncWith: "'async' has no meaning in a script function",
}

Located = ast.stmt | ast.expr | ast.excepthandler | ast.alias | ast.keyword | ast.arg | ast.pattern


class Python:
    """Implements `nadi.plan.catalog.ScriptLanguage`."""

    name = "python"
    title = "Python"

    def check(self, body: str) -> ScriptProblem | None:
        """What is wrong with the text between the braces.

        >>> Python().check("return data[0].upper()") is None
        True
        >>> Python().check("import os").reason
        "no module 'os' in script functions; known: collections, functools, itertools, json, math, re"
        """
        if len(body) > LONGEST:
            return ScriptProblem(f"it has {len(body):,} characters; {LONGEST:,} is the most that is read", 1, 1)
        margin = _margins(body)
        try:
            tree = _parsed(body)
            for found in _forbidden(tree):
                return _placed(found, body, margin)
            _compile("f", tree)
        except SyntaxError as problem:
            found = ScriptProblem(f"SyntaxError: {problem.msg}", problem.lineno or 1, problem.offset or 1)
            return _placed(found, body, margin)
        except (RecursionError, MemoryError, ValueError) as problem:
            return ScriptProblem(str(problem) or "nested too deep", 1, 1)
        return None

    def prepared(self, name: str, body: str) -> str:
        """What the sandbox is given: the function as compiled code."""
        code = _compile(name, _parsed(body))
        return base64.b64encode(marshal.dumps(code)).decode()


def _parsed(body: str) -> ast.Module:
    """The tree of a body, whose lines may be indented as they like.

    What stands on the line of the brace is of the level of the other lines, or opens the block that they are.

    Raises:
        SyntaxError: as of the former.
    """
    first, newline, rest = body.partition("\n")
    first, rest = first.lstrip(), textwrap.dedent(rest)
    try:
        return ast.parse(first + newline + rest)
    except SyntaxError:
        if first.rstrip().endswith(":"):
            with contextlib.suppress(SyntaxError):
                return ast.parse(first + newline + textwrap.indent(rest, " "))
        raise


def _margins(body: str) -> tuple[int, int]:
    """How far the first line and the others stand from the margin.

    >>> _margins(" a = 1\\n    return a\\n")
    (1, 4)
    """
    first, _newline, rest = body.partition("\n")
    moved = textwrap.dedent(rest)
    before = next((line for line in rest.split("\n") if line.strip()), "")
    after = next((line for line in moved.split("\n") if line.strip()), "")
    return len(first) - len(first.lstrip()), len(before) - len(after)


def _placed(found: ScriptProblem, body: str, margin: tuple[int, int]) -> ScriptProblem:
    moved = margin[0] if found.line == 1 else margin[1]
    line = min(found.line, body.count("\n") + 1)
    return ScriptProblem(found.reason, line, found.column + moved)


def _compile(name: str, tree: ast.Module) -> CodeType:
    """The code of a module that defines the function."""
    arguments = ast.arguments(posonlyargs=[], args=[ast.arg("data")], kwonlyargs=[], kw_defaults=[], defaults=[])
    function = ast.FunctionDef(name, arguments, tree.body or [ast.Pass()], [], lineno=1, col_offset=0)
    module = ast.fix_missing_locations(ast.Module([function], []))
    return compile(module, "<script>", "exec", dont_inherit=True)


def _forbidden(tree: ast.Module) -> Iterator[ScriptProblem]:
    """What a script may not do, in the order of a walk through its tree."""
    known = {*BUILTINS, "data", *_bound(tree)}
    for node in ast.walk(tree):
        if reason := _reason(node, known):
            assert isinstance(node, Located)
            yield ScriptProblem(reason, node.lineno, node.col_offset + 1)


def _reason(node: ast.AST, known: set[str]) -> str:
    if reason := _FORBIDDEN_NODES.get(type(node)):
        return str(reason)
    match node:
        case ast.Attribute(ctx=ast.Store() | ast.Del()):
            return "attributes cannot be set: no state is kept between calls"
        case ast.Attribute(attr=name):
            return _attribute(name)
        case ast.MatchClass(kwd_attrs=names):
            return next((r for r in map(_attribute, names) if r), "")
        case ast.Import(names=names):
            return next((r for r in (_module(alias.name) for alias in names) if r), "")
        case ast.ImportFrom(module=module, names=names, level=level):
            return _module("." * level + (module or "")) or _members(module or "", names)
        case ast.Name(id=name) if name.startswith("__") or name not in known:
            return _unknown(name, known)
    return ""


def _attribute(name: str) -> str:
    if name in ("format", "format_map"):
        return f"'.{name}' is not available: write an f-string, or use '%'"
    if name.startswith(_FORBIDDEN_STARTS) or name in _FORBIDDEN_NAMES:
        return f"the attribute '{name}' is not available in script functions"
    return ""


def _module(name: str) -> str:
    return "" if name in MODULES else f"no module '{name}' in script functions; {did_you_mean(name, MODULES)}"


def _members(module: str, names: list[ast.alias]) -> str:
    missing = [a.name for a in names if a.name not in MODULES[module]]
    return (
        f"'{module}' has no '{missing[0]}' in script functions; {did_you_mean(missing[0], MODULES[module])}"
        if missing
        else ""
    )


def _unknown(name: str, known: set[str]) -> str:
    if name == "print":
        return "'print' is not available: a script function has no output but its result"
    if hasattr(builtins, name) or name.startswith("__"):
        return f"'{name}' is not available in script functions"
    near = nearest(name, known)
    return f"the name '{name}' is not defined" + (f"; did you mean '{near}'?" if near else "")


def _bound(tree: ast.Module) -> Iterator[str]:
    """Every name that something in the body gives a value."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                yield name
            case ast.FunctionDef(name=name) | ast.arg(arg=name):
                yield name
            case ast.alias(name=name, asname=other):
                yield other or name
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield name
            case ast.MatchMapping(rest=str(name)):
                yield name
