"""Events → XML messages.

- Default: `<events><event><a>…</a>…</event></events>`, with all events of a chunk in it. `enclosing.element='<list kind="x">'` is put around
  instead of `<events>`. Values are escaped. Null is `<a xsi:nil="true"/>`. Characters that XML does not have (most below U+0020) become U+FFFD.
- `@payload("<x>{{a}}</x>")`: the text with the values in it, as they are: a `<` in a value is one in the message, as in Siddhi. A message per event;
  with `enclosing.element` one per chunk, in that element. `validate.xml='true'` keeps from the target what is no XML, and logs each.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nadi.io.contract import Connector
from nadi.io.mappers.columns import as_text, chunk_bounds
from nadi.io.mappers.mapannotation import invalid, map_options, payload_template
from nadi.io.mappers.xml_document import XSI, document
from nadi.lang.tree import Type
from nadi.plan.nodes import Column
from nadi.plan.options import flag

_NAME = re.compile(r"[^\W\d][\w.-]*")
_ENCLOSING = re.compile(r"<([^\s<>/&\"']+)(?:\s[^<>]*)?>")
_NOT_IN_XML = "[\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x{fffe}\\x{ffff}]"
# & goes first; a line feed is what a reader makes of a carriage return that is not written so
_ESCAPES = (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("\r", "&#13;"))

_log = logging.getLogger("nadi.io.xml")


class XmlSink:
    """The encoder of `@map(type='xml')`."""

    def __init__(self, connector: Connector) -> None:
        options = map_options(connector)
        self._stream = connector.stream
        self._schema = connector.schema
        self._template = payload_template(connector)
        self._validate = flag(options, "validate.xml", False)
        given = options.get("enclosing.element")
        self._grouped = self._template is None or given is not None
        self._before, self._after = ("<events>", "</events>") if self._template is None else ("", "")
        if given is not None:
            self._before, self._after = _around(connector, given)
        if self._template is None:
            _check_names(connector)

    def encode(self, batch: pa.RecordBatch) -> tuple[Sequence[bytes], Sequence[int]]:
        if batch.num_rows == 0:
            return [], []
        filled = self._defaults(batch) if self._template is None else self._template.fill(batch, self._schema)
        events: list[bytes] = filled.cast(pa.binary()).to_pylist()
        firsts = chunk_bounds(batch) if self._grouped else np.arange(len(events))
        ends = np.append(firsts[1:], len(events))
        before, after = self._before.encode(), self._after.encode()
        payloads = [before + b"".join(events[a:b]) + after for a, b in zip(firsts, ends)]
        if self._validate and self._template is not None:
            return self._valid(payloads, firsts.tolist())
        return payloads, firsts.tolist()

    def _defaults(self, batch: pa.RecordBatch) -> pa.Array:
        return pc.binary_join_element_wise(
            "<event>", *(_elements(batch.column(c.name), c) for c in self._schema.columns), "</event>", ""
        )

    def _valid(self, payloads: Sequence[bytes], firsts: list[int]) -> tuple[list[bytes], list[int]]:
        kept = [(p, f) for p, f in zip(payloads, firsts) if self._is_xml(p)]
        return [p for p, _ in kept], [f for _, f in kept]

    def _is_xml(self, payload: bytes) -> bool:
        try:
            document(payload)
        except ValueError as reason:
            _log.warning("message of %s left out (%s): %r", self._stream, reason, payload)
            return False
        return True


def _elements(values: pa.Array, column: Column) -> pa.Array:
    text = as_text(values, column.type)
    if column.type in (Type.STRING, Type.OBJECT):
        for character, escape in _ESCAPES:
            text = pc.replace_substring(text, character, escape)
        text = pc.replace_substring_regex(text, _NOT_IN_XML, "\ufffd")
    filled = pc.binary_join_element_wise(f"<{column.name}>", text, f"</{column.name}>", "")
    return pc.fill_null(filled, f'<{column.name} xmlns:xsi="{XSI}" xsi:nil="true"/>')


def _around(connector: Connector, text: str) -> tuple[str, str]:
    """The tags around events. Errors: MAPPING_INVALID."""
    begin = _ENCLOSING.fullmatch(text.strip())
    if begin is None:
        raise invalid(connector, f"enclosing.element of a sink is a tag like <events>, not '{text}'")
    end = f"</{begin[1]}>"
    try:
        document(f"{begin[0]}{end}".encode())
    except ValueError as reason:
        raise invalid(connector, f"enclosing.element '{text}': {reason}") from None
    return begin[0], end


def _check_names(connector: Connector) -> None:
    for name in connector.schema.names:
        if not _NAME.fullmatch(name):
            raise invalid(connector, f"'{name}' is no name of an element: write @payload with elements of your own")
