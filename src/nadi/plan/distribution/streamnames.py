"""Other names for streams, on the tree: texts in annotations and the like stay as they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from nadi.errors import Span
from nadi.lang import tree
from nadi.lang.tree import Annotation, Element

Node = TypeVar("Node")


def mapped(node: Node, change: Callable[[Any], Any]) -> Node:
    """A copy of a tree in which `change` has made something of every node, innermost first.

    Chains of operators lean to the left and may be thousands long: they are walked link by link.
    """
    made: Any
    if isinstance(node, tuple):
        made = tuple(mapped(part, change) for part in node)
        return node if all(a is b for a, b in zip(made, node)) else made
    if not is_dataclass(node) or isinstance(node, (Span, Annotation, type)):
        return node
    if isinstance(node, tree.Binary):
        chain = tree.links(node)
        made = mapped(chain[0].left, change)
        for link in chain:
            made = change(replace(link, left=made, right=mapped(link.right, change)))
        return made  # type: ignore[no-any-return]
    parts = {f.name: getattr(node, f.name) for f in fields(node)}
    changed = {name: new for name, part in parts.items() if (new := mapped(part, change)) is not part}
    return change(replace(node, **changed) if changed else node)  # type: ignore[no-any-return]


def renamed_inputs(node: tree.ExecutionElement, names: dict[str, str]) -> tree.ExecutionElement:
    """A query or partition that reads other streams: `names` by the old ones. What it writes stays.

    >>> from nadi.lang import parse, print_node
    >>> app = parse("define stream S (a int); from S[S.a > 1] select S.a insert into S;")
    >>> print(print_node(renamed_inputs(app.elements[0], {"S": "Other"})))
    from Other[Other.a > 1]
    select Other.a
    insert into S
    """
    if not names:
        return node
    if isinstance(node, tree.Partition):
        keys = tuple(replace(mapped(k, _references(names)), stream=names.get(k.stream, k.stream)) for k in node.keys)
        return replace(node, keys=keys, queries=tuple(_query(q, names) for q in node.queries))
    return _query(node, names)


def _query(query: tree.Query, names: dict[str, str]) -> tree.Query:
    """References are renamed with the stream, unless the query calls something else by the name."""
    aliases = _aliases(query.input)
    references = {old: new for old, new in names.items() if old not in aliases}
    change = _references(references)
    changed_input = mapped(mapped(query.input, _sources(names)), change)
    return replace(
        query,
        input=changed_input,
        selection=mapped(query.selection, change),
    )  # conditions on a table speak of it and of the selected columns only


def renamed_source(source: tree.SingleInput, name: str) -> tree.SingleInput:
    """An input that reads another stream of the same attributes."""
    old = source.source.name
    return mapped(replace(source, source=replace(source.source, name=name)), _references({old: name}))


def bare(expression: tree.Expression) -> tree.Expression:
    """An expression over one event, its attributes without qualifiers."""

    def change(node: Any) -> Any:
        return replace(node, stream=None, index=None) if isinstance(node, tree.Variable) else node

    return mapped(expression, change)


def _sources(names: dict[str, str]) -> Callable[[Any], Any]:
    def change(node: Any) -> Any:
        plain = isinstance(node, tree.Source) and not node.inner and not node.fault
        return replace(node, name=names[node.name]) if plain and node.name in names else node

    return change


def _references(names: dict[str, str]) -> Callable[[Any], Any]:
    def change(node: Any) -> Any:
        known = isinstance(node, (tree.Variable, tree.IsNullStream)) and not node.inner and not node.fault
        return replace(node, stream=names[node.stream]) if known and node.stream in names else node

    return change


def _aliases(source: tree.Input) -> set[str]:
    """The names that a query gives to what it reads."""
    found: set[str] = set()

    def note(node: Any) -> Any:
        if isinstance(node, tree.SingleInput) and node.alias:
            found.add(node.alias)
        if isinstance(node, tree.StreamState) and node.reference:
            found.add(node.reference)
        return node

    mapped(source, note)
    return found


# ---- annotations of queries ----------------------------------------------------------------------------------------


def named(annotations: tuple[Annotation, ...], name: str) -> tuple[Annotation, ...]:
    """The annotations of a query or partition with `@info(name='…')`: as it stands where there is one, else with this name."""
    for place, info in enumerate(annotations):
        if info.name.lower() == "info":
            if info.get("name"):
                return annotations
            made = replace(info, elements=(Element("name", name), *info.elements))
            return (*annotations[:place], made, *annotations[place + 1 :])
    return (Annotation("info", (Element("name", name),)), *annotations)
