"""The state log: what each cut changed, in objects that are never replaced, and how a state is read again.

Start with `lines.Line`: it names the base and the deltas that make a state; `objects.write_deltas` writes them.
"""
