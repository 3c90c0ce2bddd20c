"""The Java source and sink that Spark calls, and the building of their jar. They decide nothing: they ask the node and the hosts.

Start with `jar.ensure_jar`; the Java sources are in `java/nadi`, of which `LaneSource.java` asks for batches.
"""
