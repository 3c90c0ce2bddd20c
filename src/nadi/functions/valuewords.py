"""Values in the words of the language, for those who read why an event failed: not in those of Python."""

from __future__ import annotations

KINDS = {
    "NoneType": "null",
    "bool": "a bool",
    "int": "a whole number",
    "float": "a number",
    "str": "a text",
    "dict": "a map",
    "list": "a list",
    "tuple": "a list",
    "set": "a set",
    "frozenset": "a set",
}
"""By Python's class: what a value of it is called."""


def kind_of(value: object) -> str:
    """What a value is.

    >>> kind_of("a"), kind_of(None), kind_of({})
    ('a text', 'null', 'a map')
    """
    return KINDS.get(type(value).__name__, "an object")
