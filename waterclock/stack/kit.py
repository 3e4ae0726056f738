"""What it takes to start a server: a Java, sizes, and the jars."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from . import class_archive
from .jars import Distribution, JarSource
from .java import Java
from .memory import Heaps


class Kit(NamedTuple):
    """The Java to run, the heaps to give, and where the jars come from.

    ``quick``: the servers compile their code once and lightly. They are ready for half the CPU time (Cassandra with its
    tables 9 instead of 15 s, Kafka 3 instead of 6), and slower under load: for a demo, never for a measurement.
    ``writes_archive``: they leave an archive of their classes behind instead of starting from it.
    """

    java: Java
    heaps: Heaps
    jars: JarSource = JarSource()
    quick: bool = False
    writes_archive: bool = False

    @property
    def compiler_options(self) -> list[str]:
        """What ``quick`` means to the JVM."""
        return ["-XX:TieredStopAtLevel=1"] if self.quick else []

    def class_options(self, distribution: Distribution, lib: Path) -> list[str]:
        """What the JVM is told of archives of classes."""
        of = class_archive.writing if self.writes_archive else class_archive.reading
        return of(distribution, lib, self.java)
