"""The types of `@source`: one module for each type, and modules that several of them share.

Start with `nats`, a source whose server keeps a log; `http` is one that needs the journal.
"""
