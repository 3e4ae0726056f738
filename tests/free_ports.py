"""Ports for what a test starts. Several test runs may share one machine."""

from __future__ import annotations

from waterclock.stack.ports import any_port

_given: set[int] = set()


def free_port() -> int:
    """A port of 127.0.0.1 that nobody has, and that this process has not given out before."""
    port = any_port(_given)
    _given.add(port)
    return port
