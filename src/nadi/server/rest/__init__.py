"""The REST APIs of a worker."""
