"""Which fault comes next, and that it is done."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from functools import partial

from chosen import at_base, at_delta, at_record, full, move, takeover, twice, zombie
from faults import (
    Fault,
    kill_broker,
    kill_driver,
    kill_host,
    kill_journal,
    kill_jvm,
    kill_nats_sink,
    kill_node,
    kill_writer,
    pause_host,
    stop_node,
)
from revisions import Asking
from world import World

# The ingress is a part of the driver for now: it dies with it. Some of the victims of delta, base and record are whole nodes.
DECK = {
    "host": 2,
    "half delta": 1,
    "delta": 2,
    "base": 2,
    "record": 2,
    "zombie": 1,
    "twice": 1,
    "full": 1,
    "move": 2,
    "takeover": 1,
    "pause": 1,
    "journal": 1,
    "nats sink": 1,
    "broker": 1,
    "driver": 1,
    "jvm": 1,
    "node": 1,
    "revision": 1,
    "stop": 1,
}
ROUNDS = sum(DECK.values())


def deck(dice: random.Random) -> Iterator[str]:
    """Who is next, for ever; so many in a row have every kind of victim."""
    while True:
        cards = [kind for kind, count in DECK.items() for _ in range(count)]
        dice.shuffle(cards)
        yield from cards


def strike(kind: str, world: World, dice: random.Random, asking: Asking) -> Fault:
    """Do one of a kind, as soon as there is one to do it to."""
    if kind == "revision":
        return kill_writer(world, dice, asking)
    if kind in ENDS and dice.random() < MEETS_A_REVISION:
        asking.ask(dice.choice(asking.apps))
        time.sleep(dice.uniform(0, 2.0))  # the moment of the revision at which the next kill meets it
    return _STRIKES[kind](world, dice)


ENDS = ("driver", "node", "jvm", "host", "half delta", "delta", "base", "record", "zombie", "move")
MEETS_A_REVISION = 0.3  # the share of these that come while a revision is made
_STRIKES: dict[str, Callable[[World, random.Random], Fault]] = {
    "driver": kill_driver,
    "node": lambda world, _dice: kill_node(world, "node", "node"),
    "host": kill_host,
    "half delta": partial(at_delta, moment="half delta"),
    "delta": partial(at_delta, moment="delta"),
    "base": at_base,
    "record": at_record,
    "zombie": zombie,
    "twice": twice,
    "full": full,
    "move": move,
    "takeover": takeover,
    "pause": pause_host,
    "jvm": kill_jvm,
    "journal": kill_journal,
    "nats sink": kill_nats_sink,
    "broker": kill_broker,
    "stop": stop_node,
}
