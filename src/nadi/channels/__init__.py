"""Channels: the logs between the execution groups of a distributed app, on NATS JetStream or Kafka (`docs/internals/channels.md`).

    producer   sink ──► batches, per part ──► the channel ◄── progress, one record per cut and producer
    consumer   source ◄── the parts that it reads, in the order (order time, producer, part, number), as far as all producers have come

`records` is what stands in a channel, `writing` and `tracks` what a producer and a reader make of it: these know nothing of networks. `transport` is what they
need of one; `natschannel` and `kafkachannel` are the two there are. `source` and `sink` are the types of connectors, `administration` is what a manager does.

Start with `records`, then `transport.Transport`.
"""
