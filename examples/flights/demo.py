"""The demo: a year of flights and weather through `delays.siddhi` on Spark, then a short summary of what was found.

python examples/flights/demo.py [--state-dir FOLDER]     # as `make demo` does; a second run starts from the beginning again
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

from prepare import prepare

HERE = Path(__file__).resolve().parent
APP = HERE / "delays.siddhi"


def run_app(state: Path, alerts: Path) -> float:
    """Run the app to the end of its input; -> seconds."""
    flights, weather = prepare(state / "input")
    places = {"FLIGHTS": str(flights), "WEATHER": str(weather), "ALERTS": str(alerts)}
    command = [sys.executable, "-m", "nadi", "run", str(APP), "--until-end", "--state-dir", str(state / "node")]
    command += [word for name in places for word in ("--env", name)]
    started = time.monotonic()
    status = subprocess.call(command, env=os.environ | places)
    if status:
        sys.exit(status)
    return time.monotonic() - started


def summary(alerts: Path, seconds: float) -> None:
    """Print what was found."""
    found = [json.loads(line)["event"] for line in alerts.read_text().splitlines()]
    congested = [a for a in found if a["kind"] == "congested"]
    slipping = [a for a in found if a["kind"] == "slipping"]
    print(f"\n{len(found)} alerts in {alerts}, {seconds:.0f} s with Spark's start")
    print(f"  congested airports: {len(congested)}; by airport: {counted(congested)}")
    print(f"  airlines slipping:  {len(slipping)}; most often: {counted(slipping)}")
    foggy = sum(a["visibility"] is not None and a["visibility"] < 5 for a in congested)
    print(f"  {foggy} of the {len(congested)} congestions came with a visibility below 5 miles")
    for alert in sorted(congested, key=lambda a: -a["delay"])[:3]:
        when = datetime.fromtimestamp(alert["ts"] / 1000, UTC).strftime("%d %B %H:%M UTC")
        print(
            f"  worst: {alert['subject']}, {when}: {alert['delay']:.0f} min on average, wind {alert['wind']} mph, rain {alert['rain']} in"
        )


def counted(alerts: list[dict[str, object]]) -> str:
    return ", ".join(f"{subject} {n}" for subject, n in Counter(a["subject"] for a in alerts).most_common(5))


def main() -> None:
    options = argparse.ArgumentParser(description="The flights demo.")
    options.add_argument("--state-dir", type=Path, default=Path(".nadi/demo"))
    state = options.parse_args().state_dir.resolve()
    alerts = state / "alerts.jsonl"
    shutil.rmtree(state / "node", ignore_errors=True)
    alerts.unlink(missing_ok=True)
    summary(alerts, run_app(state, alerts))


if __name__ == "__main__":
    main()
