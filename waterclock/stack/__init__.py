"""The local stack: real Kafka and Cassandra as child processes, and the roles on top of them.

No container engine is needed: Maven fetches the jars, Java 17 runs them. Everything lives in one data folder and on
127.0.0.1, so that two clones run side by side. What goes wrong is told with one cause and one next step
(:class:`~waterclock.stack.trouble.StackTrouble`).
"""
