"""What a channel can be split by: an attribute, or an expression over the attributes of one event that a producer can evaluate by itself."""

from __future__ import annotations

import hashlib

from nadi.plan.distribution.model import Key
from nadi.plan.nodes import App, Attr, Call, Expr, InTable
from nadi.plan.walk import inside

_NOT_OF_THE_EVENT = frozenset({"UUID", "currentTimeMillis", "eventTimestamp"})


def key_of(value: Expr, text: str) -> Key:
    """The key as channels have it: an attribute under its name, an expression under eight digits of its hash. `text` is the key as it is written.

    >>> from nadi.lang.tree import Type
    >>> key_of(Attr(0, 0, Type.STRING, None, "k"), "k").label, key_of(Call("f", (), Type.STRING), "f()").label
    ('k', 'by19c10413')
    """
    return Key(value.name if isinstance(value, Attr) else f"by{hashlib.sha256(text.encode()).hexdigest()[:8]}", text)


def unfit(plan: App, value: Expr) -> str:
    """Why who makes the events cannot tell the key of one; "" where it can."""
    for node in inside(value):
        if isinstance(node, Call) and node.function in plan.scripts:
            return f"it calls {node.function}(), a script, which the groups before it do not have"
        if isinstance(node, Call) and node.function in _NOT_OF_THE_EVENT:
            return f"it calls {node.function}(), which is no function of the event's attributes alone"
        if isinstance(node, InTable):
            return f"it looks into '{node.table}'"
    return ""
