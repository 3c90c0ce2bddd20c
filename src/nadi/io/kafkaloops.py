"""Loops over messages of Kafka, which call librdkafka (`nadi.io.kafkalibrary`). Python's lock is free while they run.

What they read and write in memory are structs of librdkafka's C interface, `rd_kafka_message_t` and `rd_kafka_vu_t`, on 64-bit machines.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from nadi.io.kafkalibrary import library
from nadi.kernel.columns import jit


def _external(name: str, result: Any, *arguments: Any) -> Any:
    return types.ExternalFunction(name, result(*arguments))


_POINTER, _INT, _SIZE = types.intp, types.int32, types.uintp
_consume = _external("rd_kafka_consume_batch_queue", types.intp, _POINTER, _INT, _POINTER, _SIZE)
_timestamp = _external("rd_kafka_message_timestamp", types.int64, _POINTER, _POINTER)
_destroy = _external("rd_kafka_message_destroy", types.void, _POINTER)
_produce = _external("rd_kafka_produceva", _POINTER, _POINTER, _POINTER, _SIZE)
_error_code = _external("rd_kafka_error_code", _INT, _POINTER)
_error_destroy = _external("rd_kafka_error_destroy", types.void, _POINTER)

# rd_kafka_message_t
_ERROR, _PAYLOAD, _LENGTH, _OFFSET = 0, 24, 32, 56

NEWLINE = 10

# how `take` ends
NOTHING, MORE, FULL, GROW, EVENT, DONE = range(6)
# what it keeps
AT, COUNT, FILLED, USED, SIZE, CODE, POSITION, SAID, PLACES = range(9)
TEXT = 1_024
"""Bytes of what an event says, at most."""

# rd_kafka_vu_t: its type, and behind it up to 64 bytes of value
WORDS = 9
TOPIC, PARTITION, VALUE, KEY, FLAGS, HEADER = 2, 3, 4, 5, 7, 9
COPY = 2
# the order in which `produce` has the parts of a message, and how many there are
IN_TOPIC, IN_FLAGS, IN_PARTITION, IN_VALUE, IN_KEY, IN_PRODUCER, IN_GROUP, IN_NUMBER, IN_COUNT, PARTS = range(10)
DIGITS = 24  # bytes, at most, of a number as text


def _loading(kind: Any) -> Any:
    @intrinsic
    def load(typing: Any, address: Any) -> Any:
        def build(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            where = builder.inttoptr(arguments[0], context.get_data_type(kind).as_pointer())
            return builder.load(where)

        return kind(types.intp), build

    return load


_int32, _int64 = _loading(types.int32), _loading(types.int64)


def _copying(typing: Any, to: Any, source: Any, count: Any) -> Any:
    """Copy bytes from one address to another."""

    def build(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        byte = context.get_data_type(types.uint8).as_pointer()
        target, origin = (builder.inttoptr(a, byte) for a in arguments[:2])
        cgutils.raw_memcpy(builder, target, origin, arguments[2], 1)  # type: ignore[no-untyped-call]
        return context.get_dummy_value()

    return types.void(types.intp, types.intp, types.intp), build


_copy: Any = intrinsic(_copying)


@jit.loop
def take(queue, wait, until, limit, pointers, places, data, starts, ends, positions, times, said):  # type: ignore[no-untyped-def]
    """Copy messages before offset `until` behind those that a piece has: `places[FILLED]` ones, whose payloads are `places[SIZE]` bytes.

    What was fetched is used first (`pointers` from `places[AT]` to `places[COUNT]`); if there is none, fetch, and wait `wait` ms for the first one. The
    piece is full with `len(starts)` messages, or `limit` bytes. Where a payload has no room in `data` (GROW) it has to be called again, with more. An
    event that is no message (EVENT) leaves `places[CODE]`, `places[POSITION]`, and what it says: `said[: places[SAID]]`.
    """
    if places[FILLED] == len(starts):
        return FULL
    here = pointers.ctypes.data
    if places[AT] == places[COUNT]:
        places[AT] = places[COUNT] = 0
        found = _consume(queue, np.int32(wait), here, np.uint64(1))
        if found <= 0:
            return NOTHING
        places[COUNT] = 1
        found = _consume(queue, np.int32(0), here + 8, np.uint64(len(pointers) - 1))
        places[COUNT] += max(found, 0)
    to = data.ctypes.data
    at, filled, used, size = places[AT], places[FILLED], places[USED], places[SIZE]
    ended = MORE
    while at < places[COUNT]:
        message = pointers[at]
        offset = _int64(message + _OFFSET)
        if _int32(message + _ERROR) != 0:
            places[CODE], places[POSITION] = _int32(message + _ERROR), offset
            places[SAID] = min(_int64(message + _LENGTH), len(said))
            if places[SAID] > 0:
                _copy(said.ctypes.data, _int64(message + _PAYLOAD), places[SAID])
            _destroy(message)
            at += 1
            ended = EVENT
            break
        if offset >= until:
            ended = DONE
            break
        length = _int64(message + _LENGTH)
        if used + length >= len(data):
            places[CODE] = length
            ended = GROW
            break
        if length > 0:
            _copy(to + used, _int64(message + _PAYLOAD), length)
        starts[filled] = used
        used += length
        ends[filled] = used
        data[used] = NEWLINE  # belongs to none
        used += 1
        positions[filled] = offset
        times[filled] = max(_timestamp(message, 0), 0)
        size += length
        filled += 1
        _destroy(message)
        at += 1
        if offset == until - 1:
            ended = DONE
            break
        if filled == len(starts) or size >= limit:
            ended = FULL
            break
    places[AT], places[FILLED], places[USED], places[SIZE] = at, filled, used, size
    return ended


@jit.loop
def drop(pointers, places):  # type: ignore[no-untyped-def]
    """Give back what was fetched and is not wanted."""
    for at in range(places[AT], places[COUNT]):
        _destroy(pointers[at])
    places[AT] = places[COUNT] = 0


@jit.part
def _decimal(number, text, at):  # type: ignore[no-untyped-def]
    """Write a number as text, as `str` does; -> where it ends."""
    if number < 0:
        text[at] = 45
        at += 1
        number = -number
    digits, rest = 1, number
    while rest >= 10:
        rest //= 10
        digits += 1
    for place in range(at + digits - 1, at - 1, -1):
        text[place] = 48 + number % 10
        number //= 10
    return at + digits


@jit.loop
def produce(  # type: ignore[no-untyped-def]
    handle,
    at,
    message,
    text,
    values,
    starts,
    ends,
    keys,
    key_starts,
    key_ends,
    partitions,
    groups,
    numbers,
    counts,
    skipped,
):
    """Hand rows from number `at` on to a producer; -> (the number of the first that it does not take, its error), or (how many there are, 0).

    Args:
        message: PARTS of `rd_kafka_vu_t`, all but what a row has of its own filled in.
        text: bytes for numbers.
        values, keys: addresses; `keys` is 0 where rows have none.
    """
    memory, here = text.ctypes.data, message.ctypes.data
    for i in range(at, len(starts)):
        if skipped[i]:
            continue
        message[IN_PARTITION * WORDS + 1] = partitions[i]
        message[IN_VALUE * WORDS + 1] = values + starts[i]
        message[IN_VALUE * WORDS + 2] = ends[i] - starts[i]
        if keys != 0:
            message[IN_KEY * WORDS + 1] = keys + key_starts[i]
            message[IN_KEY * WORDS + 2] = key_ends[i] - key_starts[i]
        message[IN_GROUP * WORDS + 3] = _decimal(groups[i], text, 0)
        message[IN_NUMBER * WORDS + 2] = memory + DIGITS
        message[IN_NUMBER * WORDS + 3] = _decimal(numbers[i], text, DIGITS) - DIGITS
        message[IN_COUNT * WORDS + 2] = memory + 2 * DIGITS
        message[IN_COUNT * WORDS + 3] = _decimal(counts[i], text, 2 * DIGITS) - 2 * DIGITS
        message[IN_GROUP * WORDS + 2] = memory
        problem = _produce(handle, here, np.uint64(PARTS))
        if problem != 0:
            code = _error_code(problem)
            _error_destroy(problem)
            return i, np.int64(code)
    return len(starts), np.int64(0)


def warm() -> None:
    """Compile all loops, or take them from the cache, where they can be used; calls nothing of a broker."""
    if library() is None:
        return
    none: npt.NDArray[np.int64] = np.zeros(0, np.int64)
    places = np.zeros(PLACES, np.int64)
    take(0, 0, 0, 0, none, places, np.zeros(0, np.uint8), none, none, none, none, np.zeros(0, np.uint8))
    drop(none, places)
    text = np.zeros(3 * DIGITS, np.uint8)
    rows = [none] * 4
    produce(0, 0, none, text, 0, none, none, 0, none, none, *rows, np.zeros(0, np.bool_))
