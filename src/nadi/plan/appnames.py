"""The name of an app, which is also that of its folder: what it may be.

Siddhi takes any text. Here a name becomes a folder beside others, so it is one name of a folder: spaces and letters of any language are fine, ways out are not.
"""

from __future__ import annotations

from nadi.lang.tree import Annotation
from nadi.plan.annotations import first
from nadi.plan.context import Context

UNNAMED = "SiddhiApp"
"""Where no name is given: a random one would make plans differ from run to run."""

LONGEST = 200
"""Bytes of a name in UTF-8: file systems take 255, and some is added to it."""

_TAKEN = ("logs", "nats", "hosts", "lost+found", "siddhi-app-persistence")
_TAKEN_START = "node."
"""What a node, its journal and the file store of revisions keep in the state folder."""


def app_name(context: Context, annotations: tuple[Annotation, ...]) -> str:
    """From `@app:name`.

    Raises:
        APP_NAME_UNSAFE: no folder could have this name, or the node needs it.
    """
    named = first(annotations, "app:name")
    name = (named.get() if named is not None else None) or UNNAMED
    if named is not None and (reason := unsafe(name)):
        span = named.elements[0].span if named.elements else named.span
        raise context.fail("APP_NAME_UNSAFE", span, name=ascii(name[:LONGEST])[1:-1], reason=reason)
    return name


def unsafe(name: str) -> str:
    """Why a text cannot be the name of an app; "" where it can.

    >>> unsafe("Größte Bestellungen (EU)"), unsafe("../../escape"), unsafe("node.lock")
    ('', "it has a '/', which would lead to another folder", 'the node keeps something of its own by this name')
    """
    for character in "/\\":
        if character in name:
            return f"it has a '{character}', which would lead to another folder"
    if not name.isprintable():
        return "it has a character that cannot be printed"
    if name.startswith("."):
        return "it begins with a '.'"
    if not name.strip() or name != name.strip():
        return "it begins or ends with a space, or has nothing else"
    if len(name.encode(errors="replace")) > LONGEST:
        return f"it has more than {LONGEST} bytes"
    if name.lower() in _TAKEN or name.lower().startswith(_TAKEN_START):
        return "the node keeps something of its own by this name"
    return ""
