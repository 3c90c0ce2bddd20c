"""Names of groups and channels: functions of the app alone, so that state, offsets and placements are found again."""

from __future__ import annotations

import re

from nadi.plan.distribution.model import Key

_ILLEGAL = {"kafka": re.compile(r"[^A-Za-z0-9._-]"), "nats": re.compile(r"[^A-Za-z0-9_-]")}
_SEPARATOR = {"kafka": ".", "nats": "_"}

TRANSPORTS = tuple(_SEPARATOR)


def channel_name(transport: str, app: str, stream: str, key: Key | None = None) -> str:
    """The topic, or the subject without the number of the partition.

    >>> channel_name("kafka", "W1", "Good", Key("dev", "dev")), channel_name("nats", "My app", "Good")
    ('W1.Good.dev', 'My-20app_Good')
    """
    parts = [app, stream] if key is None else [app, stream, key.label]
    return _SEPARATOR[transport].join(_legal(transport, part) for part in parts)


def of_generation(name: str, generation: str) -> str:
    """The name of a channel of one version of an app: where all instances have drained, those after them have channels of their own.

    >>> of_generation("A_Good", ""), of_generation("A_Good", "v3-0a1b2c")
    ('A_Good', 'A_Good-v3-0a1b2c')
    """
    return f"{name}-{generation}" if generation else name


def _legal(transport: str, text: str) -> str:
    """A text without what the names of a transport may not have: their bytes stand as `-xx`."""
    return _ILLEGAL[transport].sub(lambda found: "".join(f"-{b:02x}" for b in found[0].encode()), text)


def identifier(text: str) -> str:
    """A text as the name of a stream.

    >>> identifier("AP-x")
    'AP_x'
    """
    return re.sub(r"\W", "_", text)


def free(wanted: str, taken: set[str]) -> str:
    """The name, or one like it that nobody has; it is taken from then on."""
    made, again = wanted, 1
    while made in taken:
        again += 1
        made = f"{wanted}_{again}"
    taken.add(made)
    return made
