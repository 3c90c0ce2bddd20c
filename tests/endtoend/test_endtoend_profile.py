"""`nadi run --profile` and `nadi profile`, with the app that the documentation shows."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from nodes import nadi

PAGE = Path(__file__).parents[2] / "docs" / "operations" / "profile.md"
EVENTS = 5_000

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(600)]


def test_the_app_of_the_documentation_is_profiled_as_it_is_shown(tmp_path: Path) -> None:
    text = PAGE.read_text(encoding="utf-8")
    found = re.search(r"```sql\n-- readings\.siddhi\n(.*?)```", text, re.DOTALL)
    assert found is not None
    app, state = tmp_path / "readings.siddhi", tmp_path / "state"
    app.write_text(re.sub(r"'(\w+\.jsonl)'", rf"'{tmp_path}/\1'", found[1]))
    rows = [{"at": 1_700_000_000_000 + i, "sensor": f"s{i % 100}", "value": i * 7 % 101} for i in range(EVENTS)]
    (tmp_path / "readings.jsonl").write_text("".join(json.dumps({"event": row}) + "\n" for row in rows))
    where = ("--state-dir", state)
    done = nadi(
        "run", app, *where, "--until-end", "--profile", "--master", "local[2,4]", "--conf", "nadi.batch.events=1000"
    )
    assert done.returncode == 0, done.stdout + done.stderr

    told = json.loads(nadi("profile", "Readings", *where, "--json").stdout)
    assert (told["total"], told["running"]) == (5, False)
    assert sum(p["share"] for p in told["phases"].values()) == pytest.approx(1.0, abs=0.05)
    assert all(
        told["phases"][name]["mean"] > 0 for name in ("scheduling", "read", "kernel", "state", "write", "commit")
    )
    parts = {part["name"]: part for part in told["parts"]}
    assert parts["query high"]["events"] == parts["query means"]["events"] == EVENTS
    assert told["slowest"] == "query means"

    shown = nadi("profile", "Readings", *where).stdout
    assert shown in done.stdout  # the run has shown it at its end
    labels = re.findall(r"^│ ([a-z][^│]*?) +│", text, re.MULTILINE)
    assert len(labels) > 10
    assert all(label in shown for label in labels), shown

    done = nadi("run", app, *where, "--until-end", "--master", "local[2,4]")
    assert done.returncode == 0, done.stdout + done.stderr
    late = nadi("profile", "Readings", *where)
    assert late.returncode == 1
    assert "NOT_PROFILED" in late.stderr
