"""Eight bytes at a time, wherever they lie: short texts are compared and copied as words."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from nadi.kernel.columns.jit import PLAIN, loop

_BITS = ir.IntType(64)


def _place(context: Any, builder: Any, kind: Any, array: Any, at: Any) -> Any:
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [at]), _BITS.as_pointer())


@intrinsic
def _compiled_load(context, data, at):  # type: ignore[no-untyped-def]
    def code(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        word = builder.load(_place(context, builder, signature.args[0], *arguments))
        word.align = 1
        return word

    return types.uint64(data, types.int64), code


@intrinsic
def _compiled_store(context, data, at, word):  # type: ignore[no-untyped-def]
    def code(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        array, at, word = arguments
        stored = builder.store(word, _place(context, builder, signature.args[0], array, at))
        stored.align = 1
        return context.get_dummy_value()

    return types.none(data, types.int64, types.uint64), code


def _plain_load(data: Any, at: int) -> Any:
    return data[at : at + 8].view("<u8")[0]


def _plain_store(data: Any, at: int, word: Any) -> None:
    data[at : at + 8] = np.array([word], "<u8").view(np.uint8)


load: Any = _plain_load if PLAIN else _compiled_load
"""`load(data, at)`: the eight bytes of an array of bytes from `at` on, as uint64. They must be there."""

store: Any = _plain_store if PLAIN else _compiled_store
"""`store(data, at, word)`: the other way."""


def aligned(size: int, held: Any = None) -> Any:
    """An array of int64 that begins with a line of the processor's cache, so that a node of eight words lies in one; with what `held` has."""
    words = np.zeros(size + _LINE - 1, np.int64)
    skipped = -(words.ctypes.data // words.itemsize) % _LINE
    made = words[skipped : skipped + size]
    if held is not None:
        made[: len(held)] = held
    return made


_LINE = 8  # words


@loop
def words_of(words, columns, nodes):  # type: ignore[no-untyped-def]
    """Some words of nodes, a row for each."""
    made = np.empty((len(nodes), len(columns)), np.int64)
    for i in range(len(nodes)):
        for j in range(len(columns)):
            made[i, j] = words[nodes[i] + columns[j]]
    return made
