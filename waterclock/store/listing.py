"""A line of a tenant's list of jobs."""

from __future__ import annotations

from typing import NamedTuple

from waterclock.model.ids import Instant
from waterclock.model.job import JobStatus


class JobListing(NamedTuple):
    """One line of a tenant's job list. (``created_at``, ``job_id``) is the page token."""

    job_id: str
    created_at: Instant
    kind: str
    status: JobStatus
