"""Everything that talks to the world outside: sources, sinks, mappers, the journal, the error store, and what they share.

Start with `contract`: it says what a source, a sink and a mapper are. `registry` lists those that exist.
"""
