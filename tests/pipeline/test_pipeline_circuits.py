"""How it is with the sources and sinks of an app, as the supervisor tells it and the panel shows it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from nadi.cli.panel import panel, plain
from nadi.errors import NadiError, error
from nadi.io.circuits import watched
from nadi.metrics import AppProgress, Circuit
from nadi.pipeline.circuits import Circuits
from nadi.pipeline.cutting import cutlog
from nadi.pipeline.cutting.cutmaker import CutMaker
from nadi.pipeline.spec import AppSpec

TEXT = """@app:name('A') @source(type='test', file='{folder}/in') define stream In (n long);
@sink(type='test', file='{folder}/out') @sink(type='test', file='{folder}/other') define stream Out (n long);
from In select n insert into Out;"""


def test_what_is_away_is_told_by_source_and_sink_and_shown_where_it_is_not_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "state").mkdir()
    (tmp_path / "in").touch()
    text = TEXT.format(folder=tmp_path)
    spec = AppSpec("A", text, str(tmp_path / "state"), connectors="pipeline_testlog", order_idle=60_000)
    spec = replace(spec, epoch=cutlog.take_over(spec.place.state / "cuts"))
    circuits, maker = Circuits(spec), CutMaker(spec)
    start = maker.initial()
    names = ("source test of In", "sink test of Out", "sink test of Out")
    assert circuits.look(None) == tuple(map(Circuit, names))
    (tmp_path / "in.away").touch()
    maker.next(start, None)
    with pytest.raises(NadiError), watched(spec.place.state, 1, 0):
        raise error("CONNECTION_UNAVAILABLE", connector="it", reason="nobody listens")
    told = circuits.look(maker.status)
    assert [(c.connector, c.state, c.attempts) for c in told] == [
        (names[0], "half-open", 0),
        (names[1], "closed", 0),
        (names[2], "open", 1),
    ]
    assert "it is away" in told[0].reason
    progress = AppProgress("A", circuits=told)
    assert "sink test of Out: open since" in plain(progress)
    console = Console(width=150, record=True)
    console.print(panel(progress))
    shown = console.export_text()
    assert "1 of 3 closed" in shown
    assert "source test of In: half-open since" in shown
    assert "UTC, 1 attempts: " in shown
    (tmp_path / "in.away").unlink()
    maker.next(start, None)
    assert circuits.look(maker.status)[0].state == "closed"
