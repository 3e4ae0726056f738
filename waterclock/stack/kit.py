"""What it takes to start a server: a Java, sizes, and the jars."""

from __future__ import annotations

from typing import NamedTuple

from .jars import JarSource
from .java import Java
from .memory import Heaps


class Kit(NamedTuple):
    """The Java to run, the heaps to give, and where the jars come from.

    ``quick``: the servers compile their code once and lightly. They are ready for half the CPU time (Cassandra with its
    tables 9 instead of 15 s, Kafka 3 instead of 6), and slower under load: for a demo, never for a measurement.
    """

    java: Java
    heaps: Heaps
    jars: JarSource = JarSource()
    quick: bool = False

    @property
    def compiler_options(self) -> list[str]:
        """What ``quick`` means to the JVM."""
        return ["-XX:TieredStopAtLevel=1"] if self.quick else []
