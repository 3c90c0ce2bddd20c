"""The worker: a server that hosts many apps, with its REST APIs, security and metrics."""
