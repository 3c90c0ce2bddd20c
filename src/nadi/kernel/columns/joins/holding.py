"""What is done to all events of some keys at once: telling of them, putting them back."""

from __future__ import annotations

import numpy as np

from nadi.kernel.columns.jit import loop
from nadi.kernel.columns.joins.places import (
    BITS,
    COUNT,
    DUE,
    END,
    FIXED,
    FRESH,
    GONE,
    HASH,
    HEAD,
    INDEXED,
    LATEST,
    NEVER,
    NEXT,
    ROW,
    SINCE,
    TAKEN,
    WHEN,
    WIDTH,
    enter,
    made,
    mixed,
    pop,
)

TOLD = 6
"""Numbers of a queue that are told: its latest timestamp, whether a timer is due at once, when it was due and since when, how many events went and came."""


@loop
def fresh(words, rows, keys, whole):  # type: ignore[no-untyped-def]
    """The events of keys, key by key, that the last delta did not know (with `whole` all), and how many each key has."""
    counts = np.zeros(len(keys), np.int64)
    total = 0
    for i in range(len(keys)):
        node = rows[keys[i] * ROW + (HEAD if whole else FRESH)]
        while node != 0:
            counts[i] += 1
            node = words[node + NEXT]
        total += counts[i]
    nodes = np.empty(total, np.int64)
    at = 0
    for i in range(len(keys)):
        node = rows[keys[i] * ROW + (HEAD if whole else FRESH)]
        while node != 0:
            nodes[at] = node
            at += 1
            node = words[node + NEXT]
    return nodes, counts


@loop
def told_rows(rows, keys, counts):  # type: ignore[no-untyped-def]
    """The numbers of some keys."""
    told = np.empty(len(keys) * TOLD, np.int64)
    for i in range(len(keys)):
        at = keys[i] * ROW
        told[i * TOLD] = rows[at + LATEST]
        told[i * TOLD + 1] = 1 if rows[at + DUE] != 0 else 0
        told[i * TOLD + 2] = rows[at + WHEN]
        told[i * TOLD + 3] = rows[at + SINCE]
        told[i * TOLD + 4] = rows[at + TAKEN]
        told[i * TOLD + 5] = counts[i]
    return told


@loop
def settle(rows, keys):  # type: ignore[no-untyped-def]
    """All of keys was told."""
    for key in keys:
        rows[key * ROW + TAKEN] = 0
        rows[key * ROW + FRESH] = 0


@loop
def mark_keys(rows, used):  # type: ignore[no-untyped-def]
    """Mark the keys to which anything ever happened."""
    for key in range(len(rows) // ROW):
        if rows[key * ROW + LATEST] != NEVER or rows[key * ROW + COUNT] != 0 or rows[key * ROW + TAKEN] != 0:
            used[key] = True


@loop
def mark_texts(words, meta, columns, bits, used):  # type: ignore[no-untyped-def]
    """Mark the strings that events have."""
    for node in range(meta[WIDTH], meta[END], meta[WIDTH]):
        if words[node + BITS] != GONE:
            for i in range(len(columns)):
                if (words[node + BITS] >> bits[i]) & 1 == 0:
                    used[words[node + columns[i]]] = True


@loop
def put(words, rows, heads, meta, columns, index, index_bits, owner, keys, told, nodes):  # type: ignore[no-untyped-def]
    """Put back what was told of keys: some events go, others come behind them. There must be room."""
    n = 0
    for i in range(len(keys)):
        at = keys[i] * ROW
        rows[at + LATEST] = told[i * TOLD]
        rows[at + DUE] = -told[i * TOLD + 1]
        rows[at + WHEN] = told[i * TOLD + 2]
        rows[at + SINCE] = told[i * TOLD + 3]
        for _ in range(told[i * TOLD + 4]):
            pop(words, rows, at, meta, heads)
        for _ in range(told[i * TOLD + 5]):
            node = made(words, rows, at, meta)
            for j in range(len(columns)):
                words[node + columns[j]] = nodes[n, j]
            if owner != 0:
                words[node + owner] = keys[i]
            if meta[INDEXED] != 0:
                words[node + FIXED + HASH] = 0
                hashed, null = keys[i], False
                for j in range(len(index)):
                    hashed = mixed(hashed, words[node + index[j]])
                    null = null or (words[node + BITS] >> index_bits[j]) & 1 != 0
                if not null:
                    enter(words, heads, meta, node, hashed)
            n += 1
