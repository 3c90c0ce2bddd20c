"""The worker: a server that hosts many apps, with its REST APIs, security and metrics.

Start with `worker.Worker`; `deployer.Deployer` keeps the node equal to the folder of apps.
"""
