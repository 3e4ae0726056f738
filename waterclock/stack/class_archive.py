"""Archives of loaded classes for the local servers: with one, a start costs about half the CPU time (JEP 350).

A JVM writes its archive when it ends, so each server is started and stopped once for it (``archiving.py``). An archive
lies beside the jars and bears the name of what it was made by. Must hold: it changes how soon a server is ready and
nothing else; one that does not fit (another Java, other jars) is passed over by the JVM.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from .jars import CASSANDRA, Distribution
from .java import Java
from .trouble import StackTrouble

_WITH_AGENTS = ["-XX:+UnlockDiagnosticVMOptions", "-XX:+AllowArchivingWithJavaAgent"]
"""Cassandra's agent (jamm) measures objects and rewrites no class, which is what the JVM fears of agents."""


def reading(distribution: Distribution, lib: Path, java: Java) -> list[str]:
    """The JVM's options for a start from the archive; none where there is none."""
    path = _path(distribution, lib, java)
    return [*_agents(distribution), "-Xshare:auto", f"-XX:SharedArchiveFile={path}"] if path.exists() else []


def writing(distribution: Distribution, lib: Path, java: Java) -> list[str]:
    """The options of a JVM that leaves an archive behind when it is asked to stop."""
    return [*_agents(distribution), f"-XX:ArchiveClassesAtExit={_unfinished(_path(distribution, lib, java))}"]


def finish(distribution: Distribution, lib: Path, java: Java) -> Path:
    """Give what a JVM has written its name. Raises StackTrouble where it has written nothing."""
    path = _path(distribution, lib, java)
    unfinished = _unfinished(path)
    if not unfinished.exists():
        raise StackTrouble(
            f"{distribution.name} left no archive of classes at {unfinished}", hint="It starts without one, too"
        )
    unfinished.rename(path)
    return path


def is_there(distribution: Distribution, lib: Path, java: Java) -> bool:
    """Whether the archive of these jars and this Java was made."""
    return _path(distribution, lib, java).exists()


def _agents(distribution: Distribution) -> list[str]:
    return _WITH_AGENTS if distribution is CASSANDRA else []


def _path(distribution: Distribution, lib: Path, java: Java) -> Path:
    release = java.program.resolve().parent.parent / "release"
    told = release.read_bytes() if release.exists() else str(java.program).encode()
    mark = hashlib.blake2b(told, digest_size=6).hexdigest()
    return lib.with_name(f"{distribution.name}-{distribution.version}-{mark}.jsa")


def _unfinished(path: Path) -> Path:
    return path.with_suffix(".unfinished")
