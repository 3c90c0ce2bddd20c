"""Mappers make events of messages and messages of events: JSON, XML, CSV, text, Arrow.

Start with `json_source.JsonSource.decode`, and with `json_sink.JsonSink.encode` for the other direction.
"""
