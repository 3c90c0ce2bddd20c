"""Compare with Siddhi what the comparison's own families leave out: more families, the extensions of functions, on-demand queries.

    PYTHONPATH=src:. python tests/differential/compare.py ../shared/differential --cases 900 --seed 1 [--families "functions nested"]

All other options are those of the comparison. `--families` takes names of either: without it all of them have their share.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from families import FAMILIES, Made  # noqa: E402 - found beside this file, which may be run as a program

from tests.differential.playing import Case, on_nadi, sorted_rows  # noqa: E402


def extended(run: ModuleType, prepared: Callable[[Path], list[str]], home: Path) -> list[str]:
    """The command of an oracle with the extensions: the comparison's own command, with more on its class path and another class to start."""
    java, memory, _flag, path, _main = prepared(home)
    classes, more = home / "nadi-classes", home / "extensions.cp"
    source = HERE / "siddhi/Siddhi.java"
    compiled = classes / "nadi/Siddhi.class"
    if not more.exists():
        asked = ["mvn", "-B", "-q", "-f", str(HERE / "siddhi/pom.xml"), "dependency:build-classpath"]
        subprocess.run([*asked, f"-Dmdep.outputFile={more}"], check=True)
    if not compiled.exists() or compiled.stat().st_mtime < source.stat().st_mtime:
        classes.mkdir(parents=True, exist_ok=True)
        subprocess.run(["javac", "-nowarn", "-proc:none", "-d", str(classes), "-cp", path, str(source)], check=True)
    return [java, memory, "-cp", f"{classes}:{path}:{more.read_text()}", "nadi.Siddhi"]


TIMES = 8
"""How often Siddhi is asked where it is known to answer now so, now so: what it holds of an aggregation in memory it may find, or not."""


def answers_of_siddhi(ask: Callable[..., dict[str, Case]]) -> Callable[..., dict[str, Case]]:
    """The oracle, with rows sorted in cases that ask for it. A case in which Siddhi does not always answer the same has failed."""

    def asked(command: list[str], cases: list[Case]) -> dict[str, Case]:
        again = [{**case, "id": f"{case['id']}#{n}"} for case in cases if _wavers(case) for n in range(1, TIMES)]
        found = ask(command, [*cases, *again])
        for case in [*cases, *again]:
            if case["id"] in found:
                sorted_rows(case, found[case["id"]])
        for case in again:
            first, other = found.get(case["id"].partition("#")[0]), found.pop(case["id"], None)
            if first is not None and other is not None and other.get("got") != first.get("got"):
                first["failed"] = "it does not always answer the same"
        return found

    return asked


def _wavers(case: Case) -> bool:
    return "define aggregation " in case["app"]


def case(apps: ModuleType, chosen: list[str], seed: int) -> Case:
    """A pure function of the seed."""
    r = random.Random(seed)
    family = r.choice(chosen)
    if family in apps.FAMILIES:
        return dict(apps.case(seed, family))
    made: Made = FAMILIES[family](r)
    return {"id": f"{family}/{seed}", "app": apps.HEAD + made.app, **made.watched(), "events": made.events}


@contextmanager
def _path_to(folder: Path) -> Iterator[None]:
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("comparison", type=Path, help="the folder of the comparison with Siddhi")
    options.add_argument("--families", default="", help="names, separated by spaces")
    given, rest = options.parse_known_args()
    with _path_to(given.comparison):
        import apps  # type: ignore[import-not-found]
        import run  # type: ignore[import-not-found]
    known = [*apps.FAMILIES, *FAMILIES]
    chosen = given.families.split() or known
    unknown = [name for name in chosen if name not in known]
    if unknown:
        options.error(f"no family is named {', '.join(unknown)}: there are {', '.join(known)}")
    own, ask, prepared = apps.case, run.oracle, run.prepared
    plain = argparse.Namespace(FAMILIES=apps.FAMILIES, HEAD=apps.HEAD, case=own)
    apps.case = lambda seed, _only="": case(plain, chosen, seed)
    run.prepared = lambda home: extended(run, prepared, home)
    run.oracle, run.nadi = answers_of_siddhi(ask), on_nadi
    sys.argv = [str(given.comparison / "run.py"), *rest]
    return int(run.main())


if __name__ == "__main__":
    raise SystemExit(main())
