"""The connector's jar: both compilers make it, it is kept, and one that is out of date is not taken."""

from __future__ import annotations

import shutil
import threading
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
import pytest

from nadi.errors import NadiError
from nadi.pipeline.connector import build
from nadi.pipeline.connector import jar as places
from nadi.pipeline.connector.build import Compiler, NotCompiled, by_janino, by_javac, javac_of, stamp, stamp_of
from nadi.pipeline.connector.jar import ensure_jar
from nadi.pipeline.janino import field_of
from nadi.pipeline.session import jars, java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INSTALLED = Path(pyspark.__file__).parent
PROGRAM = java() or ""
JAVAC = javac_of(PROGRAM) or ""
needs_javac = pytest.mark.skipif(not JAVAC, reason="this Java has no javac")


def classes(jar: Path) -> set[str]:
    with zipfile.ZipFile(jar) as opened:
        return {name for name in opened.namelist() if name.endswith(".class")}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The jar as each compiler makes it."""
    folder = tmp_path_factory.mktemp("jars")
    compilers = {"janino": by_janino(PROGRAM), **({"javac": by_javac(JAVAC)} if JAVAC else {})}
    for name, compiler in compilers.items():
        build.build(compiler, INSTALLED, folder / f"{name}.jar")
    return {name: folder / f"{name}.jar" for name in compilers}


@needs_javac
def test_both_compilers_make_the_same_classes(built: dict[str, Path]) -> None:
    assert classes(built["janino"]) == classes(built["javac"]) > {"nadi/Connector.class"}
    assert stamp_of(built["janino"]) == stamp_of(built["javac"]) == stamp(INSTALLED)


@pytest.mark.spark
@pytest.mark.parametrize("compiler", ["janino", pytest.param("javac", marks=needs_javac)])
def test_java_loads_and_verifies_the_classes(spark: SparkSession, built: dict[str, Path], compiler: str) -> None:
    jvm = spark._jvm
    # beside the loader that has the jar of the session
    urls = spark.sparkContext._gateway.new_array(jvm.java.net.URL, 1)
    urls[0] = jvm.java.net.URI(built[compiler].as_uri()).toURL()
    loader = jvm.java.net.URLClassLoader(urls, jvm.java.lang.ClassLoader.getSystemClassLoader())
    loaded = {}
    for name in classes(built[compiler]):
        dotted = name.removesuffix(".class").replace("/", ".")
        loaded[dotted] = jvm.java.lang.Class.forName(dotted, True, loader)
        assert loaded[dotted].getClassLoader().equals(loader)
    schema = field_of(loaded["nadi.Connector"], None, "ROWS")
    assert schema.simpleString() == "struct<bk:int,host:int,body:binary>"
    loader.close()


def test_the_same_sources_make_the_same_jar(built: dict[str, Path], tmp_path: Path) -> None:
    build.build(by_janino(PROGRAM), INSTALLED, tmp_path / "again.jar")
    assert (tmp_path / "again.jar").read_bytes() == built["janino"].read_bytes()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own, and no jar that was built with the package."""
    monkeypatch.setenv("NADI_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(build, "SHIPPED", tmp_path / "shipped.jar")
    return tmp_path / "cache"


@pytest.fixture
def known(built: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark's compiler gives at once what it gave before: how a jar is chosen and kept has nothing to do with it."""

    def again(_pyspark: Path, classes_of: Path) -> None:
        with zipfile.ZipFile(built["janino"]) as opened:
            opened.extractall(classes_of, classes(built["janino"]))

    monkeypatch.setattr(places, "by_janino", lambda _program: again)


def forbid(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever compiles fails."""
    monkeypatch.setattr(places, "by_javac", lambda _program: _failing)
    monkeypatch.setattr(places, "by_janino", lambda _program: _failing)


def _failing(_pyspark: Path, _classes: Path) -> None:
    raise NotCompiled("it is forbidden")


def test_a_jar_is_built_once_and_kept_for_later_starts(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = ensure_jar(PROGRAM)
    assert cache in first.parents
    assert stamp_of(first) == stamp(INSTALLED)
    forbid(monkeypatch)
    assert ensure_jar(PROGRAM) == first


def test_the_jar_of_the_package_is_taken_where_it_is_of_these_sources(
    cache: Path, built: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    forbid(monkeypatch)
    shutil.copy(built["janino"], build.SHIPPED)
    assert ensure_jar(PROGRAM) == build.SHIPPED
    assert not cache.exists()


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize("damage", ["other sources", "cut short", "no jar of ours"])
def test_a_jar_that_is_not_of_these_sources_is_not_taken_and_built_anew(
    cache: Path, built: dict[str, Path], monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    monkeypatch.setattr(places, "javac_of", lambda _java: None)
    kept = cache / "java" / f"connector-{stamp(INSTALLED)[:16]}.jar"
    kept.parent.mkdir(parents=True)
    for jar in (build.SHIPPED, kept):
        if damage == "cut short":
            jar.write_bytes(built["janino"].read_bytes()[:-100])
        else:
            told = "Nadi-Stamp: 0123\r\n" if damage == "other sources" else ""
            with zipfile.ZipFile(jar, "w") as made:
                made.writestr("META-INF/MANIFEST.MF", f"Manifest-Version: 1.0\r\n{told}")
    assert ensure_jar(PROGRAM) == kept
    assert classes(kept) == classes(built["janino"])


@pytest.mark.usefixtures("known")
def test_without_javac_or_with_one_that_fails_spark_s_own_compiler_makes_it(
    cache: Path, built: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    for found in (None, "/bin/false"):
        monkeypatch.setattr(places, "javac_of", lambda _java, found=found: found)
        made = ensure_jar(PROGRAM)
        assert made.read_bytes() == built["janino"].read_bytes()
        made.unlink()


def test_what_no_compiler_can_build_is_a_condition_that_says_what_each_of_them_said(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "javac_of", lambda _java: "/bin/false")
    with pytest.raises(NadiError, match=r"false ended with status 1: .*No such file.*/no/java.*") as failed:
        ensure_jar("/no/java")
    assert failed.value.condition == "CONNECTOR_NOT_BUILT"


def test_a_cache_that_cannot_be_written_is_a_condition_that_names_it(cache: Path) -> None:
    cache.write_text("a file")
    with pytest.raises(NadiError, match=f"{cache}/java must be writable") as failed:
        ensure_jar(PROGRAM)
    assert failed.value.condition == "CONNECTOR_NOT_BUILT"


@pytest.mark.parametrize("compiler", [by_janino(PROGRAM), pytest.param(by_javac(JAVAC), marks=needs_javac)])
def test_an_error_in_the_sources_is_told_with_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiler: Compiler
) -> None:
    (tmp_path / "java").mkdir()
    (tmp_path / "java" / "Broken.java").write_text("class Broken { int x = y; }")
    monkeypatch.setattr(build, "FOLDER", tmp_path)
    with pytest.raises(NotCompiled, match=r"Broken\.java"):
        build.build(compiler, INSTALLED, tmp_path / "made.jar")
    assert not list(tmp_path.glob("*.jar"))


@pytest.mark.usefixtures("known")
def test_nodes_that_start_at_the_same_time_may_all_build_it(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "javac_of", lambda _java: None)
    made: list[Path] = []
    several = [threading.Thread(target=lambda: made.append(ensure_jar(PROGRAM))) for _ in range(3)]
    for one in several:
        one.start()
    for one in several:
        one.join()
    assert len(made) == 3
    assert len(set(made)) == 1
    assert stamp_of(made[0]) == stamp(INSTALLED)
    assert list(made[0].parent.iterdir()) == [made[0]]


def test_the_jars_of_the_user_go_along(cache: Path, built: dict[str, Path]) -> None:
    shutil.copy(built["janino"], build.SHIPPED)
    assert jars(PROGRAM, "/mine.jar,/yours.jar") == f"/mine.jar,/yours.jar,{build.SHIPPED.as_uri()}"
    assert jars(PROGRAM, "") == build.SHIPPED.as_uri()
    assert jars(None, "") == ""
