"""From what a kernel gives to what a sink, the error store and the fault log take.

Start with `deliveries.delivery`.
"""
