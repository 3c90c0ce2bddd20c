"""Functions of one's own: from Python and from installed packages."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from nadi.errors import NadiError
from nadi.functions import ScalarFunction, default_registry, function, registry
from nadi.functions.public import installed
from nadi.lang.tree import Type
from nadi.plan.catalog import Argument, SignatureError
from nadi.runtime import Runtime


@function("geo:manhattan")
def manhattan(x: float, y: float = 0.0) -> float:
    """The distance along streets.

    Example: geo:manhattan(3.0, -4.0) → 7.0
    """
    return abs(x) + abs(y)


@function("own:describe", nulls=True)
def describe(name: str | None, *marks: int) -> str:
    """Name and sum."""
    return f"{name}:{sum(marks)}"


def _run(app: str, *rows: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    known = default_registry()
    known.add(manhattan, describe)
    runtime, found = Runtime(app, registry=known), []
    runtime.on_stream("Out", lambda events: found.extend(e.row for e in events))
    runtime.start()
    for row in rows:
        runtime.send("In", [(None, row)])
    return found


def test_a_python_function_is_called_by_an_app() -> None:
    app = "define stream In (x int, n string); from In select geo:manhattan(x, -4) as d, geo:manhattan(x) as e, own:describe(n, x, 2) as s insert into Out;"
    rows = _run(app, (3, "a"))
    assert rows == [(7.0, 3.0, "a:5")]
    assert isinstance(rows[0][1], float)


def test_null_makes_null_unless_the_function_asks_for_nulls() -> None:
    app = "define stream In (x int, n string); from In select geo:manhattan(x) as d, own:describe(n) as s insert into Out;"
    assert _run(app, (None, None)) == [(None, "None:0")]


def test_the_docstring_explains_and_the_annotations_check() -> None:
    assert manhattan.doc == "The distance along streets."
    assert manhattan.examples == ("geo:manhattan(3.0, -4.0) → 7.0",)
    assert manhattan.parameters == ("x", "y")
    assert manhattan.returns((Argument(Type.INT),)) is Type.DOUBLE
    with pytest.raises(SignatureError, match="double"):
        manhattan.returns((Argument(Type.STRING), Argument(Type.INT)))
    with pytest.raises(SignatureError):
        manhattan.returns(())


def test_whole_results_have_the_width_of_their_type() -> None:
    entry = function("own:next", returns=Type.INT, types=(Type.INT,))(lambda x: x + 1)
    assert entry.make((Argument(Type.INT),), Type.INT)(2**31 - 1) == -(2**31)


@pytest.mark.parametrize("name", ["a b", "a:b:c", ":x", ""])
def test_a_name_that_apps_cannot_write_is_refused(name: str) -> None:
    with pytest.raises(NadiError, match="ns:name"):
        function(name)


def test_a_parameter_without_a_type_is_refused() -> None:
    def untyped(x):  # type: ignore[no-untyped-def]
        return x

    def by_name(*, x: int) -> int:
        return x

    for wrong in (untyped, by_name):
        with pytest.raises(NadiError) as caught:
            function("own:wrong")(wrong)
        assert caught.value.condition == "INVALID_FUNCTION"


# ---- installed packages --------------------------------------------------------------------------------------------

_MODULE = """
from nadi.functions import StoreKind, function
from nadi.kernel.rows.memorystore import MemoryStore

@function("{ns}:twice")
def twice(x: float) -> float:
    '''Twice the number.

    Example: {ns}:twice(2) → 4.0
    '''
    return 2 * x

ENTRIES = [twice]

def entries():
    return ENTRIES

STORE = StoreKind("{ns}Shelf", MemoryStore)

NOTHING = 5
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes a distribution with an entry point, as pip would install it."""
    registry._known.cache_clear()

    def install(name: str, target: str) -> None:
        (tmp_path / f"{name}.py").write_text(_MODULE.format(ns=name), encoding="utf-8")
        info = tmp_path / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8")
        (info / "entry_points.txt").write_text(f"[nadi.functions]\n{name} = {name}:{target}\n", encoding="utf-8")
        monkeypatch.syspath_prepend(str(tmp_path))

    yield install
    registry._known.cache_clear()
    for name in [m for m in sys.modules if m.startswith("nadiext")]:
        del sys.modules[name]


@pytest.mark.parametrize("target", ["twice", "ENTRIES", "entries"])
def test_functions_of_an_installed_package_are_known_to_every_app(package: Any, target: str) -> None:
    package(f"nadiext{target}", target)
    entry = default_registry().function(f"nadiext{target}:twice")
    assert isinstance(entry, ScalarFunction)
    app = f"define stream In (x int); from In select nadiext{target}:twice(x) as y insert into Out;"
    runtime, found = Runtime(app), []
    runtime.on_stream("Out", lambda events: found.extend(e.row for e in events))
    runtime.start()
    runtime.send("In", [(None, (4,))])
    assert found == [(8.0,)]


def test_stores_of_an_installed_package_are_known_to_every_app(package: Any) -> None:
    package("nadiextstore", "STORE")
    app = "define stream In (x int); @store(type='NadiExtStoreShelf') define table T (x int); from In insert into T;"
    runtime = Runtime(app)
    runtime.start()
    runtime.send("In", [(None, (4,))])
    assert [e.row for e in runtime.query("from T") or []] == [(4,)]
    assert "nadiextstoreshelf" in default_registry().names("store")


@pytest.mark.parametrize("target", ["missing", "NOTHING"])
def test_a_broken_package_is_named(package: Any, target: str) -> None:
    package(f"nadiextbroken{target.lower()}", target)
    with pytest.raises(NadiError, match=r"EXTENSION_BROKEN.*nadiextbroken"):
        installed()
