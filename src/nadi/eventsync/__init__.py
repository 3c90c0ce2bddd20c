"""Keeps a second copy of what the active node of a pair knows: sessions between the nodes, the log of the passive one, copies of services.

Start with `contract`, then `session` (the active node) and `passive` (the other one).
"""
