"""What it takes to start a server: a Java, sizes, and the jars."""

from __future__ import annotations

from typing import NamedTuple

from .jars import JarSource
from .java import Java
from .memory import Heaps


class Kit(NamedTuple):
    """The Java to run, the heaps to give, and where the jars come from."""

    java: Java
    heaps: Heaps
    jars: JarSource = JarSource()
