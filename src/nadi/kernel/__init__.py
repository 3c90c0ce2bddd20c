"""The engine of one bucket: a pure state machine. It takes arrivals and a clock, and gives rows and the next state.

It knows no Spark, no file, no network and no clock of the machine.

Start with `contract.Kernel`: both engines do what it says.
"""
