"""Writes what the pages take from the code: `docs/language/errors.md`, the picture `docs/internals/architecture.svg`, and the marked tables of other pages.

.venv/bin/python docs/generate.py           # write
.venv/bin/python docs/generate.py --check   # exit status 1 where a page is not current (a test does this)
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import packages
import picture

from nadi.config import settings_table
from nadi.errors import Condition, conditions, exceptions
from nadi.functions.declare import VALUES
from nadi.functions.entries import Aggregator, ScalarFunction, StreamFunctionSpec
from nadi.functions.registry import default_registry
from nadi.io import registry as connectors
from nadi.kernel.rows.windows import WINDOWS
from nadi.lang.tree import Type
from nadi.plan.catalog import Argument, SignatureError
from nadi.plan.options import Option

HERE = Path(__file__).parent
REGISTRY = default_registry()
_WORDS = {
    "|".join(map(str, Type)): "any",
    "|".join(map(str, VALUES)): "value",
    "int|long|float|double": "number",
}
"""What is said for long lists of types."""


def signature(check: Callable[[tuple[Argument, ...]], Any]) -> str:
    """What an entry takes, in the words in which it refuses other arguments: `(<int> window.length)`."""
    for arguments in ((), (Argument(Type.OBJECT),) * 9):  # one of them is always wrong
        try:
            check(arguments)
        except SignatureError as refusal:
            takes = str(refusal).removeprefix("takes ").split(", found ")[0]
            for types, word in _WORDS.items():
                takes = takes.replace(f"<{types}>", f"<{word}>")
            return takes
    return "(<any> …)"


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table."""
    titles = list(head)
    lines = [titles, ["---"] * len(titles), *rows]
    return "\n".join("| " + " | ".join(c.replace("|", "\\|") for c in line) + " |" for line in lines)


def code(text: str) -> str:
    return f"`{text}`" if text else ""


def overloads(text: str) -> str:
    return "<br>".join(code(o) for o in text.split(" or "))


_NAMESPACES = {
    "": "Null, types, conditions, sets, and what an event or the app knows of itself.",
    "env": "Properties of the node, and addresses in headers.",
    "json": "JSON, as text or as an object. Paths are JSONPath; texts may have single quotes.",
    "map": "Maps, which are objects. None of these functions changes the map that it is given.",
    "math": "Numbers. Results are those of Java's `Math`.",
    "regex": "Regular expressions in Java's syntax, here and in `str`. A pattern that may take a time which doubles with every character of a text, such as "
    "`(a+)+b`, is refused when the app is checked; write `(a++)+b` or `a+b`.",
    "str": "Texts. Positions start at 0.",
    "time": "Dates and times, in GMT where no zone is given. Patterns are Java's, such as `yyyy-MM-dd HH:mm:ss`.",
    "unitconversion": "Lengths, masses, volumes and times in other units.",
}


def functions() -> str:
    """A table per namespace, under a heading with its name."""
    found = [f for n in REGISTRY.names("function") if (f := REGISTRY.function(n)) is not None]
    return "\n\n".join(_namespace(name, list(entries)) for name, entries in _by_namespace(found))


def _by_namespace(found: list[ScalarFunction]) -> Iterable[tuple[str, Iterable[ScalarFunction]]]:
    return groupby(sorted(found, key=lambda f: f.name.rpartition(":")), key=lambda f: f.name.rpartition(":")[0])


def _namespace(name: str, found: list[ScalarFunction]) -> str:
    rows = ([code(f.name), overloads(signature(f.returns)), f.doc, examples(f)] for f in found)
    about = f"{_NAMESPACES[name]}\n\n" if name in _NAMESPACES else ""
    return f"## {name or 'Without a namespace'}\n\n{about}{table(('function', 'takes', 'gives', 'example'), rows)}"


def examples(entry: ScalarFunction | Aggregator | StreamFunctionSpec) -> str:
    return "<br>".join(map(code, entry.examples))


def aggregators() -> str:
    found = [a for n in REGISTRY.names("aggregator") if (a := REGISTRY.aggregator(n)) is not None]
    rows = ([code(a.name), overloads(signature(a.returns)), a.doc, examples(a)] for a in found)
    return table(("aggregator", "takes", "gives", "example"), rows)


def windows() -> str:
    found = [w for n in REGISTRY.names("window") if (w := REGISTRY.window(n)) is not None and n in WINDOWS]
    rows = ([code(w.name), overloads(signature(w.check)), w.doc, "in batches" if w.batch else "sliding"] for w in found)
    return table(("window", "takes", "holds", "emits"), rows)


def stream_functions() -> str:
    found = [s for n in REGISTRY.names("stream_function") if (s := REGISTRY.stream_function(n)) is not None]
    rows = ([code("#" + s.name), overloads(signature(s.adds)), s.doc, examples(s)] for s in found)
    return table(("stream function", "takes", "does", "example"), rows)


def settings() -> str:
    rows = (
        [code(s.name), s.type, " ".join((s.default, s.unit)) if s.default.isdecimal() else s.default, s.doc]
        for s in settings_table()
    )
    return table(("setting", "value", "default", "meaning"), rows)


