"""`nadi backtest`: an app over history, as a Spark batch; with `--against`, how its outputs differ from those of another version (exit status 1)."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import typer

from nadi.cli.revision import deployed
from nadi.cli.run import read_app
from nadi.cli.settings import settings
from nadi.errors import did_you_mean, error
from nadi.errors.readable import readable
from nadi.pipeline.engine import plan_app
from nadi.pipeline.history.backtest import Difference, backtest, difference, history, outputs_of, time_column
from nadi.pipeline.query import named_failure
from nadi.pipeline.run import end_session
from nadi.pipeline.session import SessionOptions, build_session
from nadi.plan.nodes import App

STATE = Path(".nadi")
SPARK_LOGS = STATE / "logs"
# All of a history is one batch: writing code for it pays, as it does not for the small ones of a node.
_LARGE = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}


def run(
    app: Path,
    inputs: Sequence[str],
    timestamp: str,
    streams: Sequence[str],
    output: Path | None,
    against: Path | None,
    master: str,
    conf: Sequence[str],
    env: Sequence[str] = (),
    config: Path | None = None,
) -> int:
    """Run; -> exit status. `config`: the deployment.yaml of the node, for refs. Errors: those of the texts, of the inputs and of Spark."""
    refs = deployed(config, STATE).refs
    text, other = (read_app(path, env, refs).filled if path is not None else "" for path in (app, against))
    plans = [plan_app(t) for t in (text, other) if t]
    files = named_files(inputs, plans)
    wanted = chosen(plans, list(files), streams)
    times = {stream: _time_of(plans[0], stream, timestamp) for stream in files}
    with tempfile.TemporaryDirectory(prefix="nadi-backtest-") as temporary:
        folder = output if output is not None else Path(temporary)
        session = build_session(
            SessionOptions(master, SPARK_LOGS, {**_LARGE, **settings(conf)}, f"nadi backtest {plans[0].name}")
        )
        session.conf.set("spark.sql.shuffle.partitions", str(session.sparkContext.defaultParallelism))
        try:
            frames = {s: history(session, path, plans[0].streams[s], times[s]) for s, path in files.items()}
            counts = backtest(session, text, frames, wanted, folder)
            if against is None:
                for stream, count in counts.items():
                    print(f"{stream}: {count:,} rows{f', in {folder / stream}' if output is not None else ''}")
                return 0
            backtest(session, other, frames, wanted, folder / "against")
            found = {s: difference(session, folder / "against" / s, folder / s) for s in wanted}
        except Exception as reason:
            raise named_failure(plans[0].name, reason, SPARK_LOGS / "spark.log") from reason
        finally:
            end_session(session)
    for line in told(found, against.name, app.name):
        print(readable(line))
    return 0 if all(d.equal for d in found.values()) else 1


def named_files(inputs: Sequence[str], plans: Sequence[App]) -> dict[str, Path]:
    """Stream → file. Errors: STREAM_NOT_DEFINED."""
    files = {}
    for given in inputs:
        stream, sign, path = given.partition("=")
        if not sign or not stream or not path:
            raise typer.BadParameter(f"'{given}' is not STREAM=FILE", param_hint="--input")
        for plan in plans:
            if stream not in plan.streams:
                raise error("STREAM_NOT_DEFINED", name=stream, hint=did_you_mean(stream, plan.streams))
        files[stream] = Path(path)
    return files


def chosen(plans: Sequence[App], inputs: Sequence[str], streams: Sequence[str]) -> list[str]:
    """The output streams; each app must have them. Errors: STREAM_NOT_DEFINED."""
    wanted = list(streams) or outputs_of(plans[0], inputs)
    for plan in plans:
        for stream in wanted:
            if stream not in plan.streams:
                raise error("STREAM_NOT_DEFINED", name=stream, hint=did_you_mean(stream, plan.streams))
    return wanted


def _time_of(app: App, stream: str, given: str) -> str:
    found = time_column(app, stream, given)
    if not found:
        raise typer.BadParameter(f"which column has the time of the events of '{stream}'?", param_hint="--timestamp")
    return found


def told(found: Mapping[str, Difference], old: str, new: str) -> list[str]:
    """The differences per stream, the first of them side by side."""
    lines = []
    for stream, d in found.items():
        if d.columns:
            lines.append(f"{stream}: other columns: {d.columns}")
        elif d.equal:
            lines.append(f"{stream}: {d.same:,} rows, the same in both")
        else:
            lines.append(f"{stream}: {d.same:,} rows in both, {d.old:,} only from {old}, {d.new:,} only from {new}")
            width = max(len(left) for _time, left, _right in (*d.first, (0, old, "")))
            lines.append(f"  {'time':<24}  {old:<{width}}  {new}")
            lines += [f"  {_date(time)}  {left or '-':<{width}}  {right or '-'}" for time, left, right in d.first]
    return lines


def _date(ms: int) -> str:
    """
    >>> _date(1357020000250)
    '2013-01-01T06:00:00.250Z'
    """
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
