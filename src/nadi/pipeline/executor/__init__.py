"""The hosts: processes beside Spark's JVM that keep kernels, inputs and sinks open between two cuts.

Start with `exchange.Exchanges.take`: one cut of one app in one host.
"""
