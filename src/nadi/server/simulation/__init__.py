"""The event simulator of a worker: single events, and feeds of events from files, databases and chance.

Start with `simulator.make_simulator`, then `simulations`.
"""
