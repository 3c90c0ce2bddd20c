"""What `nadi centre` does."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import typer

from nadi.cli.apptext import app_text
from nadi.config.variables import variables_of
from nadi.errors import error
from nadi.errors.exceptions import ConnectionUnavailableException
from nadi.functions.registry import default_registry
from nadi.io.registry import connectors, sink_kind
from nadi.io.turn import TurnCentre, next_turn
from nadi.lang import settled
from nadi.plan import plan_app


def show(path: Path, env: Sequence[str]) -> int:
    """Print the turn at each broker; the exit status is 1 where one is away.

    Raises:
        NadiError: the text makes no app; no sink of it publishes in turn (NOT_SUPPORTED); those of the brokers.
    """
    status = 0
    for sink in _sinks(path, env):
        for centre in sink:
            follower = centre.follower()
            try:
                turn = follower.read().turn
                told = f"the turn of '{turn.centre}' ({turn.token})" if turn.token else "nobody's turn"
            except ConnectionUnavailableException as reason:
                told, status = f"away: {reason.diagnostic.message}", 1
            finally:
                follower.close()
            typer.echo(f"{centre.stream} at {centre.address}: {told}")
    return status


def switch(path: Path, to: str, accept_loss: bool, env: Sequence[str]) -> int:
    """Give the turn of all sinks of an app to a centre; nothing is changed where a broker is away, unless that is accepted.

    Raises:
        NadiError: as for `show`; CONNECTION_UNAVAILABLE where a broker is away.
    """
    for sink in _sinks(path, env):
        ready = [(centre, centre.switch()) for centre in sink]
        known = []
        away = []
        for centre, each in ready:
            try:
                known.append((centre, each, each.begin()))
            except ConnectionUnavailableException:
                if not accept_loss:
                    raise
                away.append(centre.address)
        if not known:
            raise error("CONNECTION_UNAVAILABLE", connector=f"the brokers of {sink[0].stream}", reason="all are away")
        turn = next_turn([told for _, _, told in known], to)
        for centre, each, _ in known:
            each.give(turn)
            typer.echo(f"{centre.stream} at {centre.address}: the turn of '{to}' ({turn.token})")
        for address in away:
            typer.echo(f"{sink[0].stream} at {address}: away; who had the turn may still publish there")
    return 0


def _sinks(path: Path, env: Sequence[str]) -> list[Sequence[TurnCentre]]:
    kept, connections = settled(app_text(path), variables_of(env), file=str(path))
    app = plan_app(kept, default_registry(), file=str(path), connections=connections)
    found = [centres for sink in connectors(app, "sink") if (centres := sink_kind(sink.type).turns(sink))]
    if not found:
        alternative = "kafkaMultiDC or natsMultiDC with publish = 'active'"
        raise error(
            "NOT_SUPPORTED", what=f"a turn of '{app.name}', which has no sink that takes turns", alternative=alternative
        )
    return found
