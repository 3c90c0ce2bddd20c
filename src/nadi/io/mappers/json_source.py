"""JSON messages → events.

Many plain messages are read by a loop (`json_block`); others by msgspec into structs made for the stream, straight through in C; a message that does not fit is
looked at again, alone and slowly, which either finds its events or says what is wrong with it. Rules:

- Without `@attributes` a message is `{"event": {…}}`, the object without that frame, or an array of either (one chunk). Keys that are
  no attributes are ignored; of a key that stands twice the last counts.
- A missing attribute is a failure, or null with `fail.on.missing.attribute='false'`. An explicit null is null.
- int and long want whole numbers in range, float and double any number, bool a bool. A string takes anything: what is not a string comes as its JSON text.
- With `@attributes`, and in an array, numbers and bools are taken by their text instead (`values.by_text`), as Siddhi does.
- `@attributes(a='$.x.y')` takes values by path, from the root or from each element under `enclosing.element`; `trp:name` from the transport's properties.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from typing import Annotated, Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nadi.io.contract import Connector, Decoded, Messages, Undecodable
from nadi.io.mappers.columns import INT_RANGE, batch_of
from nadi.io.mappers.json_block import BlockReader, readable, worth_it
from nadi.io.mappers.json_paths import Path, parse_path
from nadi.io.mappers.mapannotation import attribute_mapping, map_options
from nadi.io.mappers.stretch import Stretch, decode_each, is_utf8
from nadi.io.mappers.transport import split_properties
from nadi.io.mappers.typed_rows import decode_typed
from nadi.io.mappers.values import by_text, from_json
from nadi.lang.tree import Type
from nadi.plan.nodes import Column, Schema
from nadi.plan.options import flag
from nadi.received import DEEPEST, TOO_DEEP, is_deep

_BROKEN = (msgspec.MsgspecError, ValueError, RecursionError)
_INTS: dict[Type, Any] = {
    kind: Annotated[int, msgspec.Meta(ge=low, le=high)] | None for kind, (low, high) in INT_RANGE.items()
}
_LEAVES: dict[Type, Any] = _INTS | {
    Type.STRING: str | None,
    Type.FLOAT: float | None,
    Type.DOUBLE: float | None,
    Type.BOOL: bool | None,
    Type.OBJECT: msgspec.Raw,
}
_NO_OBJECT: Any = str | int | float | bool | list[Any] | None
Ints = npt.NDArray[np.int64]
_Opened = dict[str, msgspec.Raw] | list[msgspec.Raw] | bytes


@dataclass(frozen=True, slots=True)
class Leaf:
    """An attribute and where in an event it is."""

    column: Column
    path: Path


@dataclass(frozen=True, slots=True)
class Form:
    """How events lie in a message: under `enclosing` names, as an array or not, each in a frame `{"event": …}` or not."""

    enclosing: tuple[str, ...]
    many: bool
    framed: bool


class JsonSource:
    """The decoder of `@map(type='json')`."""

    def __init__(self, connector: Connector) -> None:
        options = map_options(connector)
        mapping = attribute_mapping(connector)
        self._schema = connector.schema
        self._custom = mapping is not None
        self._strict = flag(options, "fail.on.missing.attribute", True)
        self._enclosing = parse_path(options.get("enclosing.element", "$")) if self._custom else ()
        self._properties, paths = split_properties(connector, mapping, self._strict)
        self._leaves = [
            Leaf(c, parse_path(paths[c.name]) if self._custom else (c.name,))
            for c in connector.schema.columns
            if c.name not in self._properties.names
        ]
        self._inner = Schema(tuple(leaf.column for leaf in self._leaves))
        self._reader = struct_reader(self._leaves, self._strict)
        self._decoders: dict[Form, Callable[[bytes], Any]] = {}
        self._plain = not self._custom and readable(self._inner)
        self._block: BlockReader | None = None

    def decode(self, messages: Messages) -> Decoded:
        if isinstance(messages.payloads, pa.RecordBatch):
            return decode_typed(self._schema, messages, messages.payloads)
        found = Stretch(self._inner)
        left = self._decode_block(messages.payloads, found)
        if len(left):
            self._decode_objects(messages, left, found)
        return self._properties.complete(self._schema, found.finish(), messages)

    # -- the way of many

    def _decode_block(self, payloads: Sequence[bytes], found: Stretch) -> Ints:
        """Adds the events of all messages that a loop can read; the indices of the others come back."""
        everything = np.arange(len(payloads))
        if not self._plain or not worth_it(len(payloads)):
            return everything
        if self._block is None:
            self._block = BlockReader(self._inner, self._strict)
        read = self._block.read(payloads)
        if read is None:
            return everything
        self._plain = 2 * len(read.messages) > len(payloads)  # else the messages of this log are of another make
        if len(read.messages):
            found.add_batch(read.batch, read.messages)
        return np.setdiff1d(everything, read.messages, assume_unique=True)

    # -- the fast way

    def _decode_objects(self, messages: Messages, numbers: Ints, found: Stretch) -> None:
        """Adds the events of the messages with these indices, or what is wrong with them."""
        assert not isinstance(messages.payloads, pa.RecordBatch)
        payloads = [messages.payloads[i] for i in numbers] if len(numbers) < len(messages) else list(messages.payloads)
        form = self._form(payloads)
        left = range(len(payloads)) if form is None else self._decode_fast(form, payloads, numbers, found)
        for i in left:
            number = int(numbers[i])
            position = int(messages.positions[number])
            if is_utf8(payloads[i]):
                self._decode_slow(number, position, payloads[i], found)
            else:
                found.fail(Undecodable(position, "not UTF-8", payloads[i]))

    def _form(self, payloads: Sequence[bytes]) -> Form | None:
        """How the first message has its events: a guess for all; None where structs cannot express the mapping."""
        if self._reader is None or not payloads:
            return None
        names = tuple(step for step in self._enclosing if isinstance(step, str))
        if len(names) != len(self._enclosing):
            return None
        try:
            value = _walk(_open(payloads[0]), names)
            first = _open(value[0]) if isinstance(value, list) and value else value
        except _BROKEN:
            value = first = None
        if not self._custom and any(c.name == "event" for c in self._inner.columns):
            return None  # an attribute of this name looks like a frame: decided message by message
        framed = not self._custom and (not isinstance(first, dict) or _is_frame(first))
        return Form(names, isinstance(value, list), framed)

    def _decode_fast(self, form: Form, payloads: Sequence[bytes], numbers: Ints, found: Stretch) -> Sequence[int]:
        """Adds the events of all messages of this form; the places of the others come back. `numbers`: the indices of the messages."""
        assert self._reader is not None
        if form not in self._decoders:
            self._decoders[form] = _decoder(form, self._reader.struct, not self._custom)
        # What is skipped is not looked at by msgspec, but a message that is not UTF-8 is none, wherever that shows.
        text = is_utf8(b"\n".join(payloads))
        given = payloads if text else [p if is_utf8(p) else b"" for p in payloads]
        # How many levels msgspec reads depends on who calls. What has so many and ends is longer than this, so that most messages need no look.
        if any(len(p) > 2 * DEEPEST and is_deep(p) for p in given):
            given = [b"" if is_deep(p) else p for p in given]
        objects, left = decode_each(self._decoders[form], given, _BROKEN)
        good = np.setdiff1d(np.arange(len(payloads)), left, assume_unique=True)
        events = objects if not left else [o for o in objects if o is not None]
        if form.enclosing:
            events = list(map(attrgetter(*[".".join(["inner"] * len(form.enclosing))]), events))
        if form.many:
            good = np.repeat(good, np.fromiter(map(len, events), np.int64, len(events)))
            events = list(chain.from_iterable(events))
        prefix = "event." if form.framed else ""
        columns: list[Sequence[object]] = []
        for leaf, getter in zip(self._leaves, self._reader.getters):
            values: list[Any] = list(map(attrgetter(prefix + getter), events))
            columns.append(_raw_texts(values) if leaf.column.type is Type.OBJECT else values)
        found.add_batch(batch_of(self._inner, columns), numbers[good])
        return left

    # -- the slow way: exactly what the fast way does, and more

    def _decode_slow(self, index: int, position: int, payload: bytes, found: Stretch) -> None:
        if not payload.strip():
            found.fail(Undecodable(position, "the message is empty", payload))
            return
        if is_deep(payload):
            found.fail(Undecodable(position, TOO_DEEP, payload))
            return
        try:
            root = _walk(_open(payload), self._enclosing)
        except _BROKEN as e:
            found.fail(Undecodable(position, f"not JSON: {e}", payload))
            return
        if root is None:
            found.fail(Undecodable(position, "the enclosing element is missing", payload))
            return
        convert = by_text if self._custom or isinstance(root, list) else from_json
        for event in root if isinstance(root, list) else [root]:
            try:
                found.add_row(index, self._row(event, convert))
            except _BROKEN as e:
                whole = bytes(event) if isinstance(event, msgspec.Raw) else payload
                found.fail(Undecodable(position, str(e), whole))

    def _row(self, given: _Opened | msgspec.Raw, convert: Callable[[bytes, Type], object]) -> tuple[object, ...]:
        event = _open(given) if isinstance(given, msgspec.Raw) else given
        if not self._custom and isinstance(event, dict) and _is_frame(event):
            event = _open(event["event"])
        if isinstance(event, bytes) or (isinstance(event, list) and not self._custom):
            raise ValueError("an event is not a JSON object")
        return tuple(self._value(event, leaf, convert) for leaf in self._leaves)

    def _value(self, event: _Opened, leaf: Leaf, convert: Callable[[bytes, Type], object]) -> object:
        value = _find(event, leaf.path)
        if value is None:
            if self._strict:
                raise ValueError(f"the attribute '{leaf.column.name}' is missing")
            return None
        try:
            return convert(value, leaf.column.type)
        except _BROKEN as e:
            raise ValueError(f"attribute '{leaf.column.name}': {e}") from None


def _open(text: bytes | msgspec.Raw) -> _Opened:
    """One level of a JSON text: an object or array of unparsed values, or the text of a scalar."""
    given = bytes(text).strip()
    if given[:1] == b"{":
        return msgspec.json.decode(given, type=dict[str, msgspec.Raw])
    if given[:1] == b"[":
        return msgspec.json.decode(given, type=list[msgspec.Raw])
    msgspec.json.decode(given)
    return given


def _find(value: _Opened, path: Path) -> bytes | None:
    """The text of the value at a path, None where there is none."""
    *parents, last = path or (None,)
    inner = _walk(value, tuple(p for p in parents if p is not None))
    if last is None:
        return msgspec.json.encode(inner)
    if isinstance(last, str):
        return bytes(inner[last]) if isinstance(inner, dict) and last in inner else None
    return bytes(inner[last]) if isinstance(inner, list) and last < len(inner) else None


def _walk(value: _Opened | None, path: Path) -> _Opened | None:
    for step in path:
        if isinstance(step, str):
            value = _open(value[step]) if isinstance(value, dict) and step in value else None
        else:
            value = _open(value[step]) if isinstance(value, list) and step < len(value) else None
    return value


def _is_frame(value: dict[str, msgspec.Raw]) -> bool:
    return "event" in value and bytes(value["event"])[:1] == b"{"


def _raw_texts(values: list[msgspec.Raw]) -> list[object]:
    texts: list[object] = [bytes(v).decode() for v in values]
    return [None if t == "null" else t for t in texts]


# ---- structs for a set of paths ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StructReader:
    """A struct type for one event and, per leaf, the dotted fields that lead to its value."""

    struct: type[msgspec.Struct]
    getters: tuple[str, ...]


def struct_reader(leaves: Sequence[Leaf], strict: bool) -> StructReader | None:
    """Structs that hold exactly the leaves; None where they cannot: array indices, or one path within another."""
    tree: dict[str, Any] = {}
    for leaf in leaves:
        if not leaf.path or any(isinstance(step, int) for step in leaf.path):
            return None
        node = tree
        for step in leaf.path[:-1]:
            node = node.setdefault(str(step), {})
            if isinstance(node, Leaf):
                return None
        if leaf.path[-1] in node:
            return None
        node[str(leaf.path[-1])] = leaf
    names: dict[str, str] = {}
    struct = _struct(tree, strict, "", names)
    return StructReader(struct, tuple(names[leaf.column.name] for leaf in leaves))


def _struct(tree: dict[str, Any], strict: bool, prefix: str, names: dict[str, str]) -> type[msgspec.Struct]:
    fields: list[Any] = []
    renamed: dict[str, str] = {}
    for i, (key, node) in enumerate(tree.items()):
        field = f"f{i}"
        renamed[field] = key
        if isinstance(node, Leaf):
            names[node.column.name] = prefix + field
            kind = _LEAVES[node.column.type]
            default: Any = msgspec.Raw(b"null") if node.column.type is Type.OBJECT else None
            fields.append((field, kind) if strict else (field, kind, default))
        else:
            inner = _struct(node, strict, f"{prefix}{field}.", names)
            fields.append((field, inner) if strict else (field, inner, msgspec.field(default_factory=inner)))
    return msgspec.defstruct("Event", fields, rename=renamed, gc=False)


def _decoder(form: Form, event: type[msgspec.Struct], unframed: bool) -> Callable[[bytes], Any]:
    kind: Any = msgspec.defstruct("Frame", [("event", event)], gc=False) if form.framed else event
    if not form.framed and unframed:
        # An object under "event" would be a frame: such a message must not pass as one without.
        kind = msgspec.defstruct(
            "Bare", [("frame", _NO_OBJECT, None)], bases=(event,), rename={"frame": "event"}, kw_only=True
        )
    if form.many:
        kind = list[kind]
    for name in reversed(form.enclosing):
        kind = msgspec.defstruct("Enclosing", [("inner", kind)], rename={"inner": name})
    return msgspec.json.Decoder(kind).decode
