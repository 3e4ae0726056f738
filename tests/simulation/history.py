"""What clients say that they did: one record of its own, kept outside the system, beside topics and tables (**H**).

Each try of an operation has a line: when it was called and when it returned (ticks), and how: ``ok`` (2xx, or the
record stands), ``fail`` (refused, aborted, never sent) or ``info`` (nobody knows: no answer, or one that promises
nothing). Must hold: a line is written by the client alone, from what it saw.
"""

from __future__ import annotations

from dataclasses import dataclass

NEVER = -1


@dataclass(slots=True)
class Line:
    """One try. ``op``: the intention, the same for each try; ``key``: its Idempotency-Key, "" where there is none.

    ``place``: topic, partition and offset, where the client wrote a record itself. ``body``: what was sent, ``answer``
    what came back. ``is_sound``: whether what was sent is a job event that the intake has to take.
    """

    op: str
    door: str
    tenant: str
    job_id: str
    kind: str
    key: str
    called_at: int
    returned_at: int = NEVER
    result: str = "info"
    status: int = 0
    answer: bytes = b""
    body: bytes = b""
    place: tuple[str, int, int] | None = None
    is_sound: bool = True
    is_replay: bool = False

    def close(self, at: int, result: str, *, status: int = 0, answer: bytes = b"") -> None:
        """The client heard how it ended."""
        self.returned_at, self.result, self.status, self.answer = at, result, status, answer


class History:
    """All lines, in the order of their calls."""

    def __init__(self) -> None:
        self.lines: list[Line] = []

    def call(self, line: Line) -> Line:
        """An operation begins."""
        self.lines.append(line)
        return line
