"""Revisions: the state of an app after one cut, kept outside of Spark in files or a database, and put back."""
