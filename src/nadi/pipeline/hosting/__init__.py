"""How processes find hosts and the coordinator, and the bytes that they exchange.

Start with `lane`: it has the frames, a server, a client, and what requests and answers hold.
"""
