"""Apps on Spark: a node makes cuts, Spark carries them to hosts, hosts run kernels, the node commits.

The modules here put the packages below together.

Start with `run.Node`: it starts everything that `nadi run` needs, and stops it.
"""
