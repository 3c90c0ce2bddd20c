"""Names of attributes: what a place in the text can see, and which row and column a reference means.

A scope is made of layers. A bare name is looked for layer by layer; within a layer it must be unambiguous. A qualified name means the first
place that is called so (semantics/text.md#references).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nadi.errors import did_you_mean
from nadi.lang.tree import Type, Variable
from nadi.plan.context import Context
from nadi.plan.nodes import OUTPUT, Attr, AttrList, Schema


@dataclass(frozen=True, slots=True)
class Place:
    """A row that can be seen: its slot, the names it may be called by (the first is shown), its columns.

    `counted` is set for counted elements of patterns, whose slot holds a list. `referred`: it is an element that was given a reference, so that its
    names are not those of its stream. `qualified`: bare names do not mean this row.
    """

    slot: int
    names: tuple[str, ...]
    schema: Schema
    counted: bool = False
    own: bool = False  # the element whose filter is being bound
    nameless: str = "the output"  # what it is called in a message where it has no name
    qualified: bool = False
    referred: bool = False

    @property
    def name(self) -> str:
        return self.names[0] if self.names else ""

    @property
    def shown(self) -> str:
        """The place in a message."""
        return f"'{self.name}'" if self.names and self.slot != OUTPUT else self.nameless


@dataclass(frozen=True, slots=True)
class Scope:
    """Layers of places. `lists`: an un-indexed reference to a counted element means the list of all its values; a bare name, or that of the stream, does not.

    `indexed`: the places are elements of a pattern, so that references may carry an index and mean bound events. `latest`: without one they mean the event
    that a counted element has taken last, not the first.
    """

    layers: tuple[tuple[Place, ...], ...]
    lists: bool = False
    indexed: bool = False
    latest: bool = False

    def places(self) -> Iterator[Place]:
        for layer in self.layers:
            yield from layer

    def called(self, name: str) -> Place | None:
        """The first place of a name."""
        return next((p for p in self.places() if name in p.names), None)

    def with_last(self, place: Place) -> Scope:
        """This scope and one more place, seen last."""
        return Scope((*self.layers, (place,)), self.lists, self.indexed, self.latest)


def one_row(schema: Schema, *names: str, slot: int = 0) -> Scope:
    """The scope of a single row."""
    return Scope(((Place(slot, names, schema),),))


def qualifier(variable: Variable) -> str:
    """The qualifier as written: "S", "#I", "!S"; empty for a bare name."""
    mark = "#" if variable.inner else "!" if variable.fault else ""
    return f"{mark}{variable.stream}" if variable.stream is not None else ""


def is_bare(variable: Variable) -> bool:
    return variable.stream is None and variable.index is None


def resolve(context: Context, scope: Scope, variable: Variable) -> Attr | AttrList:
    """The column that a reference means.

    Raises:
        ATTRIBUTE_NOT_FOUND, ATTRIBUTE_AMBIGUOUS: no column, or several, of this name.
        STREAM_NOT_DEFINED: nothing here is called like the qualifier.
    """
    place = _qualified(context, scope, variable) if variable.stream is not None else _bare(context, scope, variable)
    position = place.schema.position(variable.name)
    if position is None:
        hint = did_you_mean(variable.name, place.schema.names)
        raise context.fail("ATTRIBUTE_NOT_FOUND", variable.span, name=variable.name, of=place.shown, hint=hint)
    return _attribute(context, scope, place, position, variable)


def _qualified(context: Context, scope: Scope, variable: Variable) -> Place:
    name = qualifier(variable)
    place = scope.called(name)
    if place is None:
        hint = did_you_mean(name, [n for p in scope.places() for n in p.names])
        raise context.fail("STREAM_NOT_DEFINED", variable.span, name=name, hint=hint)
    return place


def _bare(context: Context, scope: Scope, variable: Variable) -> Place:
    for layer in scope.layers:
        found = [p for p in layer if not p.qualified and p.schema.position(variable.name) is not None]
        if len(found) > 1:
            names = [p.name for p in found]
            raise context.fail(
                "ATTRIBUTE_AMBIGUOUS",
                variable.span,
                name=variable.name,
                places=" and ".join(f"'{n}'" for n in names),
                example=f"{names[0]}.{variable.name}",
            )
        if found:
            return found[0]
    known = [f"{p.name}.{n}" if p.qualified else n for p in scope.places() for n in p.schema.names]
    of = (
        " or ".join(dict.fromkeys(p.shown for p in scope.places() if not p.qualified))
        or "anything: only constants may stand here"
    )
    hint = did_you_mean(variable.name, known)
    raise context.fail("ATTRIBUTE_NOT_FOUND", variable.span, name=variable.name, of=of, hint=hint)


def _attribute(context: Context, scope: Scope, place: Place, position: int, variable: Variable) -> Attr | AttrList:
    index = variable.index
    if index is not None and not (scope.indexed and place.slot >= 0):
        reason = f"'{qualifier(variable)}' is not an element of a pattern, so it takes no index"
        raise context.fail("INVALID_QUERY", variable.span, reason=reason)
    column = place.schema.columns[position]
    if place.counted and index is None and not place.own:
        if scope.lists and context.compat >= 5 and place.referred and variable.stream is not None:
            return AttrList(place.slot, position, Type.OBJECT, column.name)
        index = -1 if scope.latest else 0
    return Attr(place.slot, position, column.type, index, column.name)
