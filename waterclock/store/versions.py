"""What people read of a job's past: its versions, each as a command made it. They are immutable, and kept for ever."""

from __future__ import annotations

from typing import Protocol

from waterclock.model.job import JobVersion


class Versions(Protocol):
    """The versions of a job, also of a deleted one. Raises BackendDown."""

    def version(self, job_id: str, revision: int) -> JobVersion | None:
        """The one with this number."""
        ...

    def history(self, job_id: str, limit: int, below: int | None = None) -> list[JobVersion]:
        """Newest first, at most ``limit``; ``below``: only those with a smaller revision."""
        ...
