"""The file of a result: settings, machine, figures."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec

from bench.children import ROOT


def machine() -> dict[str, Any]:
    """What the figures hang on."""
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "system": platform.platform(),
        "java": _said(["java", "-version"]).split('"')[1:2][0] if '"' in _said(["java", "-version"]) else "?",
        "python": platform.python_version(),
        "pyspark": version("pyspark"),
        "pyarrow": version("pyarrow"),
        "numpy": version("numpy"),
        "commit": _said(["git", "-C", str(ROOT), "describe", "--always", "--dirty"]) or "?",
        "load": list(os.getloadavg()),
    }


def _said(command: list[str]) -> str:
    """What a command prints, on whichever channel; "" where it does not run."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return (done.stdout or done.stderr).strip() if done.returncode == 0 else ""


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


class Result:
    """The file of a result, written again after every app."""

    def __init__(self, path: Path, settings: dict[str, Any]) -> None:
        self._path = path
        self.told: dict[str, Any] = {
            "suite": settings["suite"],
            "complete": False,
            "started": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
            "failed": "",
            "machine": machine(),
            "settings": settings,
            "apps": {},
        }

    def save(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self._path.with_name(self._path.name + ".new")
        fresh.write_bytes(msgspec.json.encode(self.told))
        fresh.replace(self._path)

    def add(self, app: str, figures: dict[str, Any]) -> None:
        # as a reader of the file finds them
        self.told["apps"][app] = json.loads(msgspec.json.encode(figures))
        if "identity" in self.told["apps"]:
            self.told["ratios_to_identity"] = ratios(self.told["apps"])
        self.save()

    def end(self, complete: bool, failed: str = "") -> None:
        self.told["complete"], self.told["failed"] = complete, failed
        self.told["machine"]["load_after"] = list(os.getloadavg())
        self.save()


def ratios(apps: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Each app to identity: events/s (less than 1 is slower), batch time and latencies (more than 1 is slower)."""
    base = apps.get("identity", {})
    made: dict[str, dict[str, float]] = {}
    for app, told in apps.items():
        mine: dict[str, float] = {}
        for kind, path in (
            ("throughput", ("events_per_s",)),
            ("throughput", ("batch_ms", "median")),
            ("latency", ("ms", "p50")),
            ("latency", ("ms", "p99")),
            ("latency", ("batch_ms", "median")),
        ):
            ours, theirs = _at(told.get(kind), path), _at(base.get(kind), path)
            if ours and theirs:
                mine[f"{kind} {path[0]} {path[-1]}" if len(path) > 1 else f"{kind} {path[0]}"] = round(ours / theirs, 3)
        made[app] = mine
    return made


def _at(told: Any, path: tuple[str, ...]) -> float | None:
    for name in path:
        told = told.get(name) if isinstance(told, dict) else None
    return told if isinstance(told, (int, float)) else None
