"""Which topics' records may start whose jobs: a setting, asked at every door and once more by who reads the topics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from .errors import RequestError
from .ids import split_job_id
from .triggers import RecordComes, Triggers

Sources: TypeAlias = Mapping[str, frozenset[str]]
"""By topic the tenants whose jobs its records may start; ``*``: any tenant's."""

ANYBODY = "*"


def sources_of(setting: Mapping[str, Iterable[str]]) -> Sources:
    """What ``intake.sources`` says."""
    return {topic: frozenset(tenants) for topic, tenants in setting.items()}


def may_hear(sources: Sources, tenant: str, topic: str) -> bool:
    """Whether records of ``topic`` may start jobs of ``tenant``."""
    allowed = sources.get(topic, frozenset())
    return tenant in allowed or ANYBODY in allowed


def check_sources(sources: Sources, job_id: str, on: Triggers | None) -> None:
    """Refuse a condition on records that nobody would hear of: RequestError."""
    for place, each in enumerate(on.conditions if on is not None else ()):
        if isinstance(each, RecordComes) and not may_hear(sources, split_job_id(job_id)[0], each.topic):
            word = "all" if on is not None and on.wants_all else "any"
            raise RequestError(
                f"Records of {each.topic} start no jobs of {split_job_id(job_id)[0]}",
                pointer=f"/on/{word}/{place}/topic",
                hint="Who runs Waterclock names topic and tenant in `intake.sources` of waterclock.toml, for all roles",
            )
