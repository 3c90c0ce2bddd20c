"""librdkafka itself, without confluent_kafka between: for loops that read or write many messages, each of which would otherwise be a Python object.

Everything else (settings, assignments, transactions, errors) stays with confluent_kafka's clients. A loop gets the `rd_kafka_t *` of such a client and calls
functions of the same library, the one that confluent_kafka has loaded. Where one of both is not found, the objects do it: the results are the same.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from pathlib import Path

import confluent_kafka
from confluent_kafka import Consumer, Producer

WORTH = 1_000
"""Messages from which on loops are worth their start in a process that has not loaded Numba yet (half a second)."""

CALLED = (
    "rd_kafka_consume_batch_queue",
    "rd_kafka_message_timestamp",
    "rd_kafka_message_destroy",
    "rd_kafka_produceva",
    "rd_kafka_error_code",
    "rd_kafka_error_destroy",
)
"""What the loops call; they know it by these names, so that compiled ones can be kept."""

_MAPS = Path("/proc/self/maps")
_FIRST, _LAST = (2, 0), (2, 16)  # versions of confluent_kafka whose clients begin with the handle
_HEAD = object.__basicsize__  # bytes of an object before its own fields


class Library:
    """Functions of librdkafka that are called once per client, and the handles of clients."""

    def __init__(self, functions: ctypes.CDLL) -> None:
        self._opaque = _function(functions, "rd_kafka_opaque", ctypes.c_void_p, 1)
        self._conf = _function(functions, "rd_kafka_conf", ctypes.c_void_p, 1)
        self._set_error_callback = _function(functions, "rd_kafka_conf_set_error_cb", None, 2)
        self._consumer_queue = _function(functions, "rd_kafka_queue_get_consumer", ctypes.c_void_p, 1)
        self._queue_destroy = _function(functions, "rd_kafka_queue_destroy", None, 1)
        self._topic_new = _function(functions, "rd_kafka_topic_new", ctypes.c_void_p, 3)
        self._topic_destroy = _function(functions, "rd_kafka_topic_destroy", None, 1)

    def handle(self, client: Consumer | Producer) -> int | None:
        """The `rd_kafka_t *` of a client; None where it is not where it should be. It lives as long as the client does."""
        found = ctypes.c_void_p.from_address(id(client) + _HEAD).value
        return found if found and self._opaque(found) == id(client) else None

    def queue(self, consumer: Consumer) -> int | None:
        """Where the messages of a consumer arrive; `close_queue` has to be called before the consumer is closed.

        The consumer's errors (all brokers are away) are told to nobody from then on: who reads the queue calls what hears them, and confluent_kafka ends the
        process where it is called from anywhere but its own functions.
        """
        handle = self.handle(consumer)
        if handle is None:
            return None
        self._set_error_callback(self._conf(handle), None)
        queue: int = self._consumer_queue(handle)
        return queue

    def close_queue(self, queue: int) -> None:
        self._queue_destroy(queue)

    def topic(self, producer: Producer, name: str) -> int | None:
        """A topic as a producer knows it; `close_topic` has to be called before the producer is given up."""
        handle = self.handle(producer)
        return None if handle is None else self._topic_new(handle, name.encode(), None)

    def close_topic(self, topic: int) -> None:
        self._topic_destroy(topic)


def _function(functions: ctypes.CDLL, name: str, result: type | None, arguments: int) -> ctypes._NamedFuncPointer:
    found = functions[name]
    found.restype, found.argtypes = result, [ctypes.c_void_p] * arguments
    return found


def wanted(messages: int) -> Library | None:
    """The library, where loops can do what is to be done, and are worth it for so many messages."""
    return library() if messages >= WORTH or "numba" in sys.modules else None


@cache
def library() -> Library | None:
    """The library that confluent_kafka uses, its functions made known to Numba; None where it is not found, or loops are not compiled here."""
    version = tuple(int(n) for n in confluent_kafka.version().split(".")[:2] if n.isdecimal())
    path = _loaded()
    if path is None or not _FIRST <= version <= _LAST:
        return None
    functions = ctypes.CDLL(path)
    if functions.rd_kafka_version() != confluent_kafka.libversion()[1]:
        return None

    import llvmlite.binding

    from nadi.kernel.columns import jit

    if jit.PLAIN:
        return None
    for name in CALLED:
        # by its address: to load the library once more with its names open to all would show them to other libraries, too
        llvmlite.binding.add_symbol(name, ctypes.cast(functions[name], ctypes.c_void_p).value)
    return Library(functions)


def _loaded() -> str | None:
    """The file of the library in this process."""
    try:
        lines = _MAPS.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None  # not Linux
    paths = {line.split(maxsplit=5)[5] for line in lines if "/librdkafka" in line}
    return paths.pop() if len(paths) == 1 else None
