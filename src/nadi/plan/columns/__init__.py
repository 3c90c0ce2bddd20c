"""What exists for the fast engine: which queries run on columns, what they keep of events, and what ties them to queries on rows.

All else in `nadi.plan` is true of an app, whichever engine runs it.

Start with `islands.islands`; modules that end on `support` say which windows, joins, patterns, functions and tables run on columns, and name what does not.
"""
