"""Where a node tells of its metrics: databases, files, logs, collectors.

Start with `console`, the shortest; `exposition` writes what Prometheus reads.
"""
