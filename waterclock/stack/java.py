"""Finds a Java that both servers run on: 17 to 23.

Kafka 4 needs 17; Cassandra 5.0 installs a security manager, which 24 removed, and which 18 to 23 allow only when
asked. Fails with StackTrouble that says what was found and what to do.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

from .trouble import StackTrouble

OLDEST = 17
NEWEST = 23

_WHAT_TO_DO = (
    "Install Java 17 (Debian: apt install openjdk-17-jre-headless), or name one with --java-home, "
    "or use servers that run already: --bootstrap HOST:PORT --contact-points HOST"
)


class Java(NamedTuple):
    """A Java runtime: the program, and its major version."""

    program: Path
    major: int

    @property
    def security_manager_options(self) -> list[str]:
        """What Cassandra needs from 18 on to install its security manager."""
        return [] if self.major == OLDEST else ["-Djava.security.manager=allow"]


def find_java(java_home: Path | None = None) -> Java:
    """The Java in ``java_home``, else in ``JAVA_HOME``, else on the path. Raises StackTrouble."""
    program = _program(java_home)
    major = _major(program)
    if major < OLDEST:
        raise StackTrouble(f"{program} is Java {major}; Kafka and Cassandra need {OLDEST}", hint=_WHAT_TO_DO)
    if major > NEWEST:
        raise StackTrouble(
            f"{program} is Java {major}, which lacks the security manager that Cassandra 5.0 installs", hint=_WHAT_TO_DO
        )
    return Java(program, major)


def _program(java_home: Path | None) -> Path:
    home = java_home or (Path(os.environ["JAVA_HOME"]) if os.environ.get("JAVA_HOME") else None)
    if home is not None:
        program = home / "bin" / "java"
        if not program.exists():
            raise StackTrouble(f"There is no bin/java in {home}", hint=_WHAT_TO_DO)
        return program
    found = shutil.which("java")
    if found is None:
        raise StackTrouble("There is no Java on this machine (none on the PATH, no JAVA_HOME)", hint=_WHAT_TO_DO)
    return Path(found)


def _major(program: Path) -> int:
    release = program.resolve().parent.parent / "release"  # saves a start of the JVM, 0.1 s
    text = release.read_text(errors="replace") if release.exists() else _said_by(program)
    match = re.search(r'(?:JAVA_VERSION=|version )"(?:1\.)?(\d+)', text)
    if match is None:
        raise StackTrouble(f"{program} does not say which Java it is", hint=_WHAT_TO_DO)
    return int(match[1])


def _said_by(program: Path) -> str:
    try:
        said = subprocess.run(  # noqa: S603 - a Java that the user named or has on the path
            [str(program), "-version"], capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise StackTrouble(f"{program} does not run: {error}", hint=_WHAT_TO_DO) from error
    return said.stderr + said.stdout
