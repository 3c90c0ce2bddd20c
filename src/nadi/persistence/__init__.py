"""Revisions: the state of an app after one cut, kept outside of Spark in files, an object store or a database, and put back.

Start with `revisions`; `restoredstate` puts a state into another version of an app.
"""
