"""Where a node tells of its metrics: databases, files, logs, collectors."""
