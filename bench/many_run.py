"""A run of the suite `node` for one checkout: its stages in order, the figures kept after each."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from bench.checkouts import cache_root
from bench.live import Say
from bench.many import ON_A_NODE, NodeSetting
from bench.many_add import of_adding
from bench.many_busy import of_busy
from bench.many_poison import of_poisons
from bench.many_rest import of_rest
from bench.many_start import Running, running
from bench.many_traffic import KILLS, of_each, of_idling, of_kill, of_memory, of_singles
from bench.publicnode import TooSlowError

Keep = Callable[[str, dict[str, Any]], object]
"""Is given the stage that is over, and all figures so far."""


class Figures:
    """What was found so far, kept after each stage. A stage that was too slow is told with its reason, and those that need it are left out."""

    def __init__(self, keep: Keep, say: Say, label: str) -> None:
        self.told: dict[str, Any] = {"too_slow": {}}
        self._keep, self._say, self._label = keep, say, label

    def add(self, stage: str, figures: dict[str, Any]) -> None:
        self.told[stage] = figures
        self._keep(stage, self.told)

    def stage(self, stage: str, measure: Callable[[], dict[str, Any]]) -> bool:
        """Whether it was measured. Errors: those of the measure but TooSlowError."""
        try:
            self.add(stage, measure())
        except TooSlowError as reason:
            self.told["too_slow"][stage] = str(reason)
            self._say(f"{self._label}, {stage}: {reason}")
            self._keep(stage, self.told)
            return False
        return True


def measure_node(setting: NodeSetting, say: Say, keep: Keep) -> None:
    """All stages that were asked for. Errors: ChildFailedError where a node dies, WrongOutputError where a row is lost, wrong or there twice."""
    figures = Figures(keep, say, setting.checkout.label)
    wanted = setting.stages
    cache = None
    if "cold" in wanted:
        cache = fresh_cache(setting.folder / "cache")
        figures.stage("cold", lambda: _started(setting, "cold start", setting.apps, cache, say))
    if set(wanted) & set(ON_A_NODE) and "cold" not in figures.told["too_slow"]:
        _on_a_node(setting, cache, figures, say)
    if "one" in wanted:
        figures.stage("one", lambda: _of_one(setting, cache, say))
    rest_cache = cache
    if "rest-cold" in wanted:
        rest_cache = fresh_cache(setting.folder / "cache-of-rest")
        figures.stage("rest-cold", lambda: of_rest(setting, "over REST cold", rest_cache, say))
    if "rest" in wanted:
        figures.stage("rest", lambda: of_rest(setting, "over REST", rest_cache, say))
    if "busy" in wanted and not {"cold", "warm"} & figures.told["too_slow"].keys():
        figures.stage("busy", lambda: _of_busy(setting, cache, say))
    if "poison" in wanted:
        figures.stage("poison", lambda: of_poisons(setting, cache, say))


def _started(setting: NodeSetting, label: str, count: int, cache: Path | None, say: Say) -> dict[str, Any]:
    with running(setting, label, count, cache, say) as made:
        return made.start


def _on_a_node(setting: NodeSetting, cache: Path | None, figures: Figures, say: Say) -> None:
    """The stages of one node, one after the other; when one is too slow, the node is given up."""
    stages: dict[str, Callable[[Running], dict[str, Any]]] = {
        "idle": lambda made: of_idling(made, setting.seconds),
        "single": of_singles,
        "each": lambda made: of_each(made, setting.seconds),
        **{stage: partial(of_kill, kind=kind) for stage, kind in KILLS.items()},
        "add": of_adding,
    }

    def whole() -> dict[str, Any]:
        with running(setting, "warm start", setting.apps, cache, say) as made:
            figures.add("warm", made.start)
            figures.add("memory", of_memory(made))
            for stage in ON_A_NODE[1:]:
                if stage in setting.stages and not figures.stage(stage, lambda: stages[stage](made)):  # noqa: B023
                    raise TooSlowError(f"the node was given up after '{stage}'")
        return made.start  # with the rows that were checked

    figures.stage("warm", whole)


def _of_one(setting: NodeSetting, cache: Path | None, say: Say) -> dict[str, Any]:
    """The memory of a node of one app."""
    with running(setting, "one app", 1, cache, say) as made:
        return of_memory(made)


def _of_busy(setting: NodeSetting, cache: Path | None, say: Say) -> dict[str, Any]:
    alone = of_busy(setting, 0, cache, say)
    beside = of_busy(setting, setting.apps - 1, cache, say)
    ratio = beside["events_per_s"] / alone["events_per_s"] if alone["events_per_s"] else 0.0
    return {"alone": alone, "beside": beside, "ratio": ratio}


def fresh_cache(folder: Path) -> Path:
    """A folder for what is compiled, with nothing in it but the archive of Java's classes, which is another matter."""
    folder.mkdir(parents=True)
    archives = cache_root() / "java"
    if archives.exists():
        (folder / "java").symlink_to(archives)
    return folder
