"""Writes readings of three machines to the topic `readings` and prints what arrives in `rising`: ten lines of it, or until Ctrl-C.

python examples/kafka/try.py [SERVERS]
"""

from __future__ import annotations

import json
import sys
import time
from uuid import uuid4

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

LINES = 10
PATIENCE = 20  # seconds
PATTERN = {"press": [60, 61, 63, 60], "oven": [200, 198, 205, 210], "saw": [40, 39, 38, 37]}


def main(servers: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    wanted = {"readings", "rising"} - set(admin.list_topics(timeout=10).topics)
    for made in admin.create_topics([NewTopic(t, num_partitions=2) for t in wanted]).values() if wanted else ():
        made.result()
    producer = Producer({"bootstrap.servers": servers})
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": f"try-{uuid4()}",
            "auto.offset.reset": "latest",
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe(["rising"])
    printed, step, hint_at = 0, 0, time.monotonic() + PATIENCE
    while printed < LINES:
        for machine, degrees in PATTERN.items():
            reading = {"machine": machine, "degrees": float(degrees[step % len(degrees)])}
            producer.produce("readings", json.dumps({"event": reading}), key=machine)
        producer.flush()
        step += 1
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            print("rising:", message.value().decode(), flush=True)
            printed += 1
        if not printed and time.monotonic() > hint_at:
            print("nothing yet: is `nadi run examples/kafka/temperatures.siddhi` running?", flush=True)
            hint_at += PATIENCE
    consumer.close()


if __name__ == "__main__":
    try:
        main(sys.argv[1] if len(sys.argv) > 1 else "localhost:19092")
    except KeyboardInterrupt:
        print("stopped")
