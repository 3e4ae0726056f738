"""What can go wrong with the local stack, told as one cause and one next step.

A StackTrouble is for a person at a terminal: the command prints it and exits. Nothing in the roles raises it.
"""

from __future__ import annotations

from pathlib import Path

from waterclock.model.errors import WaterclockError


class StackTrouble(WaterclockError):
    """The local stack cannot do what was asked: ``message`` is the cause, ``hint`` the next step."""

    def __init__(self, message: str, *, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}"


# What the last words of a process mean, and what to do: the first pattern found wins.
_KNOWN_CAUSES = (
    ("Address already in use", "Something took its port in between: run the same command again"),
    ("OutOfMemoryError", "Its heap is too small for this load: set WATERCLOCK_STACK__HEAP_MB to a larger number"),
    (
        "There is insufficient memory",
        "The machine is out of memory: stop something, or lower WATERCLOCK_STACK__HEAP_MB",
    ),
    ("No space left on device", "The disk is full: free some space, or use another --data-dir"),
    ("UnsupportedClassVersionError", "This Java is too old: give --java-home of a Java 17"),
    ("Security Manager", "This Java is too new for Cassandra 5.0: give --java-home of a Java 17"),
    ("Permission denied", "It may not write there: use another --data-dir"),
    ("Failed to acquire lock on file", "Another Kafka uses this data folder: `waterclock status` shows whose"),
    ("CorruptSSTableException", "Data on disk is damaged: `waterclock down --purge` starts afresh"),
    ("Commit log replay failed", "Data on disk is damaged: `waterclock down --purge` starts afresh"),
)


def known_cause(last_lines: str) -> str:
    """The next step for these last words of a dead process, or a general one."""
    for sign, hint in _KNOWN_CAUSES:
        if sign in last_lines:
            return hint
    return "The log file says more; if the data is to blame, `waterclock down --purge` starts afresh"


def died(name: str, exit_code: int | None, log_path: Path, last_lines: str) -> StackTrouble:
    """The trouble of a process that ended although nobody stopped it."""
    return StackTrouble(
        f"{name} ended with exit code {exit_code} before it was ready. Its last lines ({log_path}):\n{last_lines}",
        hint=known_cause(last_lines),
    )
