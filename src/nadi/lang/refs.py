"""`ref='name'` in the text of an app: a source, a sink or a store whose type and options the node has."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from hashlib import sha256

from nadi.errors import did_you_mean, error
from nadi.lang.apps import parse_collecting
from nadi.lang.literals import string_text
from nadi.lang.substitution import WHICH
from nadi.lang.tree import Annotation, Element
from nadi.lang.tree.apps import SiddhiApp

Refs = Mapping[str, tuple[str, Mapping[str, str]]]
"""By name: a type, and options."""

KINDS = ("source", "sink", "store")


def places_of(refs: Refs) -> tuple[Refs, dict[str, str]]:
    """Refs whose options have the places of variables instead of their values, which may be passwords, and the values by variable: a text with these refs may
    be stored and shown (`nadi.lang.settled`).

    >>> refs, values = places_of({"db": ("rdbms", {"password": "s3cret"})})
    >>> refs["db"][1]["password"] in (f"${{{name}}}" for name in values), [*values.values()]
    (True, ['s3cret'])
    """
    values: dict[str, str] = {}
    made: dict[str, tuple[str, dict[str, str]]] = {}
    for ref, (kind, options) in refs.items():
        names = {key: _variable(ref, key) for key in options if key.lower() not in WHICH}
        values |= {name: options[key] for key, name in names.items()}
        made[ref] = kind, {**options, **{key: f"${{{name}}}" for key, name in names.items()}}
    return made, values


def _variable(ref: str, key: str) -> str:
    """A name that no other option of any ref has."""
    mark = sha256(f"{ref}\0{key}".encode()).hexdigest()[:8]
    return re.sub(r"\W", "_", f"ref_{ref}_{key}_{mark}")


def with_refs(text: str, refs: Refs) -> str:
    """The text with the type and the options of each ref in its place. What the annotation says itself counts. A text that is wrong stays as it is.

    Raises:
        SiddhiAppValidationException: REF_UNKNOWN, with the nearest known name; REF_OF_ANOTHER_TYPE.

    >>> with_refs("@sink(ref='log1', prefix='a') define stream S (a int);", {"log1": ("log", {"priority": "INFO", "prefix": "b"})})
    "@sink(type='log', priority='INFO', prefix='a') define stream S (a int);"
    """
    if "ref" not in text.lower():
        return text
    app, errors = parse_collecting(text)
    if errors:
        return text
    made, at = [], 0
    for annotation, ref in sorted(_found(app), key=lambda pair: pair[1].span.start):
        made += [text[at : ref.span.start], _written(annotation, ref, refs, text)]
        at = ref.span.end
    return "".join([*made, text[at:]])


def _found(app: SiddhiApp) -> Iterator[tuple[Annotation, Element]]:
    """The annotations with a ref, and it."""
    for definition in app.definitions:
        for annotation in definition.annotations:
            if annotation.name.lower() in KINDS:
                yield from ((annotation, e) for e in annotation.elements if e.key.lower() == "ref")


def _written(annotation: Annotation, ref: Element, refs: Refs, text: str) -> str:
    """What stands in the place of a ref."""
    if ref.value not in refs:
        raise error("REF_UNKNOWN", ref.span, text, name=ref.value, hint=did_you_mean(ref.value, refs))
    kind, options = refs[ref.value]
    own = annotation.get("type")
    if own is not None and own.lower() != kind.lower():
        raise error("REF_OF_ANOTHER_TYPE", ref.span, text, name=ref.value, type=kind, own=own)
    given = {e.key.lower() for e in annotation.elements}
    elements = {"type": kind, **options}
    written = [f"{k}={string_text(v)}" for k, v in elements.items() if k.lower() not in given]
    return ", ".join(written) or "type=" + string_text(kind)
