"""Managers and workers of a cluster: they do what `nadi.cluster` decides, on real networks, databases and machines.

Start with `managerserver.ClusterManager` and `workerserver.ClusterWorker`.
"""