Sections = dict[str, Callable[[], str]]


def common_options() -> str:
    """What all sources have, and all sinks."""
    of = (("source", connectors.SOURCE_OPTIONS), ("sink", connectors.SINK_OPTIONS))
    return table(("option", "of", "meaning"), ([code(o.name), what, o.doc] for what, options in of for o in options))


def options_of(found: Iterable[Option]) -> str:
    """The options of a type of source or sink."""
    return table(("option", "meaning"), ([code(o.name), _meaning(o)] for o in found))


def options_of_mapper(name: str) -> str:
    """Those of a mapper, with its directions; one that is for something else in each has two rows."""
    kind = connectors.mapper_kind(name)
    of: dict[tuple[str, str], list[str]] = {}
    for what, options in (("source", kind.source_options), ("sink", kind.sink_options)):
        for option in options:
            of.setdefault((option.name, _meaning(option)), []).append(what)
    rows = ([code(option), ", ".join(what), meaning] for (option, meaning), what in of.items())
    return table(("option", "of", "meaning"), rows)


def _meaning(option: Option) -> str:
    return f"required: {option.doc}" if option.required else option.doc


def _connector_tables() -> Sections:
    found: Sections = {"common options": common_options}
    for name in connectors.SOURCES:
        found[f"source {name}"] = partial(options_of, connectors.source_kind(name).options)
    for name in connectors.SINKS:
        found[f"sink {name}"] = partial(options_of, connectors.sink_kind(name).options)
    for name in connectors.MAPPERS:
        kind = connectors.mapper_kind(name)
        if kind.source_options or kind.sink_options:
            found[f"mapper {name}"] = partial(options_of_mapper, name)
    return found


SECTIONS: dict[str, Sections] = {
    "language/functions.md": {"functions": functions},
    "language/aggregators.md": {"aggregators": aggregators},
    "language/windows.md": {"windows": windows},
    "language/stream-functions.md": {"stream functions": stream_functions},
    "operations/io.md": _connector_tables(),
    "operations/run.md": {"settings": settings},
    "internals/architecture.md": {
        "floors": packages.floors_table,
        "others": packages.others_table,
        **{name: partial(packages.inner_table, name) for name in packages.LARGE},
    },
}


def marked(page: str, sections: Sections) -> str:
    """A page with its marked tables made anew."""
    for name, make in sections.items():
        begin, end = f"<!-- generated: {name} -->", f"<!-- end: {name} -->"
        if page.count(begin) != 1 or page.count(end) != 1:
            raise ValueError(f"the page needs {begin} and {end} once each")
        before, rest = page.split(begin)
        page = f"{before}{begin}\n{make()}\n{end}{rest.split(end)[1]}"
    return page


# ---- errors --------------------------------------------------------------------------------------------------------

_ERRORS = """\
# Errors

Every error that nadi raises on purpose has a name, a sentence and the class name that Siddhi uses. The name is stable: scripts and alerts can rely
on it. `nadi check --json` gives it as `condition`, the class as `class`. In Python they are `error.condition` and `error.siddhi_class` of a
`nadi.errors.NadiError`.

Words in braces are filled in. What stands in parentheses says what to do next; not every error has it.

This page is made from the catalogue in `src/nadi/errors/conditions.toml` by `docs/generate.py`.
"""


def _kinds() -> list[type[exceptions.NadiError]]:
    found = [k for k in vars(exceptions).values() if isinstance(k, type) and issubclass(k, exceptions.NadiError)]
    return [k for k in found if k is not exceptions.NadiError]


def _entry(condition: Condition) -> str:
    tail = f" ({condition.next_step})" if condition.next_step else ""
    told = re.sub(r"[{]{2}|[}]{2}", lambda m: m[0][0], condition.message + tail)
    return f"### {condition.name}\n\n    {told}\n"


def errors() -> str:
    """The page of errors, by class."""
    parts = [_ERRORS]
    for kind in _kinds():
        entries = [c for c in conditions().values() if c.siddhi_class == kind.__name__]
        if entries:
            above = kind.__mro__[1].__name__
            under = "" if above == "NadiError" else f" It is a kind of `{above}`."
            doc = (kind.__doc__ or "").strip()
            parts.append(f"## {kind.__name__}\n\n{doc}{under}\n")
            parts += [_entry(c) for c in sorted(entries, key=lambda c: c.name)]
    return "\n".join(parts)


def pages() -> dict[Path, str]:
    """What each page should be."""
    made = {
        HERE / name: marked((HERE / name).read_text(encoding="utf-8"), sections) for name, sections in SECTIONS.items()
    }
    drawn = {HERE / "internals" / "architecture.svg": picture.drawing()}
    return {**made, **drawn, HERE / "language" / "errors.md": errors()}


def main() -> int:
    stale = [p for p, text in pages().items() if not p.exists() or p.read_text(encoding="utf-8") != text]
    if "--check" in sys.argv:
        for page in stale:
            print(f"{page} is not current: run docs/generate.py", file=sys.stderr)
        return 1 if stale else 0
    for page, text in pages().items():
        page.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
