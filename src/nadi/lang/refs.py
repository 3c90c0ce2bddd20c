"""`ref='name'` in the text of an app: a source, a sink or a store whose type and options the node has."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256

from nadi.errors import NOWHERE, NadiError, Span, did_you_mean, error, placed
from nadi.lang.apps import parse_collecting
from nadi.lang.literals import string_text
from nadi.lang.substitution import WHICH
from nadi.lang.tree import Annotation, Element
from nadi.lang.tree.apps import SiddhiApp

Refs = Mapping[str, tuple[str, Mapping[str, str]]]
"""By name: a type, and options."""

KINDS = ("source", "sink", "store")
DESTINATION = "destination"


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


@dataclass(frozen=True, slots=True)
class Expanded:
    """A text with what refs stand for, and where that is: `pieces` are the stretches of `text` that stand for a ref, with the place of it in `before`. `errors`
    tell of the refs that nobody has named, `unknown` are the annotations with these."""

    before: str
    text: str
    pieces: tuple[tuple[int, int, Span], ...] = ()
    errors: tuple[NadiError, ...] = ()
    unknown: tuple[Span, ...] = ()

    def back(self, span: Span) -> Span:
        """Where in the text before stands what is at a place of this one; what a ref stands for, at the ref.

        >>> made = expanded("@sink(ref='log1', prefx='a') define stream S (a int);", {"log1": ("log", {"priority": "INFO"})})
        >>> at = made.text.index("prefx")
        >>> found = made.back(Span(at, at + 5, 1, at + 1, 1, at + 6))
        >>> made.before[found.start : found.end], found.column
        ('prefx', 19)
        """
        if not self.pieces or span == NOWHERE:
            return span
        start, end = self._offset(span.start, 0), self._offset(span.end, 1)
        line, column = _line_and_column(self.before, start)
        return Span(start, end, line, column, *_line_and_column(self.before, end))

    def _offset(self, place: int, ending: int) -> int:
        shift = 0
        for start, end, ref in self.pieces:
            if place < start + ending:
                break
            if place < end + ending:
                return ref.end if ending else ref.start
            shift = ref.end - end
        return place + shift


def _line_and_column(text: str, place: int) -> tuple[int, int]:
    return text.count("\n", 0, place) + 1, place - text.rfind("\n", 0, place)


def with_refs(text: str, refs: Refs, file: str = "") -> str:
    """The text with the type and the options of each ref in its place. What the annotation says itself counts. A text that is wrong stays as it is.

    Raises:
        SiddhiAppValidationException: REF_UNKNOWN, with the nearest known name; REF_OF_ANOTHER_TYPE.

    >>> with_refs("@sink(ref='log1', prefix='a') define stream S (a int);", {"log1": ("log", {"priority": "INFO", "prefix": "b"})})
    "@sink(type='log', priority='INFO', prefix='a') define stream S (a int);"
    """
    made = expanded(text, refs)
    if made.errors:
        raise placed(made.errors[0], file=file)
    return made.text


def expanded(text: str, refs: Refs) -> Expanded:
    """As `with_refs`, with all errors; a ref that is wrong stays as it is."""
    if "ref" not in text.lower():
        return Expanded(text, text)
    app, unread = parse_collecting(text)
    if unread:
        return Expanded(text, text)
    made, at, length = [], 0, 0
    pieces, errors, unknown = [], [], []
    for annotation, ref in sorted(_found(app), key=lambda pair: pair[1].span.start):
        try:
            written = _written(annotation, ref, refs, text)
        except NadiError as problem:
            errors.append(problem)
            unknown.append(annotation.span)
            continue
        made += [text[at : ref.span.start], written]
        begin = length + ref.span.start - at
        length = begin + len(written)
        pieces.append((begin, length, ref.span))
        at = ref.span.end
    return Expanded(text, "".join([*made, text[at:]]), tuple(pieces), tuple(errors), tuple(unknown))


def _found(app: SiddhiApp) -> Iterator[tuple[Annotation, Element]]:
    """The annotations with a ref, and it: sources, sinks and stores, and the destinations of sinks."""
    for definition in app.definitions:
        for annotation in definition.annotations:
            if annotation.name.lower() not in KINDS:
                continue
            destinations = (d for n in annotation.all("distribution") for d in n.all(DESTINATION))
            for one in (annotation, *destinations):
                yield from ((one, e) for e in one.elements if e.key.lower() == "ref")


def _written(annotation: Annotation, ref: Element, refs: Refs, text: str) -> str:
    """What stands in the place of a ref."""
    if ref.value not in refs:
        raise error("REF_UNKNOWN", ref.span, text, name=ref.value, hint=did_you_mean(ref.value, refs))
    kind, options = refs[ref.value]
    of_sink = annotation.name.lower() == DESTINATION  # its type is that of the sink
    own = kind if of_sink else annotation.get("type")
    if own is not None and own.lower() != kind.lower():
        raise error("REF_OF_ANOTHER_TYPE", ref.span, text, name=ref.value, type=kind, own=own)
    given = {e.key.lower() for e in annotation.elements}
    elements = options if of_sink else {"type": kind, **options}
    written = [f"{k}={string_text(v)}" for k, v in elements.items() if k.lower() not in given]
    return ", ".join(written) or "type=" + string_text(kind)
