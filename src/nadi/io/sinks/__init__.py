"""The types of `@sink`: one module for each type, and modules that several of them share.

Start with `file`, the simplest sink that delivers each row once; `http` is one that sends at least once.
"""
