"""Who may do what on a worker.

Start with `guard.Guard`: each request goes through it; `permissions` says what a route needs.
"""
